#include "topology/boxes.h"

#include <algorithm>
#include <utility>

#include "topology/twin_switches.h"

namespace sccl::topology {
namespace {

class Joiner {
 public:
  Joiner(std::string name, std::span<const Box> boxes) : boxes_(boxes) {
    joined_.name = std::move(name);
    for (const Box& box : boxes_) joined_.ranks += box.links.ranks;
  }

  Topology join() {
    const Node network = add_switch(SwitchKind::fabric);
    for (const Box& box : boxes_) {
      const std::vector<Node> nodes = add_inside(box);
      for (const BoxNic& nic : box.nics) add_nic(box, nic, nodes, network);
    }
    validate(joined_);
    join_twin_switches(joined_);
    return std::move(joined_);
  }

 private:
  Node add_switch(SwitchKind kind) {
    joined_.switch_kinds.push_back(kind);
    return joined_.ranks + joined_.switches++;
  }

  // The joined topology's node for each node of the box.
  std::vector<Node> add_inside(const Box& box) {
    std::vector<Node> nodes(box.ranks.begin(), box.ranks.end());
    for (Node node = box.links.ranks; node < box.links.nodes(); ++node)
      nodes.push_back(add_switch(box.links.switch_kind(node)));
    const auto at = [&](Node node) { return nodes[static_cast<std::size_t>(node)]; };
    for (Link link : box.links.links) {
      link.src = at(link.src);
      link.dst = at(link.dst);
      joined_.links.push_back(link);
    }
    for (SharedSet set : box.links.shared) {
      for (auto& edge : set.links) edge = {at(edge.first), at(edge.second)};
      joined_.shared.push_back(std::move(set));
    }
    return nodes;
  }

  void add_nic(const Box& box, const BoxNic& nic, const std::vector<Node>& nodes, Node network) {
    const Node node = add_switch(SwitchKind::nic);
    join_both_ways(node, network, nic.gbytes_per_s, nic.alpha_us);
    if (nic.place >= 0) return join_both_ways(nodes[static_cast<std::size_t>(nic.place)], node, nic.gbytes_per_s, 0);
    double fastest = nic.gbytes_per_s;  // what bounds a rank is the NIC, and links inside the host
    for (const Link& link : box.links.links) fastest = std::max(fastest, link.gbytes_per_s);
    for (const Rank user : nic.users) join_both_ways(nodes[static_cast<std::size_t>(user)], node, fastest, 0);
  }

  void join_both_ways(Node a, Node b, double gbytes_per_s, double alpha_us) {
    joined_.links.push_back({a, b, 1, gbytes_per_s, alpha_us, LinkClass::net});
    joined_.links.push_back({b, a, 1, gbytes_per_s, alpha_us, LinkClass::net});
  }

  std::span<const Box> boxes_;
  Topology joined_;
};

}  // namespace

Topology join_boxes(std::string name, std::span<const Box> boxes) { return Joiner(std::move(name), boxes).join(); }

}  // namespace sccl::topology
