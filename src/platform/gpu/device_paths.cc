#include "platform/gpu/device_paths.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/error.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "topology/probe/nvml.h"
#include "topology/probe/sysfs.h"

namespace sccl::runtime {
namespace {

namespace probe = topology::probe;

// NCCL's level names, each with the largest distance it allows, and the numbers that older versions used.
struct Level {
  const char* name;
  const char* number;
  std::optional<Distance> farthest;  // none: no pair at all
};
constexpr std::array<Level, 6> kLevels{{{"LOC", "0", std::nullopt},
                                        {"NVL", "-", Distance::nvlink},
                                        {"PIX", "1", Distance::one_switch},
                                        {"PXB", "2", Distance::switches},
                                        {"PHB", "3", Distance::host_bridge},
                                        {"SYS", "4", Distance::system}}};

const Level* level_named(std::string name) {
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (name == "5") name = "4";  // 5 once meant the distance to other hosts
  const auto found = std::find_if(kLevels.begin(), kLevels.end(),
                                  [&](const Level& level) { return name == level.name || name == level.number; });
  return found == kLevels.end() ? nullptr : &*found;
}

bool have_nvlink(const std::string& one, const std::string& other) {
  std::string why_not;
  const auto known = probe::nvml_devices("libnvidia-ml.so.1", why_not);
  if (!known) return false;
  const auto has = [&](const std::string& from, const auto& fits) {
    for (const probe::Device& device : known->devices)
      if (device.busid == from) return std::any_of(device.links.begin(), device.links.end(), fits);
    return false;
  };
  const auto to_switch = [](const probe::DeviceLink& link) { return link.target_class == probe::kNvswitchClass; };
  return has(one, [&](const probe::DeviceLink& link) { return link.target == other; }) ||
         (has(one, to_switch) && has(other, to_switch));
}

std::string tag_value(const topology::Element& element, const char* name) { return std::string(element.get(name)); }

}  // namespace

PathTable::PathTable(const std::vector<std::vector<PathVerdict>>& verdicts)
    : ranks_(static_cast<int>(verdicts.size())), worst_(verdicts.size() * verdicts.size(), PathVerdict::good) {
  const std::size_t ranks = verdicts.size();
  for (std::size_t one = 0; one < ranks; ++one)
    if (verdicts[one].size() != ranks)
      fail(ErrorCode::invalid_usage, "rank {} judged {} peers instead of {}: use one library version on all ranks", one,
           verdicts[one].size(), ranks);
  for (std::size_t one = 0; one < ranks; ++one)
    for (std::size_t other = 0; other < ranks; ++other)
      worst_[one * ranks + other] = std::max(verdicts[one][other], verdicts[other][one]);
}

bool PathTable::any_staged() const {
  return std::any_of(worst_.begin(), worst_.end(), [](PathVerdict verdict) { return verdict != PathVerdict::good; });
}

std::vector<Rank> PathTable::staged_sources(Rank receiver) const {
  std::vector<Rank> sources;
  for (Rank source = 0; source < ranks_; ++source)
    if (staged(source, receiver)) sources.push_back(source);
  return sources;
}

Distance distance_between(const std::string& pci_id, const std::string& other_pci_id) {
  if (!pci_id.empty() && pci_id == other_pci_id) return Distance::same_device;
  if (have_nvlink(pci_id, other_pci_id)) return Distance::nvlink;
  const probe::Sysfs kernel("/");
  const auto one = kernel.chain(pci_id);
  const auto other = kernel.chain(other_pci_id);
  if (!one || !other || tag_value(one->front(), "numaid") != tag_value(other->front(), "numaid"))
    return Distance::system;
  std::size_t shared = 1;  // the CPU
  while (shared < std::min(one->size(), other->size()) &&
         tag_value((*one)[shared], "busid") == tag_value((*other)[shared], "busid"))
    ++shared;
  if (shared == 1) return Distance::host_bridge;
  return one->size() - shared <= 1 && other->size() - shared <= 1 ? Distance::one_switch : Distance::switches;
}

PathVerdict allowed_path(const std::string& pci_id, const std::string& other_pci_id) {
  if (env::flag("NCCL_P2P_DISABLE", false)) return PathVerdict::disabled;
  const auto wanted = env::text("NCCL_P2P_LEVEL");
  if (!wanted) return PathVerdict::good;
  const Level* const level = level_named(*wanted);
  if (level == nullptr) {
    log::warn("NCCL_P2P_LEVEL={} is none of LOC, NVL, PIX, PXB, PHB, SYS and 0 to 5: continuing with SYS", *wanted);
    return PathVerdict::good;
  }
  if (level->farthest == Distance::system) return PathVerdict::good;
  const bool near = level->farthest && distance_between(pci_id, other_pci_id) <= *level->farthest;
  return near ? PathVerdict::good : PathVerdict::too_far;
}

std::string cause(PathVerdict verdict) {
  switch (verdict) {
    case PathVerdict::good:
      return "nothing";
    case PathVerdict::unseen:
      return "kernels that run do not see what the other device stores: update the driver (ROCm needs uncached or "
             "fine-grained memory of devices), or look for PCIe ACS and IOMMU settings";
    case PathVerdict::timed_out:
      return "peer access is claimed, but data took too long: PCIe ACS or an IOMMU may hold peer writes up (sccl "
             "doctor; "
             "iommu=pt, or ACS off in the BIOS)";
    case PathVerdict::wrong_data:
      return "peer access is claimed, but wrong data arrived: PCIe ACS or an IOMMU redirects peer writes (sccl doctor; "
             "iommu=pt, or ACS off in the BIOS)";
    case PathVerdict::unmapped:
      return "the driver does not map the peer's memory: containers that do not share the devices, or their IPC "
             "namespace";
    case PathVerdict::no_access:
      return "the driver allows no peer access: no NVLink, and PCIe peer access is off for these cards or this machine "
             "(nvidia-smi topo -p2p r)";
    case PathVerdict::too_far:
      return "they are farther apart than NCCL_P2P_LEVEL allows";
    case PathVerdict::disabled:
      return "NCCL_P2P_DISABLE is set";
  }
  return "an unknown reason";
}

}  // namespace sccl::runtime
