#include "topology/probe/rocm_smi.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "base/os/shared_library.h"

namespace sccl::topology::probe {
namespace {

using Status = int;
constexpr Status kSuccess = 0;
constexpr int kLinkXgmi = 2;  // RSMI_IOLINK_TYPE_XGMI

struct Api {
  Status (*init)(std::uint64_t);
  Status (*shutdown)();
  Status (*count)(std::uint32_t*);
  Status (*pci_id)(std::uint32_t, std::uint64_t*);
  Status (*link_type)(std::uint32_t, std::uint32_t, std::uint64_t*, int*);
  // Missing in old libraries; then every link counts as single, and architectures are unknown.
  Status (*bandwidth)(std::uint32_t, std::uint32_t, std::uint64_t*, std::uint64_t*) = nullptr;
  Status (*target_version)(std::uint32_t, std::uint64_t*) = nullptr;

  bool load(const SharedLibrary& library) {
    library.find("rsmi_minmax_bandwidth_get", bandwidth);
    library.find("rsmi_dev_target_graphics_version_get", target_version);
    return library.find("rsmi_init", init) && library.find("rsmi_shut_down", shutdown) &&
           library.find("rsmi_num_monitor_devices", count) && library.find("rsmi_dev_pci_id_get", pci_id) &&
           library.find("rsmi_topo_get_link_type", link_type);
  }
};

std::string busid_of(std::uint64_t id) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", (id >> 32) & 0xffffffffu, (id >> 8) & 0xffu, (id >> 3) & 0x1fu,
                     id & 7u);
}

// The library reports 908 and 90a as decimal 908 and 9010.
std::string gcn_name(std::uint64_t version) {
  if (version == 9010) return "gfx90a";
  return fmt::format("gfx{}", version);
}

// The library reports the bandwidth between two devices: its minimum is that of one link, its maximum that of all
// links.
int link_count(const Api& api, std::uint32_t src, std::uint32_t dst) {
  std::uint64_t least = 0, most = 0;
  if (api.bandwidth == nullptr || api.bandwidth(src, dst, &least, &most) != kSuccess || least == 0) return 1;
  return static_cast<int>(std::clamp<std::uint64_t>(most / least, 1, 16));
}

}  // namespace

std::optional<Devices> rocm_devices(const std::string& library_name, std::string& why_not) {
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
  if (const Status code = api.init(0); code != kSuccess) {
    why_not = fmt::format("{} finds no driver (code {})", library_name, code);
    return std::nullopt;
  }
  Devices found{"xgmi", {}, {}};
  std::uint32_t count = 0;
  if (api.count(&count) != kSuccess) count = 0;
  std::vector<std::string> busids(count);
  for (std::uint32_t index = 0; index < count; ++index) {
    std::uint64_t id = 0;
    if (api.pci_id(index, &id) == kSuccess)
      busids[index] = busid_of(id);
    else
      found.notes.push_back(fmt::format("GPU {} does not answer and is left out: see rocm-smi", index));
  }
  for (std::uint32_t src = 0; src < count; ++src) {
    if (busids[src].empty()) continue;
    Device device;
    device.index = static_cast<int>(src);
    device.busid = busids[src];
    std::uint64_t version = 0;
    if (api.target_version != nullptr && api.target_version(src, &version) == kSuccess) device.gcn = gcn_name(version);
    for (std::uint32_t dst = 0; dst < count; ++dst) {
      if (dst == src || busids[dst].empty()) continue;
      std::uint64_t hops = 0;
      int type = 0;
      // The library also lists pairs that are more than one hop apart; their path consists of other pairs' links.
      if (api.link_type(src, dst, &hops, &type) != kSuccess || type != kLinkXgmi || hops != 1) continue;
      device.links.push_back({busids[dst], kAmdGpuClass, link_count(api, src, dst)});
    }
    found.devices.push_back(std::move(device));
  }
  api.shutdown();
  return found;
}

}  // namespace sccl::topology::probe
