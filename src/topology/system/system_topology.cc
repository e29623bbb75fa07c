// Bandwidths are those that NCCL assumes for the same attributes, so that a file means the same to both libraries.
#include "topology/system/system_topology.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"

namespace sccl::topology {
namespace {

constexpr double kOwnAlphaUs = 1.5;     // NVLink or xGMI, device to device
constexpr double kSwitchAlphaUs = 1.0;  // device to NVSwitch
constexpr double kPciAlphaUs = 0.6;     // one edge of the PCI tree
constexpr double kSocketAlphaUs = 0.5;
constexpr std::string_view kInvisible = "fffffff:ffff:ff";  // a target that a virtual machine hides
constexpr std::string_view kSwitchClass = "0x0680";

// GB/s of one NVLink by compute capability.
double nvlink_gbytes_per_s(double sm) {
  if (sm >= 100) return 40.1;
  if (sm >= 90) return 20.6;
  if (sm > 80) return 12;
  return 20;
}

// GB/s of one xGMI link: RCCL's figures for MI50/MI100, MI200 and MI300.
double xgmi_gbytes_per_s(std::string_view gcn) {
  if (gcn.starts_with("gfx94") || gcn.starts_with("gfx95")) return 48;
  if (gcn.starts_with("gfx90a")) return 36;
  return 24;
}

// link_speed reads like "16.0 GT/s PCIe"; older kernels omit the fraction and the last word.
double pci_gbytes_per_s(const Element& pci) {
  constexpr std::array<std::pair<double, int>, 6> kUnits{
      {{2.5, 15}, {5, 30}, {8, 60}, {16, 120}, {32, 240}, {64, 480}}};
  const double speed = pci.number("link_speed", 0);
  double units = 60;
  for (const auto& [gigatransfers, of_speed] : kUnits)
    if (std::abs(speed - gigatransfers) < 0.01) units = of_speed;
  double width = pci.number("link_width", 0);
  if (!(width >= 1 && width <= 32)) width = 16;
  return width * units / 80;
}

// Between two sockets.
double socket_gbytes_per_s(const Element& cpu) {
  if (cpu.get("arch") == "ppc64") return 32;
  if (cpu.get("arch") == "arm64") return 6;
  if (cpu.get("vendor") == "AuthenticAMD") return 16;
  if (cpu.get("vendor") != "GenuineIntel") return cpu.has("vendor") ? 6 : 10;
  const double model = cpu.number("modelid", 0);
  if (model >= 0xcf) return 40;
  if (model >= 0x8f) return 22;
  return model >= 0x55 ? 10 : 6;
}

class Builder {
 public:
  explicit Builder(const Element& system) : system_(system), busids_(gpu_busids(system)) {
    if (busids_.empty())
      fail(ErrorCode::invalid_argument,
           "the description of the machine has no GPU: add <gpu> elements or name a preset");
    for (std::size_t rank = 0; rank < busids_.size(); ++rank) rank_of_[busids_[rank]] = static_cast<Rank>(rank);
    topology_.name = system.has("name") ? std::string(system.get("name")) : "system";
    topology_.ranks = static_cast<int>(busids_.size());
    topology_.devices.resize(busids_.size());
    std::iota(topology_.devices.begin(), topology_.devices.end(), 0);
  }

  // The NICs at the switches of the topology that build() made.
  const std::vector<NicPlace>& nics() const { return nics_; }

  Topology build(Detours detours) {
    visit(system_, [&](const Element& element) {
      if (element.tag == "pci")
        for (const Element& gpu : element.children)
          if (gpu.tag == "gpu") add_own_links(normal_busid(element.get("busid")), gpu);
    });
    for (const auto& [edge, own] : own_)
      add(edge.first, edge.second, own.lanes, own.gbytes_per_s, own.alpha_us, own.link_class);
    if (detours == Detours::always || !joined()) {
      add_pci();
      count_in_units();
    } else {
      visit(system_, [&](const Element& element) { add_nics(element, -1); });
    }
    if (std::is_sorted(topology_.devices.begin(), topology_.devices.end()) && topology_.devices.front() == 0 &&
        topology_.devices.back() + 1 == topology_.ranks)
      topology_.devices.clear();
    validate(topology_);
    return std::move(topology_);
  }

