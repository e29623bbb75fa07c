#include "topology/probe/peers.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.h"
#include "base/os/shared_library.h"
#include "topology/system/system.h"

namespace sccl::topology::probe {
namespace {

// Both drivers' functions have the same signatures. Devices are numbers: CUDA's handles are ordinals.
using Status = int;
constexpr Status kSuccess = 0;

struct Names {
  const char *init, *count, *busid, *can_access, *attribute;
};
constexpr Names kCuda{"cuInit", "cuDeviceGetCount", "cuDeviceGetPCIBusId", "cuDeviceCanAccessPeer",
                      "cuDeviceGetP2PAttribute"};
constexpr Names kHip{"hipInit", "hipGetDeviceCount", "hipDeviceGetPCIBusId", "hipDeviceCanAccessPeer",
                     "hipDeviceGetP2PAttribute"};

struct Numbers {
  int access, atomics;
};
constexpr Numbers kCudaNumbers{2, 3};
constexpr Numbers kHipNumbers{1, 2};

constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;  // CUDA's attributes of a device
constexpr std::uint32_t kHsaXgmi = 4;                        // HSA_AMD_LINK_INFO_TYPE_XGMI

struct Api {
  Status (*init)(unsigned);
  Status (*count)(int*);
  Status (*busid)(char*, int bytes, int device);
  Status (*can_access)(int*, int device, int peer);
  // Missing in old drivers.
  Status (*attribute)(int*, int attribute, int device, int peer) = nullptr;
  Status (*device_attribute)(int*, int attribute, int device) = nullptr;              // CUDA's
  Status (*link_type)(int, int, std::uint32_t* type, std::uint32_t* hops) = nullptr;  // HIP's
  Numbers numbers{};

  bool load(const SharedLibrary& library, const Names& names) {
    library.find(names.attribute, attribute);
    return library.find(names.init, init) && library.find(names.count, count) && library.find(names.busid, busid) &&
           library.find(names.can_access, can_access);
  }

  int ask(int which, int device, int peer) const {
    int value = 0;
    return attribute != nullptr && attribute(&value, which, device, peer) == kSuccess ? value : 0;
  }

  // Access if either function says so: the attribute is newer, the older function exists in all versions.
  bool access(int device, int peer) const {
    int can = 0;
    if (can_access(&can, device, peer) != kSuccess) can = 0;
    return can != 0 || ask(numbers.access, device, peer) != 0;
  }

  bool own_link(int device, int peer) const {
    if (link_type != nullptr) {
      std::uint32_t type = 0, hops = 0;
      return link_type(device, peer, &type, &hops) == kSuccess && type == kHsaXgmi && hops == 1;
    }
    return ask(numbers.atomics, device, peer) != 0;
  }
};

std::optional<SharedLibrary> open_any(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (auto library = SharedLibrary::in_memory(name)) return library;
  for (const std::string& name : names)
    if (auto library = SharedLibrary::open(name)) return library;
  return std::nullopt;
}

std::string sm_of(const Api& api, int device) {
  int major = 0, minor = 0;
  if (api.device_attribute == nullptr || api.device_attribute(&major, kCapabilityMajor, device) != kSuccess ||
      api.device_attribute(&minor, kCapabilityMinor, device) != kSuccess)
    return "";
  return std::to_string(10 * major + minor);
}

std::optional<Peers> ask_all(const Api& api, const std::string& library_name, Peers peers, const char* link_class,
                             std::string& why_not) {
  if (const Status code = api.init(0); code != kSuccess) {
    why_not = fmt::format("{} finds no device (code {})", library_name, code);
    return std::nullopt;
  }
  int count = 0;
  if (api.count(&count) != kSuccess) count = 0;
  std::vector<int> numbers;
  for (int device = 0; device < count; ++device) {
    std::array<char, 64> text{};
    if (api.busid(text.data(), static_cast<int>(text.size()) - 1, device) != kSuccess) continue;
    Device& entry = peers.devices.devices.emplace_back();
    entry.index = device;
    entry.busid = normal_busid(text.data());
    entry.sm = sm_of(api, device);
    numbers.push_back(device);
  }
  std::vector<Device>& devices = peers.devices.devices;
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = 0; b < devices.size(); ++b) {
      // Parts of one device (MIG) share the device's address.
      if (devices[a].busid == devices[b].busid) continue;
      PeerPair pair{devices[a].busid, devices[b].busid, api.access(numbers[a], numbers[b]), false};
      pair.own_link = pair.access && api.own_link(numbers[a], numbers[b]);
      if (pair.own_link) devices[a].links.push_back({pair.dst, link_class, 1});
      peers.pairs.push_back(std::move(pair));
    }
  return peers;
}

}  // namespace

std::optional<Peers> cuda_peers(const std::string& library_name, std::string& why_not) {
  if (library_name.empty()) return std::nullopt;
  const std::optional<SharedLibrary> library = open_any({library_name});
  Api api{};
  api.numbers = kCudaNumbers;
  if (!library || !api.load(*library, kCuda)) {
    why_not = fmt::format("{} is {}", library_name, library ? "too old: it lacks a function" : "not installed");
    return std::nullopt;
  }
  library->find("cuDeviceGetAttribute", api.device_attribute);
  return ask_all(api, library_name, {{"nvlink", {}, {}}, {}}, kNvidiaGpuClass, why_not);
}

std::optional<Peers> hip_peers(const std::string& library_name, std::string& why_not) {
  if (library_name.empty()) return std::nullopt;
  const std::optional<SharedLibrary> library =
      open_any({library_name, library_name + ".7", library_name + ".6", library_name + ".5"});
  Api api{};
  api.numbers = kHipNumbers;
  if (!library || !api.load(*library, kHip)) {
    why_not = fmt::format("{} is {}", library_name, library ? "too old: it lacks a function" : "not installed");
    return std::nullopt;
  }
  library->find("hipExtGetLinkTypeAndHopCount", api.link_type);
  return ask_all(api, library_name, {{"xgmi", {}, {}}, {}}, kAmdGpuClass, why_not);
}

void drop_refused(Devices& devices, const Peers& peers) {
  for (Device& device : devices.devices)
    std::erase_if(device.links, [&](const DeviceLink& link) {
      const bool refused = std::any_of(peers.pairs.begin(), peers.pairs.end(), [&](const PeerPair& pair) {
        return !pair.access && pair.src == device.busid && pair.dst == link.target;
      });
      if (refused)
        devices.notes.push_back(
            fmt::format("links from {} to {} are left out: kernels may not use that device's memory "
                        "(see nvidia-smi topo -p2p r, rocm-smi --shownodesbw)",
                        device.busid, link.target));
      return refused;
    });
}

}  // namespace sccl::topology::probe
