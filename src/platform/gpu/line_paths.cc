#include "platform/gpu/line_paths.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "topology/probe/nvml.h"
#include "topology/probe/peers.h"
#include "topology/probe/rocm_smi.h"

namespace sccl::runtime {
namespace {

namespace probe = topology::probe;

constexpr int kLeastCapability = 70;

// HIP's names: "native-AMD-Instinct-MI250X". MI25 has only two digits and is another generation.
bool is_mi200_or_mi300(const std::string& name) {
  for (const char* series : {"MI2", "MI3"}) {
    const std::size_t at = name.find(series);
    if (at == std::string::npos || at + 5 > name.size()) continue;
    if (std::isdigit(static_cast<unsigned char>(name[at + 3])) != 0 &&
        std::isdigit(static_cast<unsigned char>(name[at + 4])) != 0)
      return true;
  }
  return false;
}

bool keeps_lines(const gpu::Device& device) {
  if (device.driver->vendor == gpu::Vendor::hip) return is_mi200_or_mi300(device.architecture);
  int capability = 0;
  const std::string digits =
      device.architecture.substr(std::min<std::size_t>(3, device.architecture.size()));  // "sm_90"
  std::from_chars(digits.data(), digits.data() + digits.size(), capability);
  return capability >= kLeastCapability;
}

// What is known about links from one device. A driver knows only links to devices that this process sees.
class OwnLinks {
 public:
  OwnLinks(gpu::Vendor vendor, std::string busid) : vendor_(vendor), busid_(std::move(busid)) {
    std::string why_not;
    pairs_ = vendor == gpu::Vendor::cuda ? probe::cuda_peers("libcuda.so.1", why_not)
                                         : probe::hip_peers("libamdhip64.so", why_not);
  }

  bool join(const std::string& other) {
    if (busid_.empty() || other.empty()) return false;
    if (pairs_)
      for (const probe::PeerPair& pair : pairs_->pairs)
        if (pair.src == busid_ && pair.dst == other) return pair.own_link;
    return managed_link(other);
  }

 private:
  bool managed_link(const std::string& other) {
    if (!asked_) {
      std::string why_not;
      managed_ = vendor_ == gpu::Vendor::cuda ? probe::nvml_devices("libnvidia-ml.so.1", why_not)
                                              : probe::rocm_devices("librocm_smi64.so", why_not);
      asked_ = true;
    }
    const auto to_switch = [](const probe::DeviceLink& link) { return link.target_class == probe::kNvswitchClass; };
    return has(busid_, [&](const probe::DeviceLink& link) { return link.target == other; }) ||
           (has(busid_, to_switch) && has(other, to_switch));
  }

  template <typename Fits>
  bool has(const std::string& from, Fits&& fits) const {
    if (!managed_) return false;
    for (const probe::Device& device : managed_->devices)
      if (device.busid == from) return std::any_of(device.links.begin(), device.links.end(), fits);
    return false;
  }

  gpu::Vendor vendor_;
  std::string busid_;
  std::optional<probe::Peers> pairs_;
  std::optional<probe::Devices> managed_;
  bool asked_ = false;
};

}  // namespace

LineVerdict judge_lines(const gpu::Device& device, std::span<const LinePeer> peers) {
  if (!keeps_lines(device)) return LineVerdict::old_device;
  std::optional<OwnLinks> links;
  for (const LinePeer& peer : peers) {
    if (peer.id == device.id) continue;
    if (!links) links.emplace(device.driver->vendor, device.busid);
    if (!links->join(peer.busid)) return LineVerdict::other_link;
  }
  return LineVerdict::whole;
}

std::string cause(LineVerdict verdict) {
  switch (verdict) {
    case LineVerdict::whole:
      return "nothing";
    case LineVerdict::not_wanted:
      return "the settings allow no ll128";
    case LineVerdict::other_link:
      return "some devices are not known to be joined by NVLink or xGMI, and other links may cut lines of 128 bytes";
    case LineVerdict::old_device:
      return "a device is not known to store lines of 128 bytes whole (NVIDIA's do since compute capability 7.0, AMD's "
             "MI200 "
             "and MI300)";
    case LineVerdict::host_memory:
      return "some ranks exchange data through host memory, whose bus may cut lines of 128 bytes";
  }
  return "an unknown reason";
}

}  // namespace sccl::runtime
