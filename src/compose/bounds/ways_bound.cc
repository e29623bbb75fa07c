#include "compose/bounds/ways_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <span>

#include "compose/bounds/parts_bound.h"
#include "topology/graph/routes.h"

namespace sccl::compose {
namespace {

using topology::Edge;
using topology::Node;

constexpr int kMostDevices = 72;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The edges on which ways between devices of a host begin and end, by nodes of its kind.
struct Ends {
  bool all_known = false;  // every two devices have a way on the host; else some go over the network
  std::set<Edge> first;
  std::set<Edge> last;
};

Ends ends_of_ways(const topology::Topology& kind) {
  Ends ends;
  if (kind.ranks > kMostDevices) return ends;
  topology::Routes routes(kind);
  for (Rank src = 0; src < kind.ranks; ++src)
    for (Rank dst = 0; dst < kind.ranks; ++dst) {
      if (src == dst) continue;
      const std::span<const Edge> way = routes.path(src, dst);
      if (way.empty()) return ends;
      ends.first.insert(way.front());
      ends.last.insert(way.back());
    }
  ends.all_known = true;
  return ends;
}

// What a device's or a host's links carry: those of ways on the host, and the others.
struct Sums {
  HostRates ways;
  HostRates others;

  HostRates with(const HostRates& nics) const {
    return {ways.out_gbytes_per_s + std::min(others.out_gbytes_per_s, nics.out_gbytes_per_s),
            ways.in_gbytes_per_s + std::min(others.in_gbytes_per_s, nics.in_gbytes_per_s)};
  }
};

class Finder {
 public:
  Finder(const topology::Cluster& cluster, const std::vector<topology::Link>& links)
      : cluster_(cluster), hosts_(cluster.hosts.size()), ranks_(at(cluster.ranks())) {
    for (const topology::Topology& kind : cluster.kinds) ends_.push_back(ends_of_ways(kind));
    Node nodes = 0;
    for (const topology::Link& link : links) nodes = std::max({nodes, link.src + 1, link.dst + 1});
    host_of_.assign(at(nodes), -1);
    number_.assign(at(nodes), -1);
    for (std::size_t host = 0; host < cluster.nodes.size(); ++host)
      for (std::size_t number = 0; number < cluster.nodes[host].size(); ++number)
        if (const Node node = cluster.nodes[host][number]; node < nodes) {
          host_of_[at(node)] = static_cast<int>(host);
          number_[at(node)] = static_cast<int>(number);
        }
    for (const topology::Link& link : links) add(link);
  }

  WayRates rates(const std::vector<HostRates>& nics) const {
    WayRates result;
    for (std::size_t host = 0; host < hosts_.size(); ++host)
      result.hosts.push_back(is_looked_at(host) ? hosts_[host].with(nics[host]) : HostRates{kNoLimit, kNoLimit});
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto host = at(cluster_.host_of[rank]);
      result.ranks.push_back(is_looked_at(host) ? ranks_[rank].with(nics[host]) : HostRates{kNoLimit, kNoLimit});
    }
    return result;
  }

 private:
  // Of equally short ways the one over the switch of the lowest number is taken.
  bool is_looked_at(std::size_t host) const {
    const int kind = cluster_.kind_of[host];
    const auto& nodes = cluster_.nodes[host];
    return ends_[at(kind)].all_known && std::is_sorted(nodes.begin() + cluster_.kinds[at(kind)].ranks, nodes.end());
  }

  void add(const topology::Link& link) {
    const auto ranks = static_cast<Node>(ranks_.size());
    const int from = host_of_[at(link.src)];
    const int to = host_of_[at(link.dst)];
    const Edge ends{number_[at(link.src)], number_[at(link.dst)]};
    // A direct link between two devices is the way between them, whatever its class.
    const bool direct = link.src < ranks && link.dst < ranks;
    const auto is_of = [&](int host, const std::set<Edge> Ends::*which) {
      return from == to && (direct || (ends_[at(cluster_.kind_of[at(host)])].*which).contains(ends));
    };
    if (link.src < ranks) {
      const bool own = is_of(from, &Ends::first);
      for (Sums* const sums : {&hosts_[at(from)], &ranks_[at(link.src)]})
        (own ? sums->ways : sums->others).out_gbytes_per_s += link.gbytes_per_s;
    }
    if (link.dst < ranks) {
      const bool own = is_of(to, &Ends::last);
      for (Sums* const sums : {&hosts_[at(to)], &ranks_[at(link.dst)]})
        (own ? sums->ways : sums->others).in_gbytes_per_s += link.gbytes_per_s;
    }
  }

  const topology::Cluster& cluster_;
  std::vector<Ends> ends_;             // by kind
  std::vector<int> host_of_, number_;  // by node
  std::vector<Sums> hosts_, ranks_;
};

double us_of(const Demand& wanted, const HostRates& rates, double bytes) {
  return us(wanted, bytes, rates.in_gbytes_per_s, rates.out_gbytes_per_s);
}

}  // namespace

WayRates rates_of_ways(const topology::Cluster& cluster, const std::vector<topology::Link>& links,
                       const std::vector<HostRates>& nics) {
  return Finder(cluster, links).rates(nics);
}

std::vector<Bound> bounds_of_ways(const topology::Cluster& cluster, const WayRates& rates, Collective collective,
                                  Rank root, double bytes) {
  Bound of_rank;
  Bound of_host;
  for (std::size_t host = 0; host < cluster.hosts.size(); ++host) {
    Demand together;
    for (const Rank rank : cluster.hosts[host]) {
      const Demand one = demand(collective, 1, cluster.ranks(), info(collective).rooted && rank == root);
      together = {together.in + one.in, together.out + one.out};
      const HostRates& own = rates.ranks[at(rank)];
      if (const double time = us_of(one, own, bytes); time > of_rank.us)
        of_rank = {time, fmt::format("rank {}: its links carry {:.5g} GB/s in by the ways to it, {:.5g} out", rank,
                                     own.in_gbytes_per_s, own.out_gbytes_per_s)};
    }
    const HostRates& own = rates.hosts[host];
    if (const double time = us_of(together, own, bytes); time > of_host.us)
      of_host = {time,
                 fmt::format("the {} devices of the host of rank {}: {:.5g} GB/s in by the ways to them, {:.5g} out",
                             cluster.hosts[host].size(), cluster.hosts[host].front(), own.in_gbytes_per_s,
                             own.out_gbytes_per_s)};
  }
  std::vector<Bound> result;
  for (const Bound& one : {of_rank, of_host})
    if (one.us > 0) result.push_back(one);
  return result;
}

}  // namespace sccl::compose
