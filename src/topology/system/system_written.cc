// The reverse conversion: a topology as NCCL would describe the machine.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.h"
#include "topology/system/system_topology.h"

namespace sccl::topology {
namespace {

std::string rank_busid(Rank rank) { return fmt::format("{:04x}:{:02x}:00.0", rank / 128, 0x10 + rank % 128); }
std::string switch_busid(Node node) { return fmt::format("{:04x}:{:02x}:00.0", node / 64, 0xa0 + node % 64); }

constexpr std::string_view kNvidiaGpu = "0x030200", kAmdGpu = "0x038000", kNvswitch = "0x068000", kBridge = "0x060400";

// NCCL derives the speed of an NVLink from this number.
int compute_capability(const Topology& topology) {
  constexpr std::array<std::pair<std::string_view, int>, 3> kKnown{{{"dgx1p", 60}, {"dgx-a100", 80}, {"dgx-h100", 90}}};
  for (const auto& [name, capability] : kKnown)
    if (topology.name == name) return capability;
  return 70;
}

std::string_view gcn_name(const Topology& topology) {
  if (topology.name == "mi300x") return "gfx942";
  return topology.name == "mi250x" ? "gfx90a" : "gfx906";
}

// The PCI generation whose speed over sixteen lanes is nearest to the link's figure.
std::string_view link_speed(double gbytes_per_s) {
  constexpr std::array<std::pair<double, std::string_view>, 6> kSpeeds{{{3, "2.5 GT/s PCIe"},
                                                                        {6, "5.0 GT/s PCIe"},
                                                                        {12, "8.0 GT/s PCIe"},
                                                                        {24, "16.0 GT/s PCIe"},
                                                                        {48, "32.0 GT/s PCIe"},
                                                                        {96, "64.0 GT/s PCIe"}}};
  const auto nearest = std::min_element(kSpeeds.begin(), kSpeeds.end(), [&](const auto& a, const auto& b) {
    return std::abs(std::log(a.first / gbytes_per_s)) < std::abs(std::log(b.first / gbytes_per_s));
  });
  return nearest->second;
}

class Writer {
 public:
  explicit Writer(const Topology& topology) : topology_(topology) {
    const auto refuse = [&](std::string_view what) {
      fail(ErrorCode::invalid_argument, "topology '{}' has {}, which NCCL's XML cannot hold: write JSON", topology.name,
           what);
    };
    if (!topology.shared.empty()) refuse("sets of links that share bandwidth");
    for (const Link& link : topology.links) {
      if (link.link_class == LinkClass::net) refuse("links between hosts");
      if (link.link_class == LinkClass::shm) refuse("links through the host's memory");
      const bool to_ranks = link.src < topology.ranks && link.dst < topology.ranks;
      if (link.link_class == LinkClass::pcie && to_ranks) refuse("PCI links from device to device");
      if (link.link_class != LinkClass::pcie && link.src >= topology.ranks && link.dst >= topology.ranks)
        refuse("NVLinks between switches");
    }
  }

  Element write() {
    Element system{"system", {{"version", "1"}, {"name", topology_.name}}, {}};
    for (Node node = topology_.ranks; node < topology_.nodes(); ++node)
      if (is_root(node)) add_cpu(system, node);
    bool all_placed = true;
    for (Rank rank = 0; rank < topology_.ranks; ++rank) all_placed &= parent(rank) >= 0;
    if (system.children.empty()) add_cpu(system, -1);
    if (!all_placed)
      for (Rank rank = 0; rank < topology_.ranks; ++rank)
        if (parent(rank) < 0) add_gpu(system.children.front(), rank);
    return system;
  }

 private:
  // A root of the PCI tree: a CPU, or a switch that is no PCI switch but has PCI links.
  bool is_root(Node node) const {
    if (topology_.switch_kind(node) == SwitchKind::cpu) return true;
    return topology_.switch_kind(node) != SwitchKind::pcie &&
           std::any_of(topology_.links.begin(), topology_.links.end(),
                       [&](const Link& link) { return link.src == node && link.link_class == LinkClass::pcie; });
  }

  // The switch or CPU above the node; -1: none. A parent is fewer hops away from a root than its child.
  Node parent(Node node) const {
    const std::vector<int>& height = heights();
    for (const Link& link : topology_.links)
      if (link.src == node && link.link_class == LinkClass::pcie && link.dst >= topology_.ranks &&
          height[static_cast<std::size_t>(link.dst)] >= 0 &&
          (height[static_cast<std::size_t>(node)] < 0 ||
           height[static_cast<std::size_t>(link.dst)] < height[static_cast<std::size_t>(node)]))
        return link.dst;
    return -1;
  }

