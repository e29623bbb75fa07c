// The devices that a driver's library reports, in one form for NVIDIA and AMD.
#pragma once

#include <string>
#include <vector>

namespace sccl::topology::probe {

struct DeviceLink {
  std::string target;        // PCI address of the other end; kInvisibleTarget when hidden
  std::string target_class;  // PCI class of the other end
  int count = 1;
};

struct Device {
  int index = 0;  // the library's number of the device
  std::string busid;
  std::string sm;   // compute capability, e.g. "70"; empty on AMD
  std::string gcn;  // architecture, e.g. "gfx90a"; empty on NVIDIA
  std::vector<DeviceLink> links;
};

struct Devices {
  std::string link_tag;  // "nvlink" or "xgmi"
  std::vector<Device> devices;
  std::vector<std::string> notes;  // what was ignored and why, one line each
};

inline constexpr const char* kInvisibleTarget = "fffffff:ffff:ff";
inline constexpr const char* kNvidiaGpuClass = "0x030200";
inline constexpr const char* kAmdGpuClass = "0x038000";
inline constexpr const char* kNvswitchClass = "0x068000";

}  // namespace sccl::topology::probe
