#include "compose/bounds/parts_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

namespace sccl::compose {
namespace {

constexpr double kBytesPerUs = 1e3;  // at one GB/s
constexpr int kMostDevices = 8;
constexpr int kMostNodes = 10;
constexpr int kFree = 0;  // in no part

std::size_t at(int index) { return static_cast<std::size_t>(index); }

enum class Way : std::uint8_t { in, out };

struct Rates {
  double in = 0;
  double out = 0;
};

struct Crossing {
  double gbytes_per_s = 0;
  double kbytes_under_way = 0;  // latencies times rates; links that share bandwidth have the least latency of them
};

// The links of one host, and what its devices have besides: ways to the network.
class HostLinks {
 public:
  // `of_rank`: the sums of all links of each rank of the cluster.
  HostLinks(const topology::Cluster& cluster, std::size_t host, const std::vector<Rates>& of_rank)
      : kind_(cluster.kinds[at(cluster.kind_of[host])]), edges_(kind_) {
    for (const Rank rank : cluster.hosts[host]) ways_.push_back(of_rank[at(rank)]);
    for (const topology::Link& link : kind_.links) {
      if (link.src < kind_.ranks) ways_[at(link.src)].out -= link.gbytes_per_s;
      if (link.dst < kind_.ranks) ways_[at(link.dst)].in -= link.gbytes_per_s;
    }
    // A lane of a set is taken for as long as a lane of the link: the fastest link shows the most that the set carries.
    set_rates_.assign(kind_.shared.size(), 0);
    for (schedule::EdgeId edge = 0; edge < edges_.size(); ++edge)
      for (const int set : edges_.sets_of(edge))
        set_rates_[at(set)] =
            std::max(set_rates_[at(set)], edges_[edge].lane_gbytes_per_s() * kind_.shared[at(set)].lanes);
  }

  int devices() const { return kind_.ranks; }
  int nodes() const { return kind_.nodes(); }
  bool has_sets() const { return !kind_.shared.empty(); }

  // All links and ways that lead into the parts, or out of them. Ways count no latency.
  Crossing crossing(const std::vector<int>& parts, Way way) const {
    Crossing sum = between(parts, way);
    for (int device = 0; device < devices(); ++device)
      if (parts[at(device)] != kFree) sum.gbytes_per_s += way == Way::in ? ways_[at(device)].in : ways_[at(device)].out;
    return sum;
  }

  // The same of links alone.
  Crossing between(const std::vector<int>& parts, Way way) const {
    Crossing sum;
    std::vector<double> of_set(set_rates_.size(), 0);
    std::vector<double> alpha_us(set_rates_.size(), std::numeric_limits<double>::infinity());
    const auto add = [&sum](double gbytes_per_s, double us) {
      sum.gbytes_per_s += gbytes_per_s;
      sum.kbytes_under_way += gbytes_per_s * us;
    };
    for (schedule::EdgeId edge = 0; edge < edges_.size(); ++edge) {
      const schedule::EdgeInfo& link = edges_[edge];
      const auto [src, dst] = link.ends;
      const int here = parts[at(way == Way::in ? dst : src)];
      if (here == kFree || here == parts[at(way == Way::in ? src : dst)]) continue;
      const auto sets = edges_.sets_of(edge);
      if (sets.empty()) {
        add(link.gbytes_per_s, link.alpha_us);
        continue;
      }
      of_set[at(sets.front())] += link.gbytes_per_s;
      alpha_us[at(sets.front())] = std::min(alpha_us[at(sets.front())], link.alpha_us);
    }
    for (std::size_t set = 0; set < of_set.size(); ++set)
      if (of_set[set] > 0) add(std::min(of_set[set], set_rates_[set]), alpha_us[set]);
    return sum;
  }

  // GB/s of all links to devices, or from them.
  double links_of_devices(Way way) const {
    double sum = 0;
    for (const topology::Link& link : kind_.links)
      if ((way == Way::in ? link.dst : link.src) < kind_.ranks) sum += link.gbytes_per_s;
    return sum;
  }

 private:
  const topology::Topology& kind_;
  schedule::EdgeIndex edges_;
  std::vector<Rates> ways_;  // by device, to and from the network
  std::vector<double> set_rates_;
};

// Visits every way to put nodes into parts 1, 2, ..., numbered by their first node, or into none.
template <typename Visit>
void for_each_division(std::vector<int>& parts, std::size_t node, int known, int free_from, Visit&& visit) {
  if (node == parts.size()) {
    if (known > 0) visit(parts, known);
    return;
  }
  const bool may_be_free = static_cast<int>(node) >= free_from;
  for (int part = may_be_free ? kFree : 1; part <= known + 1; ++part) {
    parts[node] = part;
    for_each_division(parts, node + 1, std::max(known, part), free_from, visit);
  }
}

// Every part has a device: switches come after devices, and begin no part.
template <typename Visit>
void for_each_division(const HostLinks& host, int free_from, Visit&& visit) {
  std::vector<int> parts(at(host.devices()));
  for_each_division(parts, 0, 0, free_from, [&](const std::vector<int>& of_devices, int known) {
    std::vector<int> all = of_devices;
    all.resize(at(host.nodes()), kFree);
    const auto place_switches = [&](const auto& self, std::size_t node) -> void {
      if (node == all.size()) return visit(all, known);
      for (int part = kFree; part <= known; ++part) {
        all[node] = part;
        self(self, node + 1);
      }
      all[node] = kFree;
    };
    place_switches(place_switches, of_devices.size());
  });
}

double time_us(double bytes, double gbytes_per_s) {
  return gbytes_per_s > 0 ? bytes / (gbytes_per_s * kBytesPerUs) : 0;
}

class PartsBounds {
 public:
  PartsBounds(const topology::Topology& topology, const topology::Cluster& cluster, Collective collective, Rank root,
              double bytes, std::span<const LateData> late)
      : topology_(topology),
        cluster_(cluster),
        collective_(collective),
        root_(root),
        bytes_(bytes),
        late_(late),
        ways_of_switches_(find_ways_of_switches(topology, cluster)) {
    of_rank_.resize(at(topology.ranks));
    for (const topology::Link& link : topology.links) {
      if (link.src < topology.ranks) of_rank_[at(link.src)].out += link.gbytes_per_s;
      if (link.dst < topology.ranks) of_rank_[at(link.dst)].in += link.gbytes_per_s;
    }
  }

