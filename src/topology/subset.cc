// A machine reduced to some of its devices.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "topology/presets.h"
#include "topology/twin_switches.h"

namespace sccl::topology {
namespace {

// New number of each kept node: the devices in the given order, then the switches that still join two kept nodes.
std::map<Node, Node> renumbered(const Topology& topology, std::span<const int> devices) {
  std::map<Node, Node> number;
  for (const int device : devices) {
    if (device < 0 || device >= topology.ranks)
      fail(ErrorCode::invalid_argument, "device {} is not one of 0..{} of topology '{}'", device, topology.ranks - 1,
           topology.name);
    if (!number.emplace(device, static_cast<Node>(number.size())).second)
      fail(ErrorCode::invalid_argument, "device {} is named twice: name each once", device);
  }
  // A switch with fewer than two kept neighbours leads nowhere. Removing a switch may leave another with fewer than
  // two.
  std::map<Node, Node> kept = number;
  for (Node node = topology.ranks; node < topology.nodes(); ++node) kept.emplace(node, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (Node node = topology.ranks; node < topology.nodes(); ++node) {
      if (!kept.contains(node)) continue;
      std::vector<Node> neighbours;
      for (const Link& link : topology.links) {
        if (link.src == node && kept.contains(link.dst)) neighbours.push_back(link.dst);
        if (link.dst == node && kept.contains(link.src)) neighbours.push_back(link.src);
      }
      std::sort(neighbours.begin(), neighbours.end());
      neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
      if (neighbours.size() >= 2) continue;
      kept.erase(node);
      changed = true;
    }
  }
  for (Node node = topology.ranks; node < topology.nodes(); ++node)
    if (kept.contains(node)) number.emplace(node, static_cast<Node>(number.size()));
  return number;
}

}  // namespace

void copy_links(const Topology& from, const std::map<Node, Node>& number, Topology& to) {
  for (Link link : from.links) {
    const auto src = number.find(link.src);
    const auto dst = number.find(link.dst);
    if (src == number.end() || dst == number.end()) continue;
    link.src = src->second;
    link.dst = dst->second;
    to.links.push_back(link);
  }
  for (const SharedSet& set : from.shared) {
    SharedSet left{set.lanes, {}};
    for (const auto& [src, dst] : set.links)
      if (number.contains(src) && number.contains(dst)) left.links.emplace_back(number.at(src), number.at(dst));
    if (!left.links.empty()) to.shared.push_back(std::move(left));
  }
}

Topology subset(const Topology& topology, std::span<const int> devices) {
  if (devices.empty()) fail(ErrorCode::invalid_argument, "no device is named: name at least one");
  const std::map<Node, Node> number = renumbered(topology, devices);
  Topology result;
  result.name = topology.name;
  result.ranks = static_cast<int>(devices.size());
  result.switches = static_cast<int>(number.size()) - result.ranks;
  // A subset of a subset keeps the device ids of the whole machine.
  for (const int device : devices)
    result.devices.push_back(topology.devices.empty() ? device : topology.devices[static_cast<std::size_t>(device)]);
  if (!topology.switch_kinds.empty())
    for (Node node = topology.ranks; node < topology.nodes(); ++node)
      if (number.contains(node)) result.switch_kinds.push_back(topology.switch_kind(node));
  copy_links(topology, number, result);
  join_twin_switches(result);
  return result;
}

}  // namespace sccl::topology
