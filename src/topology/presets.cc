// Figures are assumed from data sheets and papers, per direction. A measurement (measurement.h) replaces them.
#include "topology/presets.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "base/error.h"

namespace sccl::topology {
namespace {

// One kind of link: its class, and the figures of one lane.
struct LinkKind {
  LinkClass link_class;
  double lane_gbytes_per_s;
  double alpha_us;
};

// NVLink by generation (NVIDIA's data sheets): 20 GB/s a link on P100, 25 on V100, A100 and H100. Latencies of a
// transfer between kernels of two devices: about 1.5 us on DGX-1 (SCCL 5: 0.7 us a step beyond the launch), more
// through a switch.
constexpr LinkKind kNvlink1{LinkClass::nvlink, 20, 1.5};
constexpr LinkKind kNvlink2{LinkClass::nvlink, 25, 1.5};
constexpr LinkKind kNvswitch{LinkClass::nvlink, 25, 1.0};  // half of the path: device to switch
// AMD's data sheets: 50 GB/s an Infinity Fabric link on MI250X, 64 on MI300X.
constexpr LinkKind kXgmi2{LinkClass::xgmi, 50, 2.0};
constexpr LinkKind kXgmi3{LinkClass::xgmi, 64, 2.0};
// SCCL 5.1.2: xGMI of MI50 33 GB/s and PCIe 4.0 x16 27 GB/s, both measured; the paper's model treats them as equal.
constexpr LinkKind kXgmi1{LinkClass::xgmi, 33, 2.5};
constexpr LinkKind kPcie4{LinkClass::pcie, 27, 2.5};
constexpr LinkKind kPcie4Half{LinkClass::pcie, 27, 1.25};
// AMD sockets: 16 GB/s is what NCCL assumes between two of them.
constexpr LinkKind kSocket{LinkClass::pcie, 16, 0.5};

void join(Topology& topology, Node a, Node b, int lanes, const LinkKind& kind) {
  const double gbytes_per_s = lanes * kind.lane_gbytes_per_s;
  topology.links.push_back({a, b, lanes, gbytes_per_s, kind.alpha_us, kind.link_class});
  topology.links.push_back({b, a, lanes, gbytes_per_s, kind.alpha_us, kind.link_class});
}

Topology empty(std::string_view name, int ranks, std::vector<SwitchKind> switches = {}) {
  Topology topology;
  topology.name = name;
  topology.ranks = ranks;
  topology.switches = static_cast<int>(switches.size());
  topology.switch_kinds = std::move(switches);
  return topology;
}

// The hybrid cube mesh, with the ids that nvidia-smi shows: two quads that are complete graphs, and four links between
// them.
constexpr std::array<std::pair<int, int>, 8> kDoubled{{{0, 3}, {0, 4}, {1, 2}, {1, 5}, {2, 3}, {4, 7}, {5, 6}, {6, 7}}};
constexpr std::array<std::pair<int, int>, 8> kSingle{{{0, 1}, {0, 2}, {1, 3}, {2, 6}, {3, 7}, {4, 5}, {4, 6}, {5, 7}}};

Topology cube_mesh(std::string_view name, int doubled_lanes, const LinkKind& kind) {
  Topology topology = empty(name, 8);
  for (const auto& [a, b] : kDoubled) join(topology, a, b, doubled_lanes, kind);
  for (const auto& [a, b] : kSingle) join(topology, a, b, 1, kind);
  return topology;
}

Topology dgx1p() { return cube_mesh("dgx1p", 1, kNvlink1); }
Topology dgx1v() { return cube_mesh("dgx1v", 2, kNvlink2); }

// Every device joined to one non-blocking switch by all its links.
Topology switched(std::string_view name, int ranks, int lanes, const LinkKind& kind) {
  Topology topology =
      empty(name, ranks, {kind.link_class == LinkClass::nvlink ? SwitchKind::nvswitch : SwitchKind::cpu});
  for (Rank rank = 0; rank < ranks; ++rank) join(topology, rank, ranks, lanes, kind);
  return topology;
}

// V100: 6 links; A100: 12; H100: 18.
Topology dgx2() { return switched("dgx2", 16, 6, kNvswitch); }
Topology dgx_a100() { return switched("dgx-a100", 8, 12, kNvswitch); }
Topology dgx_h100() { return switched("dgx-h100", 8, 18, kNvswitch); }

// SCCL 5.2.2: two xGMI islands (2 0 3 5 and 6 4 7 1), joined to a ring by PCIe between 1 and 2 and between 5 and 6.
constexpr std::array<std::pair<int, int>, 6> kZ52Xgmi{{{2, 0}, {0, 3}, {3, 5}, {6, 4}, {4, 7}, {7, 1}}};

Topology z52() {
  Topology topology = empty("z52", 8);
  for (const auto& [a, b] : kZ52Xgmi) join(topology, a, b, 1, kXgmi1);
  join(topology, 1, 2, 1, kPcie4);
  join(topology, 5, 6, 1, kPcie4);
  return topology;
}

// The other model of SCCL 5.2.2: 1 reaches 0, 2, 3 and 5 reaches 4, 6, 7 over PCIe; each socket carries one transfer a
// round.
Topology z52_full() {
  Topology topology = empty("z52-full", 8);
  for (const auto& [a, b] : kZ52Xgmi) join(topology, a, b, 1, kXgmi1);
  const auto socket = [&](Node hub, std::initializer_list<Node> others) {
    SharedSet set;
    for (const Node other : others) {
      join(topology, hub, other, 1, kPcie4);
      set.links.emplace_back(hub, other);
      set.links.emplace_back(other, hub);
    }
    topology.shared.push_back(std::move(set));
  };
  socket(1, {0, 2, 3});
  socket(5, {4, 6, 7});
  return topology;
}

// MI300X: one link between every two of the eight devices.
Topology mi300x() {
  Topology topology = empty("mi300x", 8);
  for (Rank a = 0; a < 8; ++a)
    for (Rank b = a + 1; b < 8; ++b) join(topology, a, b, 1, kXgmi3);
  return topology;
}

// Eight MI250X modules of two GCDs (2m, 2m+1), with four links within a module and three outwards from each GCD. This
// is RCCL's connection matrix of known 16-GCD servers (models 56, 59 and 65 of its rome_models.cc). Each half of the
// modules forms a board; 4..7 and 12..15 have the links between the boards.
Topology mi250x() {
  struct Pair {
    Rank a, b;
    int lanes;
  };
  constexpr std::array<Pair, 7> kBoard{{{0, 2, 1}, {1, 2, 1}, {1, 3, 1}, {0, 4, 2}, {1, 5, 1}, {2, 6, 1}, {3, 7, 2}}};
  constexpr std::array<Pair, 6> kBetween{{{4, 12, 1}, {5, 13, 1}, {5, 14, 1}, {6, 13, 1}, {6, 14, 1}, {7, 15, 1}}};
  Topology topology = empty("mi250x", 16);
  for (Rank gcd = 0; gcd < 16; gcd += 2) join(topology, gcd, gcd + 1, 4, kXgmi2);
  for (const Rank board : {0, 8})
    for (const Pair& pair : kBoard) join(topology, board + pair.a, board + pair.b, pair.lanes, kXgmi2);
  for (const Pair& pair : kBetween) join(topology, pair.a, pair.b, pair.lanes, kXgmi2);
  return topology;
}

// Four cards under one host bridge.
Topology pcie4() { return switched("pcie4", 4, 1, kPcie4Half); }

// Two sockets of four cards; all traffic between the sockets shares one link.
Topology pcie8() {
  Topology topology = empty("pcie8", 8, {SwitchKind::cpu, SwitchKind::cpu});
  for (Rank rank = 0; rank < 8; ++rank) join(topology, rank, rank < 4 ? 8 : 9, 1, kPcie4Half);
  join(topology, 8, 9, 1, kSocket);
  return topology;
}

// Two pairs of cards with NVLink bridges (four links a pair), joined by PCIe.
Topology nvpairs4() {
  Topology topology = empty("nvpairs4", 4, {SwitchKind::cpu});
  for (Rank rank = 0; rank < 4; ++rank) join(topology, rank, 4, 1, kPcie4Half);
  join(topology, 0, 1, 4, kNvlink2);
  join(topology, 2, 3, 4, kNvlink2);
  return topology;
}

constexpr std::array kPresets{
    Preset{"dgx1p", dgx1p, "8 P100, hybrid cube mesh of single NVLinks"},
    Preset{"dgx1v", dgx1v, "8 V100, hybrid cube mesh, eight NVLinks doubled"},
    Preset{"dgx2", dgx2, "16 V100 on NVSwitch"},
    Preset{"dgx-a100", dgx_a100, "8 A100 on NVSwitch"},
    Preset{"dgx-h100", dgx_h100, "8 H100 on NVSwitch"},
    Preset{"z52", z52, "8 MI50 as SCCL's ring of xGMI and PCIe"},
    Preset{"z52-full", z52_full, "8 MI50 with every PCIe path, shared by socket"},
    Preset{"mi250x", mi250x, "8 MI250X modules, 16 GCDs"},
    Preset{"mi300x", mi300x, "8 MI300X, fully joined by xGMI"},
    Preset{"pcie4", pcie4, "4 cards under one PCIe host bridge"},
    Preset{"pcie8", pcie8, "8 cards on two sockets"},
    Preset{"nvpairs4", nvpairs4, "2 NVLink-bridged pairs joined by PCIe"},
};

constexpr int kMostOnSwitch = 1 << 15;
constexpr int kMostClusterRanks = 1 << 16;

std::string preset_names() {
  std::string names;
  for (const Preset& one : kPresets) names += fmt::format("{}, ", one.name);
  return names + "host:N, switch:N, A*PRESET";
}

// A number in 1..most; 0 when `text` is no such number.
int small_number(std::string_view text, int most = 1024) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= 1 && value <= most ? value : 0;
}

// One lane is the bandwidth of the slowest kind of link, so that a NIC slower than a link still has a whole lane.
void rescale_lanes(Topology& topology, double unit_gbytes_per_s) {
  for (Link& link : topology.links)
    link.lanes = std::max(1, static_cast<int>(std::lround(link.gbytes_per_s / unit_gbytes_per_s)));
}

// GB/s of a lane of a shared set: that of its slowest link.
double lane_rate(const Topology& topology, const SharedSet& set) {
  double least = std::numeric_limits<double>::infinity();
  for (const Link& link : topology.links)
    if (std::find(set.links.begin(), set.links.end(), std::pair(link.src, link.dst)) != set.links.end())
      least = std::min(least, link.gbytes_per_s / link.lanes);
  return least;
}

Topology cluster(int hosts, const Topology& host, double nic_gbits_per_s) {
  constexpr double kNicAlphaUs = 2.5;  // half of about 5 us between hosts
  if (!(nic_gbits_per_s > 0) || !std::isfinite(nic_gbits_per_s))
    fail(ErrorCode::invalid_argument, "a NIC of {} Gbit/s: give a positive rate", nic_gbits_per_s);
  const double nic_gbytes_per_s = nic_gbits_per_s / 8;
  double unit = nic_gbytes_per_s;
  for (const Link& link : host.links) unit = std::min(unit, link.gbytes_per_s / link.lanes);
  std::vector<SwitchKind> switches;
  for (int at = 0; at < hosts; ++at)
    for (Node node = host.ranks; node < host.nodes(); ++node) switches.push_back(host.switch_kind(node));
  switches.push_back(SwitchKind::fabric);
  Topology topology = empty(fmt::format("{}*{}", hosts, host.name), hosts * host.ranks, std::move(switches));
  const Node fabric = topology.nodes() - 1;
  for (int at = 0; at < hosts; ++at) {
    const auto place = [&](Node node) {
      return node < host.ranks ? at * host.ranks + node : hosts * host.ranks + at * host.switches + node - host.ranks;
    };
    for (Link link : host.links) {
      link.src = place(link.src);
      link.dst = place(link.dst);
      topology.links.push_back(link);
    }
    for (SharedSet set : host.shared) {
      set.lanes = std::max(1, static_cast<int>(std::lround(set.lanes * lane_rate(host, set) / unit)));
      for (auto& edge : set.links) edge = {place(edge.first), place(edge.second)};
      topology.shared.push_back(std::move(set));
    }
  }
  for (Rank rank = 0; rank < topology.ranks; ++rank)
    join(topology, rank, fabric, 1, {LinkClass::net, nic_gbytes_per_s, kNicAlphaUs});
  rescale_lanes(topology, unit);
  return topology;
}

// "A*B"; checks the number before anything is built.
Topology cluster_by_name(std::string_view name, std::string_view hosts, std::string_view inner,
                         double nic_gbits_per_s) {
  const bool digits = !hosts.empty() && hosts.find_first_not_of("0123456789") == std::string_view::npos;
  if (!digits || inner.find('*') != std::string_view::npos)
    fail(ErrorCode::invalid_argument,
         "no topology is called '{}': put a number of hosts before a single *, and after it one of {}", name,
         preset_names());
  if (inner.empty())
    fail(ErrorCode::invalid_argument, "topology '{}' lacks its hosts' preset: put one of {} after the *", name,
         preset_names());
  const Topology host = preset(inner);
  const int number = small_number(hosts, kMostClusterRanks);
  if (number == 0 && hosts.find_first_not_of('0') == std::string_view::npos)
    fail(ErrorCode::invalid_argument, "topology '{}' has no hosts: give at least 1", name);
  if (number == 0 || number > kMostClusterRanks / host.ranks)
    fail(ErrorCode::invalid_argument, "topology '{}' has more than {} ranks: give at most {} hosts of {}", name,
         kMostClusterRanks, kMostClusterRanks / host.ranks, host.name);
  return cluster(number, host, nic_gbits_per_s);
}

}  // namespace

std::span<const Preset> presets() { return kPresets; }

Topology preset(std::string_view name, double nic_gbits_per_s) {
  if (name.starts_with("host:"))
    if (const int ranks = small_number(name.substr(5))) return host(ranks);
  if (name.starts_with("switch:"))
    if (const int ranks = small_number(name.substr(7), kMostOnSwitch)) return switched(name, ranks, 1, kNvswitch);
  if (const std::size_t star = name.find('*'); star != std::string_view::npos)
    return cluster_by_name(name, name.substr(0, star), name.substr(star + 1), nic_gbits_per_s);
  for (const Preset& one : kPresets)
    if (one.name == name) return one.make();
  fail(ErrorCode::invalid_argument, "no topology is called '{}': use one of {}", name, preset_names());
}

}  // namespace sccl::topology