 private:
  struct Own {
    int lanes;
    double gbytes_per_s;
    double alpha_us;
    LinkClass link_class;
  };

  Node add_switch(SwitchKind kind) {
    topology_.switch_kinds.push_back(kind);
    return topology_.ranks + topology_.switches++;
  }

  void add(Node a, Node b, int lanes, double gbytes_per_s, double alpha_us, LinkClass link_class) {
    topology_.links.push_back({a, b, lanes, gbytes_per_s, alpha_us, link_class});
    topology_.links.push_back({b, a, lanes, gbytes_per_s, alpha_us, link_class});
  }

  void add_own_links(const std::string& busid, const Element& gpu) {
    const auto known = rank_of_.find(busid);
    if (known == rank_of_.end()) return;
    const Rank rank = known->second;
    topology_.devices[static_cast<std::size_t>(rank)] = gpu.integer("dev", rank, 0, 1 << 20);
    for (const Element& link : gpu.children) {
      const bool xgmi = link.tag == "xgmi";
      if (!xgmi && link.tag != "nvlink") continue;
      const Node peer = other_end(link);
      if (peer < 0 || peer == rank) continue;
      const int lanes = link.integer("count", 1, 1, 64);
      const double of_one = xgmi ? xgmi_gbytes_per_s(gpu.get("gcn")) : nvlink_gbytes_per_s(gpu.number("sm", 0));
      // Either end may list the link. If both list it with different counts, the greater count is the one of links that
      // are up.
      Own& own = own_[{std::min<Node>(rank, peer), std::max<Node>(rank, peer)}];
      if (lanes > own.lanes)
        own = {lanes, lanes * of_one, peer < topology_.ranks ? kOwnAlphaUs : kSwitchAlphaUs,
               xgmi ? LinkClass::xgmi : LinkClass::nvlink};
    }
  }

  // -1: the other end is neither a GPU of this job nor a switch.
  Node other_end(const Element& link) {
    const std::string target = normal_busid(link.get("target"));
    if (const auto peer = rank_of_.find(target); peer != rank_of_.end()) return peer->second;
    const bool is_switch = link.get("tclass").starts_with(kSwitchClass) && !link.get("tclass").starts_with("0x068001");
    if (!is_switch && !link.get("target").starts_with(kInvisible)) return -1;
    // Every GPU of a host is connected to all NVSwitches of the host, so they count as one switch.
    if (nvswitch_ < 0) nvswitch_ = add_switch(SwitchKind::nvswitch);
    return nvswitch_;
  }

  bool joined() const {
    std::vector<Node> leader(static_cast<std::size_t>(topology_.nodes()));
    std::iota(leader.begin(), leader.end(), 0);
    const auto find = [&](Node of) {
      while (leader[static_cast<std::size_t>(of)] != of) of = leader[static_cast<std::size_t>(of)];
      return of;
    };
    for (const Link& link : topology_.links) leader[static_cast<std::size_t>(find(link.src))] = find(link.dst);
    for (Rank rank = 1; rank < topology_.ranks; ++rank)
      if (find(rank) != find(0)) return false;
    return true;
  }

  void add_pci() {
    std::vector<std::pair<Node, const Element*>> sockets;
    for (const Element& cpu : system_.children) {
      if (cpu.tag != "cpu") continue;
      const Node socket = add_switch(SwitchKind::cpu);
      sockets.emplace_back(socket, &cpu);
      above_[socket] = -1;
      add_nics(cpu, socket);
      for (const Element& child : cpu.children) add_pci(child, socket);
    }
    for (std::size_t a = 0; a < sockets.size(); ++a)
      for (std::size_t b = a + 1; b < sockets.size(); ++b)
        add(sockets[a].first, sockets[b].first, 1,
            std::min(socket_gbytes_per_s(*sockets[a].second), socket_gbytes_per_s(*sockets[b].second)), kSocketAlphaUs,
            LinkClass::pcie);
    drop_dead_ends();
  }