  // By node: hops from a root of the PCI tree; -1: not in the tree.
  const std::vector<int>& heights() const {
    if (!heights_.empty()) return heights_;
    heights_.assign(static_cast<std::size_t>(topology_.nodes()), -1);
    std::vector<Node> waiting;
    for (Node node = topology_.ranks; node < topology_.nodes(); ++node)
      if (is_root(node)) {
        heights_[static_cast<std::size_t>(node)] = 0;
        waiting.push_back(node);
      }
    for (std::size_t next = 0; next < waiting.size(); ++next)
      for (const Link& link : topology_.links)
        if (link.src == waiting[next] && link.link_class == LinkClass::pcie &&
            heights_[static_cast<std::size_t>(link.dst)] < 0) {
          heights_[static_cast<std::size_t>(link.dst)] = heights_[static_cast<std::size_t>(waiting[next])] + 1;
          waiting.push_back(link.dst);
        }
    return heights_;
  }

  void add_cpu(Element& system, Node node) {
    Element cpu{"cpu",
                {{"numaid", std::to_string(system.children.size())},
                 {"affinity", ""},
                 {"arch", "x86_64"},
                 {"vendor", "AuthenticAMD"},
                 {"familyid", "143"},
                 {"modelid", "49"}},
                {}};
    if (node >= 0) add_below(cpu, node);
    system.children.push_back(std::move(cpu));
  }

  void add_below(Element& above, Node node) {
    for (Node below = 0; below < topology_.nodes(); ++below) {
      if (parent(below) != node || is_child_root(below)) continue;
      if (below < topology_.ranks) {
        add_gpu(above, below);
        continue;
      }
      Element bridge{"pci", {{"busid", switch_busid(below)}, {"class", std::string(kBridge)}}, {}};
      add_speed(bridge, below);
      add_below(bridge, below);
      above.children.push_back(std::move(bridge));
    }
  }

  bool is_child_root(Node node) const { return node >= topology_.ranks && is_root(node); }

  void add_speed(Element& pci, Node node) const {
    double gbytes_per_s = 12;
    for (const Link& link : topology_.links)
      if (link.src == node && link.dst == parent(node) && link.gbytes_per_s > 0) gbytes_per_s = link.gbytes_per_s;
    pci.set("link_speed", std::string(link_speed(gbytes_per_s)));
    pci.set("link_width", "16");
  }

  void add_gpu(Element& above, Rank rank) const {
    bool amd = false;
    for (const Link& link : topology_.links) amd |= link.link_class == LinkClass::xgmi;
    const std::string gpu_class(amd ? kAmdGpu : kNvidiaGpu);
    Element pci{"pci", {{"busid", rank_busid(rank)}, {"class", gpu_class}}, {}};
    add_speed(pci, rank);
    const int device = topology_.devices.empty() ? rank : topology_.devices[static_cast<std::size_t>(rank)];
    Element gpu{"gpu", {{"dev", std::to_string(device)}}, {}};
    if (amd)
      gpu.set("gcn", std::string(gcn_name(topology_)));
    else
      gpu.set("sm", std::to_string(compute_capability(topology_)));
    gpu.set("rank", std::to_string(rank));
    gpu.set("gdr", "1");
    std::map<std::pair<Node, LinkClass>, int> own;
    for (const Link& link : topology_.links)
      if (link.src == rank && link.link_class != LinkClass::pcie) own[{link.dst, link.link_class}] += link.lanes;
    for (const auto& [to, lanes] : own) {
      const bool to_rank = to.first < topology_.ranks;
      gpu.children.push_back({to.second == LinkClass::xgmi ? "xgmi" : "nvlink",
                              {{"target", to_rank ? rank_busid(to.first) : switch_busid(to.first)},
                               {"count", std::to_string(lanes)},
                               {"tclass", to_rank ? gpu_class : std::string(kNvswitch)}},
                              {}});
    }
    pci.children.push_back(std::move(gpu));
    above.children.push_back(std::move(pci));
  }

  const Topology& topology_;
  mutable std::vector<int> heights_;
};

}  // namespace

Element system_from_topology(const Topology& topology) { return Writer(topology).write(); }

}  // namespace sccl::topology
