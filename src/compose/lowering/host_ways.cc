#include "compose/lowering/host_ways.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "topology/graph/routes.h"

namespace sccl::compose {
namespace {

using schedule::HostShare;
using topology::Edge;
using topology::Node;

constexpr std::size_t kMostRanksOfHost = 64;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Finder {
 public:
  Finder(const topology::Topology& topology, const topology::Cluster& cluster, const schedule::EdgeIndex& edges)
      : topology_(topology),
        cluster_(cluster),
        edges_(edges),
        of_network_(topology::network_switches(topology, cluster)),
        routes_(topology),
        leaf_(at(topology.nodes()), false) {
    for (const topology::Attachment& one : cluster.attachments)
      if (one.attached()) leaf_[at(one.leaf)] = true;
  }

  std::optional<HostWays> find() {
    if (cluster_.hosts.size() < 2 || cluster_.hosts.front().size() > kMostRanksOfHost) return std::nullopt;
    if (!find_racks() || hosts_share_a_set()) return std::nullopt;
    for (int host = 0; host < static_cast<int>(cluster_.hosts.size()); ++host)
      if (cluster_.kind_of[at(host)] != cluster_.kind_of.front() || !same_attachments(host)) return std::nullopt;
    for (const auto reach : {HostShare::Reach::on_host, HostShare::Reach::in_rack, HostShare::Reach::between_racks})
      if (!find_ways(reach)) return std::nullopt;
    if (!same_racks() || !take_links()) return std::nullopt;
    return std::move(made_);
  }

 private:
  bool find_racks() {
    made_.rack_of.resize(cluster_.hosts.size());
    for (std::size_t rack = 0; rack < cluster_.racks.size(); ++rack) {
      if (cluster_.racks[rack].size() != cluster_.racks.front().size()) return false;
      for (const int host : cluster_.racks[rack]) made_.rack_of[at(host)] = static_cast<int>(rack);
    }
    return true;
  }

  const topology::Attachment& attachment(int host, std::size_t local) const {
    return cluster_.attachments[at(cluster_.hosts[at(host)][local])];
  }

  bool same_links(const Edge& edge, const Edge& other) const {
    const schedule::EdgeInfo& a = edges_[edges_.find(edge)];
    const schedule::EdgeInfo& b = edges_[edges_.find(other)];
    return a.lanes == b.lanes && a.gbytes_per_s == b.gbytes_per_s && a.alpha_us == b.alpha_us &&
           a.link_class == b.link_class;
  }

  // The same links to leaf switches as the first host's, and to those of the first host of its rack.
  bool same_attachments(int host) const {
    const int of_rack = cluster_.racks[at(made_.rack_of[at(host)])].front();
    // What stands for what: devices and switches by their places in the host, NICs below leaf switches as ways meet
    // them.
    std::map<Node, Node> stands_for;
    std::map<Node, Node> stood_for;
    const auto same_node = [&](Node node, Node other) {
      const bool known = stands_for.emplace(node, other).first->second == other;
      return known && stood_for.emplace(other, node).first->second == node;
    };
    for (std::size_t place = 0; place < cluster_.nodes[at(host)].size(); ++place)
      if (!same_node(cluster_.nodes[at(host)][place], cluster_.nodes.front()[place])) return false;
    const auto same_way = [&](const auto& way, const auto& other) {
      return std::ranges::equal(way, other, [&](const Edge& a, const Edge& b) {
        return same_node(a.first, b.first) && same_node(a.second, b.second) && same_links(a, b);
      });
    };
    for (std::size_t local = 0; local < cluster_.hosts[at(host)].size(); ++local) {
      const topology::Attachment& one = attachment(host, local);
      const topology::Attachment& first = attachment(0, local);
      if (one.leaf != attachment(of_rack, local).leaf || !same_way(one.up, first.up) || !same_way(one.down, first.down))
        return false;
    }
    return true;
  }

  // A host that the first one reaches so; none: -1.
  int other_host(HostShare::Reach reach) const {
    if (reach == HostShare::Reach::in_rack) return cluster_.racks[0].size() > 1 ? cluster_.racks[0][1] : -1;
    return cluster_.racks.size() > 1 ? cluster_.racks[1].front() : -1;
  }

  bool find_ways(HostShare::Reach reach) {
    const auto& first = cluster_.hosts.front();
    HostShare::Ways& ways = made_.ways[static_cast<std::size_t>(reach)];
    const int other = reach == HostShare::Reach::on_host ? 0 : other_host(reach);
    if (other < 0) return true;
    for (std::size_t src = 0; src < first.size(); ++src)
      for (std::size_t dst = 0; dst < first.size(); ++dst) {
        if (other == 0) {
          const auto way = routes_.path(first[src], first[dst]);
          ways.emplace_back(way.begin(), way.end());
        } else if (!add_way(src, dst, other, ways.emplace_back())) {
          return false;
        }
      }
    return true;
  }

  // Out of the first host as its data goes to the other one, and into it as that one's data comes. None between
  // networks: nothing goes there.
  bool add_way(std::size_t src, std::size_t dst, int other, std::vector<Edge>& way) {
    const auto& first = cluster_.hosts.front();
    const auto& second = cluster_.hosts[at(other)];
    const auto network = [&](Rank rank) { return cluster_.network_of[at(rank)]; };
    if (network(first[src]) != network(second[dst]) && network(second[src]) != network(first[dst])) return true;
    const auto out = routes_.path(first[src], second[dst]);
    way.assign(out.begin(), out.end());
    const auto back = routes_.path(second[src], first[dst]);
    const auto switches = [&](std::span<const Edge> edges) {
      return std::ranges::count_if(edges, [&](const Edge& edge) { return of_network_[at(edge.second)]; });
    };
    const auto count = switches(way);
    if (count < 1 || count > 3 || switches(back) != count || back.size() != way.size()) return false;
    if (count == 2 && cluster_.racks.size() != 2) return false;
    const auto enters = [&](const Edge& edge) { return of_network_[at(edge.second)]; };
    // Over one switch or between two to the last one, over three to the one in the middle.
    const auto up = (std::ranges::find_if(way, enters) - way.begin()) + (count == 1 ? 0 : 1);
    const auto down = (std::ranges::find_if(back, enters) - back.begin()) + (count == 3 ? 1 : count - 1);
    std::vector<Edge> whole(way.begin(), way.begin() + up + 1);
    if (count != 2 && whole.back().second != back[static_cast<std::size_t>(down)].second) return false;
    for (std::size_t i = static_cast<std::size_t>(down) + 1; i < back.size(); ++i) whole.push_back(back[i]);
    way = std::move(whole);
    return true;
  }

  // Links between a leaf switch and other switches of the network, out and in.
  using Fabric = std::vector<std::tuple<Node, bool, int, double, double>>;

  Fabric fabric_of(Node leaf) const {
    Fabric fabric;
    for (const topology::Link& link : topology_.links) {
      if (!of_network_[at(link.src)] || !of_network_[at(link.dst)] || (link.src != leaf && link.dst != leaf)) continue;
      const Node other = link.src == leaf ? link.dst : link.src;
      fabric.emplace_back(leaf_[at(other)] ? -1 : other, link.src == leaf, link.lanes, link.gbytes_per_s,
                          link.alpha_us);
    }
    std::ranges::sort(fabric);
    return fabric;
  }

  // The leaf switches of a device's NIC are joined alike with others on all racks.
  bool same_racks() const {
    std::map<Node, Fabric> known;
    const auto fabric = [&](Node leaf) -> const Fabric& {
      const auto found = known.find(leaf);
      return found != known.end() ? found->second : known.emplace(leaf, fabric_of(leaf)).first->second;
    };
    for (const std::vector<int>& rack : cluster_.racks)
      for (std::size_t local = 0; local < cluster_.hosts.front().size(); ++local) {
        const topology::Attachment& one = attachment(rack.front(), local);
        if (one.attached() && fabric(one.leaf) != fabric(attachment(0, local).leaf)) return false;
      }
    return true;
  }

  // Whether links share a limit beyond those of one host's devices.
  bool hosts_share_a_set() const {
    if (topology_.shared.empty()) return false;
    std::vector<bool> on_host(at(topology_.nodes()), false);
    for (const auto& nodes : cluster_.nodes)
      for (const Node node : nodes) on_host[at(node)] = true;
    return std::ranges::any_of(topology_.shared, [&](const topology::SharedSet& set) {
      return std::ranges::any_of(
          set.links, [&](const Edge& edge) { return !on_host[at(edge.first)] || !on_host[at(edge.second)]; });
    });
  }

  // How many hosts share the link between switches: those at its leaf switch.
  int sharing(const Edge& edge) const {
    if (!of_network_[at(edge.first)] || !of_network_[at(edge.second)]) return 1;
    int hosts = 0;
    for (int host = 0; host < static_cast<int>(cluster_.hosts.size()); ++host) {
      const auto& ranks = cluster_.hosts[at(host)];
      const auto is_at = [&](Node node) {
        return std::ranges::any_of(ranks, [&](Rank rank) { return cluster_.attachments[at(rank)].leaf == node; });
      };
      if (is_at(edge.first) || (!leaf_[at(edge.first)] && is_at(edge.second))) ++hosts;
    }
    return std::max(1, hosts);
  }

  bool take_links() {
    std::vector<Node> number(at(topology_.nodes()), -1);
    made_.links.name = topology_.name;
    made_.links.ranks = static_cast<int>(cluster_.hosts.front().size());
    int nodes = 0;
    const auto take = [&](Node node) {
      if (number[at(node)] < 0) number[at(node)] = nodes++;
    };
    for (const Rank rank : cluster_.hosts.front()) take(rank);
    for (const Node node : cluster_.nodes.front()) take(node);
    std::vector<Edge> shared;
    for (HostShare::Ways& ways : made_.ways)
      for (auto& way : ways)
        for (Edge& edge : way) {
          take(edge.first);
          take(edge.second);
          if (of_network_[at(edge.first)] && of_network_[at(edge.second)]) shared.push_back(edge);
          edge = {number[at(edge.first)], number[at(edge.second)]};
        }
    std::ranges::sort(shared);
    made_.outside.assign(at(nodes), false);
    for (Node node = 0; node < topology_.nodes(); ++node)
      if (number[at(node)] >= 0) made_.outside[at(number[at(node)])] = of_network_[at(node)];
    made_.links.switches = nodes - made_.links.ranks;
    for (topology::Link link : topology_.links) {
      const Edge ends{link.src, link.dst};
      link.src = number[at(link.src)];
      link.dst = number[at(link.dst)];
      if (link.src < 0 || link.dst < 0) continue;
      if (std::ranges::binary_search(shared, ends)) {
        const int hosts = sharing(ends);
        link.gbytes_per_s /= hosts;
        link.lanes = std::max(1, link.lanes / hosts);
      }
      made_.links.links.push_back(link);
    }
    return take_shared_sets(number);
  }

  // Nothing if hosts share some.
  bool take_shared_sets(const std::vector<Node>& number) {
    for (topology::SharedSet set : topology_.shared) {
      std::size_t inside = 0;
      for (auto& [src, dst] : set.links) {
        src = number[at(src)];
        dst = number[at(dst)];
        if (src >= 0 && dst >= 0) ++inside;
      }
      if (inside == 0) continue;
      if (inside != set.links.size()) return false;
      made_.links.shared.push_back(std::move(set));
    }
    return true;
  }

  const topology::Topology& topology_;
  const topology::Cluster& cluster_;
  const schedule::EdgeIndex& edges_;
  std::vector<bool> of_network_;
  topology::Routes routes_;
  std::vector<bool> leaf_;  // by node
  HostWays made_;
};

}  // namespace

HostWays of_several(const HostWays& of_one, int hosts) {
  HostWays all = of_one;
  const topology::Topology& one = of_one.links;
  all.links.ranks *= hosts;
  all.links.switches *= hosts;
  all.links.links.clear();
  all.links.shared.clear();
  const auto node_of = [&](Node node, int host) {
    return node < one.ranks ? host * one.ranks + node : hosts * one.ranks + host * one.switches + node - one.ranks;
  };
  const auto edge_of = [&](const Edge& edge, int host) {
    return Edge{node_of(edge.first, host), node_of(edge.second, host)};
  };
  for (int host = 0; host < hosts; ++host) {
    for (topology::Link link : one.links) {
      link.src = node_of(link.src, host);
      link.dst = node_of(link.dst, host);
      all.links.links.push_back(link);
    }
    for (topology::SharedSet set : one.shared) {
      for (Edge& edge : set.links) edge = edge_of(edge, host);
      all.links.shared.push_back(std::move(set));
    }
  }
  // From the switch of the network on a way is the receiver's.
  for (std::size_t reach = 0; reach < all.ways.size(); ++reach) {
    HostShare::Ways& ways = all.ways[reach];
    ways.clear();
    if (of_one.ways[reach].empty()) continue;
    for (int from = 0; from < hosts; ++from)
      for (int src = 0; src < one.ranks; ++src)
        for (int to = 0; to < hosts; ++to)
          for (int dst = 0; dst < one.ranks; ++dst) {
            std::vector<Edge>& way = ways.emplace_back();
            int host = from;
            for (const Edge& edge : of_one.ways[reach][at(src * one.ranks + dst)]) {
              way.push_back(edge_of(edge, host));
              if (of_one.outside[at(edge.second)]) host = to;
            }
          }
  }
  return all;
}

std::optional<HostWays> ways_of_alike_hosts(const topology::Topology& topology, const topology::Cluster& cluster,
                                            const schedule::EdgeIndex& edges) {
  return Finder(topology, cluster, edges).find();
}

}  // namespace sccl::compose
