#include "topology/probe/nvml.h"

#include <array>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/os/shared_library.h"
#include "topology/system/system.h"

namespace sccl::topology::probe {
namespace {

// The part of the library's interface that is used, with the types of NVIDIA's documentation: versions 3 and 2 of the
// two structs.
using Return = int;
using Handle = void*;
constexpr Return kSuccess = 0;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

enum RemoteType { kRemoteGpu = 0, kRemoteNpu = 1, kRemoteSwitch = 2 };
enum P2pCapability { kP2pRead = 0, kP2pWrite = 1 };
constexpr int kP2pOk = 0;
constexpr unsigned kMostLinks = 36;  // more than any device has; the library refuses unknown numbers

struct Api {
  Return (*init)();
  Return (*shutdown)();
  Return (*count)(unsigned*);
  Return (*by_index)(unsigned, Handle*);
  Return (*pci_info)(Handle, PciInfo*);
  Return (*capability)(Handle, int*, int*);
  // Missing in old libraries; then no NVLinks are reported.
  Return (*link_state)(Handle, unsigned, int*) = nullptr;
  Return (*link_remote)(Handle, unsigned, PciInfo*) = nullptr;
  Return (*link_type)(Handle, unsigned, int*) = nullptr;
  Return (*p2p_status)(Handle, Handle, int, int*) = nullptr;

  bool load(const SharedLibrary& library) {
    library.find("nvmlDeviceGetNvLinkState", link_state);
    library.find("nvmlDeviceGetNvLinkRemotePciInfo_v2", link_remote);
    library.find("nvmlDeviceGetNvLinkRemoteDeviceType", link_type);
    library.find("nvmlDeviceGetP2PStatus", p2p_status);
    return library.find("nvmlInit_v2", init) && library.find("nvmlShutdown", shutdown) &&
           library.find("nvmlDeviceGetCount_v2", count) && library.find("nvmlDeviceGetHandleByIndex_v2", by_index) &&
           library.find("nvmlDeviceGetPciInfo_v3", pci_info) &&
           library.find("nvmlDeviceGetCudaComputeCapability", capability);
  }
};

std::string busid_of(const PciInfo& info) {
  const std::string text(info.bus_id, strnlen(info.bus_id, sizeof info.bus_id));
  // For hidden devices, virtual machines show an address of ones or no address.
  if (text.empty() || text.find_first_of("fF") == 0) return kInvisibleTarget;
  return normal_busid(text);
}

std::vector<DeviceLink> links_of(const Api& api, Handle device) {
  std::map<std::pair<std::string, std::string>, int> counts;  // by target and the target's class
  for (unsigned link = 0; api.link_state != nullptr && api.link_remote != nullptr && link < kMostLinks; ++link) {
    int active = 0;
    if (api.link_state(device, link, &active) != kSuccess) break;
    if (active == 0) continue;
    PciInfo remote{};
    std::string target = kInvisibleTarget;
    if (api.link_remote(device, link, &remote) == kSuccess) target = busid_of(remote);
    int type = target == kInvisibleTarget ? kRemoteSwitch : kRemoteGpu;
    if (api.link_type != nullptr) {
      int told = 0;
      if (api.link_type(device, link, &told) == kSuccess && told <= kRemoteSwitch) type = told;
    }
    constexpr std::array<const char*, 3> kClasses{kNvidiaGpuClass, "0x068001", kNvswitchClass};
    ++counts[{target, kClasses[static_cast<std::size_t>(type)]}];
  }
  std::vector<DeviceLink> links;
  for (const auto& [key, count] : counts) links.push_back({key.first, key.second, count});
  return links;
}

// Drops links that the driver does not let peers use.
void drop_refused(const Api& api, const std::vector<Handle>& handles, Devices& found) {
  if (api.p2p_status == nullptr) return;
  std::map<std::string, std::size_t> by_busid;
  for (std::size_t i = 0; i < found.devices.size(); ++i) by_busid[found.devices[i].busid] = i;
  for (std::size_t i = 0; i < found.devices.size(); ++i)
    std::erase_if(found.devices[i].links, [&](const DeviceLink& link) {
      const auto peer = by_busid.find(link.target);
      if (peer == by_busid.end()) return false;
      int read = kP2pOk, write = kP2pOk;
      const bool told = api.p2p_status(handles[i], handles[peer->second], kP2pRead, &read) == kSuccess &&
                        api.p2p_status(handles[i], handles[peer->second], kP2pWrite, &write) == kSuccess;
      if (!told || (read == kP2pOk && write == kP2pOk)) return false;
      found.notes.push_back(
          fmt::format("NVLinks from {} to {} are left out: the driver refuses peer access (status {})",
                      found.devices[i].busid, link.target, read != kP2pOk ? read : write));
      return true;
    });
}

}  // namespace

std::optional<Devices> nvml_devices(const std::string& library_name, std::string& why_not) {
  if (library_name.empty()) return std::nullopt;
  const std::optional<SharedLibrary> library = SharedLibrary::open(library_name);
  Api api{};
  if (!library) {
    why_not = fmt::format("{} is not installed", library_name);
    return std::nullopt;
  }
  if (!api.load(*library)) {
    why_not = fmt::format("{} is too old: it lacks a function", library_name);
    return std::nullopt;
  }
  if (const Return code = api.init(); code != kSuccess) {
    why_not = fmt::format("{} finds no driver (code {})", library_name, code);
    return std::nullopt;
  }
  Devices found{"nvlink", {}, {}};
  std::vector<Handle> handles;
  unsigned count = 0;
  if (api.count(&count) != kSuccess) count = 0;
  for (unsigned index = 0; index < count; ++index) {
    Handle handle = nullptr;
    PciInfo pci{};
    if (api.by_index(index, &handle) != kSuccess || api.pci_info(handle, &pci) != kSuccess) {
      found.notes.push_back(fmt::format("GPU {} does not answer and is left out: see nvidia-smi", index));
      continue;
    }
    Device device;
    device.index = static_cast<int>(index);
    device.busid = busid_of(pci);
    int major = 0, minor = 0;
    if (api.capability(handle, &major, &minor) == kSuccess) device.sm = std::to_string(10 * major + minor);
    device.links = links_of(api, handle);
    handles.push_back(handle);
    found.devices.push_back(std::move(device));
  }
  drop_refused(api, handles, found);
  api.shutdown();
  return found;
}

}  // namespace sccl::topology::probe