  void add_pci(const Element& pci, Node parent) {
    if (pci.tag != "pci") return;
    const auto gpu = rank_of_.find(normal_busid(pci.get("busid")));
    const bool leads_on =
        std::any_of(pci.children.begin(), pci.children.end(), [](const Element& child) { return child.tag == "pci"; });
    if (gpu == rank_of_.end() && !leads_on) return add_nics(pci, parent);
    const Node node = gpu != rank_of_.end() ? gpu->second : add_switch(SwitchKind::pcie);
    add(node, parent, 1, pci_gbytes_per_s(pci), kPciAlphaUs, LinkClass::pcie);
    if (gpu != rank_of_.end()) return;
    above_[node] = parent;
    add_nics(pci, node);
    for (const Element& child : pci.children) add_pci(child, node);
  }

  void add_nics(const Element& holder, Node node) {
    for (const Element& nic : holder.children) {
      if (nic.tag != "nic") continue;
      for (const Element& net : nic.children)
        if (net.tag == "net")
          nics_.push_back({std::string(net.get("name")), net.integer("speed", 0, 0, 1 << 30), node,
                           holder.tag == "pci" ? normal_busid(holder.get("busid")) : ""});
    }
  }

  // A switch with fewer than two neighbours leads nowhere.
  void drop_dead_ends() {
    std::vector<bool> kept(static_cast<std::size_t>(topology_.nodes()), true);
    for (bool changed = true; changed;) {
      changed = false;
      for (Node node = topology_.ranks; node < topology_.nodes(); ++node) {
        if (!kept[static_cast<std::size_t>(node)]) continue;
        std::set<Node> neighbours;
        for (const Link& link : topology_.links)
          if (link.src == node && kept[static_cast<std::size_t>(link.dst)]) neighbours.insert(link.dst);
        if (neighbours.size() >= 2) continue;
        kept[static_cast<std::size_t>(node)] = false;
        changed = true;
      }
    }
    std::vector<Node> number(kept.size(), -1);
    std::vector<SwitchKind> kinds;
    Node next = 0;
    for (Node node = 0; node < topology_.nodes(); ++node) {
      if (!kept[static_cast<std::size_t>(node)]) continue;
      number[static_cast<std::size_t>(node)] = next++;
      if (node >= topology_.ranks) kinds.push_back(topology_.switch_kind(node));
    }
    for (NicPlace& nic : nics_) {
      while (nic.node >= 0 && !kept[static_cast<std::size_t>(nic.node)]) nic.node = above_.at(nic.node);
      if (nic.node >= 0) nic.node = number[static_cast<std::size_t>(nic.node)];
    }
    std::erase_if(topology_.links, [&](const Link& link) {
      return number[static_cast<std::size_t>(link.src)] < 0 || number[static_cast<std::size_t>(link.dst)] < 0;
    });
    for (Link& link : topology_.links) {
      link.src = number[static_cast<std::size_t>(link.src)];
      link.dst = number[static_cast<std::size_t>(link.dst)];
    }
    topology_.switches = next - topology_.ranks;
    topology_.switch_kinds = std::move(kinds);
  }

  // One lane is the bandwidth of the slowest kind of link; a faster link has as many lanes as fit.
  void count_in_units() {
    double unit = std::numeric_limits<double>::infinity();
    for (const Link& link : topology_.links) unit = std::min(unit, link.gbytes_per_s / link.lanes);
    for (Link& link : topology_.links)
      link.lanes = std::max(1, static_cast<int>(std::floor(link.gbytes_per_s / unit + 0.05)));
  }

  const Element& system_;
  std::vector<std::string> busids_;
  std::map<std::string, Rank> rank_of_;
  std::map<std::pair<Node, Node>, Own> own_;
  Node nvswitch_ = -1;
  std::map<Node, Node> above_;  // by switch of the PCI tree: the next one towards the CPU
  std::vector<NicPlace> nics_;
  Topology topology_;
};

}  // namespace

Topology topology_from_system(const Element& system, Detours detours) { return Builder(system).build(detours); }

std::vector<NicPlace> nic_places(const Element& system) {
  Builder builder(system);
  builder.build(Detours::when_needed);
  return builder.nics();
}

}  // namespace sccl::topology
