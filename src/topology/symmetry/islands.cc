#include "topology/symmetry/islands.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "topology/groups.h"

namespace sccl::topology {
namespace {

constexpr int kNoHost = -1;
// The slower ones are found slower when schedules are compared: with less than that none would be chosen.
constexpr double kMostOfRate = 0.8;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Rates in and out, in GB/s.
struct Rates {
  double in = 0;
  double out = 0;

  double least() const { return std::min(in, out); }
};

class Splitter {
 public:
  Splitter(const Topology& topology, const Cluster& cluster)
      : topology_(topology), cluster_(cluster), host_of_(at(topology.nodes()), kNoHost), devices_(at(topology.ranks)) {
    for (std::size_t host = 0; host < cluster.nodes.size(); ++host)
      for (const Node node : cluster.nodes[host]) host_of_[at(node)] = static_cast<int>(host);
    for (const Attachment& one : cluster.attachments) {
      for (const Edge& edge : one.up) ++users_[edge];
      for (const Edge& edge : one.down) ++users_[edge];
    }
    for (const Link& link : topology.links) {
      rates_[{link.src, link.dst}] += link.gbytes_per_s;
      if (link.src < topology.ranks) devices_[at(link.src)].out += link.gbytes_per_s;
      if (link.dst < topology.ranks) devices_[at(link.dst)].in += link.gbytes_per_s;
    }
  }

  std::optional<Topology> split() {
    std::set<Edge> between;
    std::vector<bool> is_split(cluster_.hosts.size(), false);
    for (const Between kind : {Between::switches, Between::cpus}) {
      const std::vector<Node> island_of = islands(kind);
      const std::vector<bool> good = served(island_of, is_split);
      for (const Link& link : topology_.links) {
        const int host = host_of_[at(link.src)];
        if (may_go(link, kind) && good[at(host)] && island_of[at(link.src)] != island_of[at(link.dst)])
          between.insert({link.src, link.dst});
      }
      for (std::size_t host = 0; host < good.size(); ++host) is_split[host] = is_split[host] || good[host];
    }
    if (between.empty()) return std::nullopt;
    return without(between);
  }

 private:
  using Edge = std::pair<Node, Node>;
  enum class Between : std::uint8_t { switches, cpus };

  // Whether it may be left out.
  bool may_go(const Link& link, Between kind) const {
    const Edge edge(link.src, link.dst);
    if (std::min(link.src, link.dst) < topology_.ranks || link.link_class == LinkClass::net) return false;
    const auto is_cpu = [&](Node node) { return topology_.switch_kind(node) == SwitchKind::cpu; };
    if (kind == Between::cpus && (!is_cpu(link.src) || !is_cpu(link.dst))) return false;
    const int host = host_of_[at(link.src)];
    return host != kNoHost && host == host_of_[at(link.dst)] && !users_.contains(edge) &&
           !users_.contains({link.dst, link.src});
  }

  // By node: the first node of its island. What has no device belongs to an island beside it.
  std::vector<Node> islands(Between kind) const {
    Groups groups(topology_.nodes());
    for (const Link& link : topology_.links)
      if (link.link_class != LinkClass::net && !may_go(link, kind)) groups.join(link.src, link.dst);
    bool joined = true;
    while (joined) {
      joined = false;
      for (const Link& link : topology_.links) {
        if (link.link_class == LinkClass::net) continue;
        const bool has = groups.of(link.src) < topology_.ranks;
        if (has == (groups.of(link.dst) < topology_.ranks)) continue;
        groups.join(link.src, link.dst);
        joined = true;
      }
    }
    std::vector<Node> result;
    for (Node node = 0; node < topology_.nodes(); ++node) result.push_back(groups.of(node));
    return result;
  }

  Rates nic(Rank rank) const {
    const Attachment& way = cluster_.attachments[at(rank)];
    if (!way.attached()) return {};
    Rates result{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    for (const Edge& edge : way.up) result.out = std::min(result.out, rates_.at(edge) / users_.at(edge));
    for (const Edge& edge : way.down) result.in = std::min(result.in, rates_.at(edge) / users_.at(edge));
    return result;
  }

  // By host: whether its islands' NICs bring enough. Not where it is known to be split already.
  std::vector<bool> served(const std::vector<Node>& island_of, const std::vector<bool>& is_split) const {
    std::vector<bool> result(cluster_.hosts.size(), false);
    for (std::size_t host = 0; host < result.size(); ++host) {
      std::map<Node, Rates> islands;
      Rates whole;
      double device = std::numeric_limits<double>::infinity();
      for (const Rank rank : cluster_.hosts[host]) {
        const Rates own = nic(rank);
        for (Rates* sum : {&islands[island_of[at(rank)]], &whole}) {
          sum->in += own.in;
          sum->out += own.out;
        }
        device = std::min(device, devices_[at(rank)].least());
      }
      const double enough = kMostOfRate * std::min(device, whole.least());
      result[host] = !is_split[host] && islands.size() > 1 && enough > 0 &&
                     std::ranges::all_of(islands, [&](const auto& one) { return one.second.least() >= enough; });
    }
    return result;
  }

  Topology without(const std::set<Edge>& between) const {
    Topology result = topology_;
    const auto is_between = [&](const Edge& edge) { return between.contains(edge); };
    std::erase_if(result.links, [&](const Link& link) { return is_between({link.src, link.dst}); });
    for (SharedSet& set : result.shared) std::erase_if(set.links, is_between);
    std::erase_if(result.shared, [](const SharedSet& set) { return set.links.empty(); });
    return result;
  }

  const Topology& topology_;
  const Cluster& cluster_;
  std::vector<int> host_of_;      // by node, of devices and switches between them
  std::map<Edge, int> users_;     // devices that take this edge on their way to the network or from it
  std::map<Edge, double> rates_;  // GB/s of all links from a node to another
  std::vector<Rates> devices_;    // of all their links
};

}  // namespace

std::optional<Topology> split_into_islands(const Topology& topology, const Cluster& cluster) {
  if (cluster.hosts.size() < 2) return std::nullopt;
  return Splitter(topology, cluster).split();
}

}  // namespace sccl::topology
