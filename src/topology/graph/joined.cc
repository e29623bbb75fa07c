#include "topology/graph/joined.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "topology/graph/metrics.h"

namespace sccl::topology {
namespace {

bool reaches_all(const Topology& topology) {
  const std::vector<int> hops = hops_from(topology, 0);
  return std::all_of(hops.begin(), hops.end(), [](int distance) { return distance >= 0; });
}

// The first `count` devices of a breadth-first search. Each device is found from one found before; so the devices stay
// joined without the rest of the machine, provided that links lead both ways.
std::vector<int> neighbourhood(const Topology& machine, Rank first, int count) {
  std::vector<Node> found{first};
  std::vector<bool> seen(static_cast<std::size_t>(machine.nodes()), false);
  seen[static_cast<std::size_t>(first)] = true;
  std::vector<int> devices;
  for (std::size_t at = 0; at < found.size() && static_cast<int>(devices.size()) < count; ++at) {
    if (found[at] < machine.ranks) devices.push_back(found[at]);
    for (const Link& link : machine.links) {
      if (link.src != found[at] || seen[static_cast<std::size_t>(link.dst)]) continue;
      seen[static_cast<std::size_t>(link.dst)] = true;
      found.push_back(link.dst);
    }
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

}  // namespace

bool joined(const Topology& topology) {
  if (!reaches_all(topology)) return false;
  Topology backwards = topology;
  for (Link& link : backwards.links) std::swap(link.src, link.dst);
  return reaches_all(backwards);
}

Places places_on(const Topology& machine, std::span<const int> inherited, const Part& part) {
  const auto count = inherited.size();
  const auto serves = [&](const std::vector<int>& devices) { return devices.size() == count && joined(part(devices)); };
  std::set<int> known;
  for (const int device : inherited)
    if (device >= 0 && device < machine.ranks) known.insert(device);
  if (known.size() == count) {
    const std::vector<int> devices(inherited.begin(), inherited.end());
    if (serves(devices)) return {devices, ""};
    return {{}, fmt::format("no links join the devices {} of this communicator", fmt::join(devices, ","))};
  }
  const std::string none = fmt::format("no {} of its devices are joined by links", count);
  if (count > static_cast<std::size_t>(machine.ranks)) return {{}, none};
  std::vector<int> devices(count);
  std::iota(devices.begin(), devices.end(), 0);
  if (serves(devices)) return {devices, ""};
  for (Rank first = 0; first < machine.ranks; ++first) {
    devices = neighbourhood(machine, first, static_cast<int>(count));
    if (serves(devices))
      return {
          devices,
          fmt::format("no links join its first {} devices: ranks take the devices {}; name others after a colon, as in "
                      "dgx1v:0,1,4",
                      count, fmt::join(devices, ","))};
  }
  return {{}, none};
}

}  // namespace sccl::topology