  std::vector<Bound> find() {
    std::vector<Bound> result;
    for (const Bound& one : {each_receives(), sums_pass()})
      if (one.us > 0) result.push_back(one);
    return result;
  }

 private:
  static bool small(const HostLinks& host) { return host.devices() <= kMostDevices && host.nodes() <= kMostNodes; }

  // By host: whether a switch of its own joins it to others. Such ways are not counted here.
  static std::vector<bool> find_ways_of_switches(const topology::Topology& topology, const topology::Cluster& cluster) {
    std::vector<int> host_of(at(topology.nodes()), -1);
    for (std::size_t host = 0; host < cluster.nodes.size(); ++host)
      for (const topology::Node node : cluster.nodes[host]) host_of[at(node)] = static_cast<int>(host);
    std::vector<bool> result(cluster.hosts.size(), false);
    for (const topology::Link& link : topology.links) {
      if (host_of[at(link.src)] == host_of[at(link.dst)]) continue;
      for (const topology::Node node : {link.src, link.dst})
        if (node >= topology.ranks && host_of[at(node)] >= 0) result[at(host_of[at(node)])] = true;
    }
    return result;
  }

  Bound each_receives() const {
    Bound best;
    std::set<std::pair<int, bool>> seen;
    for (std::size_t index = 0; index < cluster_.hosts.size(); ++index) {
      const bool has_root = info(collective_).rooted && cluster_.host_of[at(root_)] == static_cast<int>(index);
      if (!seen.emplace(cluster_.kind_of[index], has_root).second) continue;
      const HostLinks host(cluster_, index, of_rank_);
      if (!host.has_sets() || !small(host) || ways_of_switches_[index]) continue;
      const int root = has_root ? cluster_.local_of[at(root_)] : -1;
      for_each_division(host, 0, [&](const std::vector<int>& parts, int) { take(best, host, index, parts, root); });
    }
    return best;
  }

  void take(Bound& best, const HostLinks& host, std::size_t index, const std::vector<int>& parts, int root) const {
    Demand sum;
    int devices = 0;
    for (int part = 1; part <= *std::max_element(parts.begin(), parts.end()); ++part) {
      const auto inside = std::count(parts.begin(), parts.begin() + host.devices(), part);
      devices += static_cast<int>(inside);
      const bool has_root = root >= 0 && parts[at(root)] == part;
      const Demand one = demand(collective_, static_cast<double>(inside), topology_.ranks, has_root);
      sum.in += one.in;
      sum.out += one.out;
    }
    for (const auto& [way, wanted] : {std::pair(Way::in, sum.in), std::pair(Way::out, sum.out)}) {
      const Crossing links = host.crossing(parts, way);
      const double rate = links.gbytes_per_s;
      if (!(wanted > 0) || !(rate > 0)) continue;
      const double us = late_[index].time_us(time_us(wanted * bytes_, rate) + links.kbytes_under_way / rate, bytes_);
      if (us <= best.us) continue;
      best = {us, fmt::format("{} devices in {} parts of the host of rank {}, whose links share bandwidth: {:.5g} GB/s "
                              "{} all parts together",
                              devices, *std::max_element(parts.begin(), parts.end()), cluster_.hosts[index].front(),
                              rate, way == Way::in ? "into" : "out of")};
    }
  }

  Bound sums_pass() const {
    Bound best;
    if (collective_ != Collective::allreduce || cluster_.kinds.size() != 1) return best;
    const HostLinks host(cluster_, 0, of_rank_);
    if (!small(host)) return best;
    if (std::find(ways_of_switches_.begin(), ways_of_switches_.end(), true) != ways_of_switches_.end()) return best;
    const double hosts = static_cast<double>(cluster_.hosts.size());
    for (const Way way : {Way::in, Way::out}) {
      // Hosts have the same links between their devices and may differ in their ways to the network.
      double ways = -hosts * host.links_of_devices(way);
      for (const Rates& rank : of_rank_) ways += way == Way::in ? rank.in : rank.out;
      for_each_division(host, host.devices(), [&](const std::vector<int>& parts, int known) {
        const double rate = ways + hosts * host.between(parts, way).gbytes_per_s;
        const double crossings = 2 * (known * hosts - 1);
        const double us = time_us(crossings * bytes_, rate);
        if (us <= best.us) return;
        best = {us, fmt::format(
                        "{:.0f} times the buffer crosses between {} parts of each of {:.0f} hosts, over {:.5g} GB/s",
                        crossings, known, hosts, rate)};
      });
    }
    return best;
  }

  const topology::Topology& topology_;
  const topology::Cluster& cluster_;
  Collective collective_;
  Rank root_;
  double bytes_;
  std::span<const LateData> late_;
  std::vector<bool> ways_of_switches_;
  std::vector<Rates> of_rank_;  // of all links
};

}  // namespace

std::vector<Bound> bounds_of_parts(const topology::Topology& topology, const topology::Cluster& cluster,
                                   Collective collective, Rank root, double bytes, std::span<const LateData> late) {
  return PartsBounds(topology, cluster, collective, root, bytes, late).find();
}

}  // namespace sccl::compose
