#include "topology/symmetry/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "topology/graph/routes.h"
#include "topology/groups.h"
#include "topology/symmetry/canonical.h"
#include "topology/symmetry/networks.h"

namespace sccl::topology {
namespace {

constexpr int kNoHost = -1;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Finder {
 public:
  explicit Finder(const Topology& topology)
      : topology_(topology), out_(at(topology.nodes())), in_(at(topology.nodes())) {}

  Cluster find() {
    join_hosts();
    take_nics();
    collect_links();
    std::vector<Topology> local = host_topologies();
    sort_into_kinds(local);
    attach();
    find_racks();
    return std::move(cluster_);
  }

 private:
  void join_hosts() {
    Groups groups(topology_.nodes());
    for (const Link& link : topology_.links)
      if (link.link_class != LinkClass::net) groups.join(link.src, link.dst);
    std::map<Node, int> host_of_leader;
    host_of_node_.assign(at(topology_.nodes()), kNoHost);
    for (Rank rank = 0; rank < topology_.ranks; ++rank) {
      const auto [found, inserted] = host_of_leader.emplace(groups.of(rank), static_cast<int>(cluster_.hosts.size()));
      if (inserted) cluster_.hosts.emplace_back();
      cluster_.host_of.push_back(found->second);
      cluster_.local_of.push_back(static_cast<int>(cluster_.hosts[at(found->second)].size()));
      cluster_.hosts[at(found->second)].push_back(rank);
    }
    for (Node node = 0; node < topology_.nodes(); ++node)
      if (const auto found = host_of_leader.find(groups.of(node)); found != host_of_leader.end())
        host_of_node_[at(node)] = found->second;
  }

  // A network switch between a single host and other network switches is this host's NIC, unless the network falls
  // apart without such switches: hosts in a line, each with a switch of its own.
  void take_nics() {
    constexpr int kSeveral = -2;
    std::vector<int> served(at(topology_.nodes()), kNoHost);
    std::vector<bool> leads_on(served.size(), false);  // to another switch of the network
    for (const Link& link : topology_.links)
      for (const auto& [node, other] : {std::pair(link.src, link.dst), std::pair(link.dst, link.src)}) {
        const int host = host_of_node_[at(other)];
        if (host == kNoHost) leads_on[at(node)] = true;
        if (host_of_node_[at(node)] != kNoHost || host == kNoHost) continue;
        int& one = served[at(node)];
        one = one == kNoHost || one == host ? host : kSeveral;
      }
    if (cluster_.hosts.size() < 2) return;
    std::vector<Node> nics;
    for (Node node = topology_.ranks; node < topology_.nodes(); ++node)
      if (host_of_node_[at(node)] == kNoHost && served[at(node)] >= 0 && leads_on[at(node)]) nics.push_back(node);
    const bool were_joined = network_joins_hosts();
    for (const Node node : nics) host_of_node_[at(node)] = served[at(node)];
    if (nics.empty() || !were_joined || network_joins_hosts()) return;
    for (const Node node : nics) host_of_node_[at(node)] = kNoHost;
  }

  // Whether all hosts have links to one network of switches.
  bool network_joins_hosts() const {
    Groups groups(topology_.nodes());
    const auto in_network = [&](Node node) { return host_of_node_[at(node)] == kNoHost; };
    for (const Link& link : topology_.links)
      if (in_network(link.src) && in_network(link.dst)) groups.join(link.src, link.dst);
    std::map<Node, std::set<int>> joined;  // hosts by the network that they have links to
    for (const Link& link : topology_.links)
      if (in_network(link.src) != in_network(link.dst))
        joined[groups.of(in_network(link.src) ? link.src : link.dst)].insert(
            host_of_node_[at(in_network(link.src) ? link.dst : link.src)]);
    return std::any_of(joined.begin(), joined.end(),
                       [&](const auto& one) { return one.second.size() == cluster_.hosts.size(); });
  }

  void collect_links() {
    for (std::size_t index = 0; index < topology_.links.size(); ++index) {
      const Link& link = topology_.links[index];
      rates_[{link.src, link.dst}] += link.gbytes_per_s;
      out_[at(link.src)].push_back(link.dst);
      in_[at(link.dst)].push_back(link.src);
    }
    for (auto* lists : {&out_, &in_})
      for (std::vector<Node>& nodes : *lists) {
        std::sort(nodes.begin(), nodes.end());
        nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
      }
  }

  std::vector<Topology> host_topologies() {
    const std::size_t hosts = cluster_.hosts.size();
    std::vector<Topology> local(hosts);
    std::vector<Node> number(at(topology_.nodes()), -1);
    cluster_.nodes.resize(hosts);
    for (std::size_t host = 0; host < hosts; ++host) {
      local[host].ranks = static_cast<int>(cluster_.hosts[host].size());
      cluster_.nodes[host] = cluster_.hosts[host];
    }
    for (Rank rank = 0; rank < topology_.ranks; ++rank) number[at(rank)] = cluster_.local_of[at(rank)];
    const std::vector<bool> kept = switches_between_devices();
    for (Node node = topology_.ranks; node < topology_.nodes(); ++node) {
      if (!kept[at(node)]) continue;
      const auto host = at(host_of_node_[at(node)]);
      number[at(node)] = local[host].nodes();
      ++local[host].switches;
      local[host].switch_kinds.push_back(topology_.switch_kind(node));
      cluster_.nodes[host].push_back(node);
    }
    for (Link link : topology_.links) {
      if (link.link_class == LinkClass::net || number[at(link.src)] < 0 || number[at(link.dst)] < 0) continue;
      const auto host = at(host_of_node_[at(link.src)]);
      link.src = number[at(link.src)];
      link.dst = number[at(link.dst)];
      local[host].links.push_back(link);
    }
    add_shared(local, number);
    return local;
  }

  // The hosts' switches that lie between devices. NICs, and switches that lead only to NICs, are left out.
  std::vector<bool> switches_between_devices() const {
    std::vector<std::vector<Node>> neighbours(at(topology_.nodes()));
    for (const Link& link : topology_.links) {
      if (link.link_class == LinkClass::net) continue;
      neighbours[at(link.src)].push_back(link.dst);
      neighbours[at(link.dst)].push_back(link.src);
    }
    std::vector<std::size_t> left(neighbours.size());
    std::vector<bool> kept(neighbours.size(), false);
    std::vector<Node> dead;
    for (std::size_t node = 0; node < neighbours.size(); ++node) {
      std::sort(neighbours[node].begin(), neighbours[node].end());
      neighbours[node].erase(std::unique(neighbours[node].begin(), neighbours[node].end()), neighbours[node].end());
      left[node] = neighbours[node].size();
      kept[node] = static_cast<Node>(node) >= topology_.ranks && host_of_node_[node] != kNoHost;
      if (kept[node] && left[node] < 2) dead.push_back(static_cast<Node>(node));
    }
    while (!dead.empty()) {
      const Node node = dead.back();
      dead.pop_back();
      if (!kept[at(node)]) continue;
      kept[at(node)] = false;
      for (const Node other : neighbours[at(node)])
        if (kept[at(other)] && --left[at(other)] < 2) dead.push_back(other);
    }
    return kept;
  }

  void add_shared(std::vector<Topology>& local, const std::vector<Node>& number) const {
    for (const SharedSet& set : topology_.shared) {
      std::map<int, SharedSet> parts;
      for (const auto& [src, dst] : set.links) {
        if (number[at(src)] < 0 || number[at(dst)] < 0) continue;
        const int host = host_of_node_[at(src)];
        if (host != host_of_node_[at(dst)]) continue;
        const auto& links = local[at(host)].links;
        const bool inner = std::any_of(links.begin(), links.end(), [&, src = src, dst = dst](const Link& link) {
          return link.src == number[at(src)] && link.dst == number[at(dst)];
        });
        if (inner) parts[host].links.emplace_back(number[at(src)], number[at(dst)]);
      }
      for (auto& [host, part] : parts) {
        part.lanes = set.lanes;
        local[at(host)].shared.push_back(std::move(part));
      }
    }
  }

  static std::string fingerprint(Topology& local) {
    const auto key = [](const Link& link) {
      return std::tuple(link.src, link.dst, link.lanes, link.gbytes_per_s, link.alpha_us, link.link_class);
    };
    std::stable_sort(local.links.begin(), local.links.end(),
                     [&](const Link& a, const Link& b) { return key(a) < key(b); });
    std::string text = fmt::format("{} {};", local.ranks, local.switches);
    for (const Link& link : local.links)
      text += fmt::format("{},{},{},{},{},{};", link.src, link.dst, link.lanes, link.gbytes_per_s, link.alpha_us,
                          static_cast<int>(link.link_class));
    for (const SharedSet& set : local.shared) {
      text += fmt::format("|{}", set.lanes);
      for (const auto& [src, dst] : set.links) text += fmt::format(",{}-{}", src, dst);
    }
    return text;
  }

  // A host with the links of a known kind under other numbers takes that kind's numbers, so that ranks in any order on
  // each host are as good as ranks in the same order on all.
  void sort_into_kinds(std::vector<Topology>& local) {
    struct Known {
      int kind;
      std::vector<Node> order;  // by the kind's node: the host's node; empty: the same numbers
    };
    struct Numbered {
      int kind;
      std::vector<Node> number;  // canonical number of the kind's node
    };
    std::map<std::string, Known> known;
    std::map<std::string, Numbered> canonical;
    for (std::size_t host = 0; host < local.size(); ++host) {
      Topology& one = local[host];
      const auto [found, inserted] =
          known.emplace(fingerprint(one), Known{static_cast<int>(cluster_.kinds.size()), {}});
      Known& here = found->second;
      if (inserted && local.size() > 1) {
        CanonicalForm form = canonical_form(with_exits(one, host), Figures::compared);
        const auto [alike, is_new] = canonical.emplace(form.text, Numbered{here.kind, form.number});
        if (!is_new && form.exact)
          if (auto order = order_like(alike->second.number, form.number))
            here = {alike->second.kind, *std::move(order)};
      }
      cluster_.kind_of.push_back(here.kind);
      if (!here.order.empty()) renumber(host, here.order);
      if (here.kind < static_cast<int>(cluster_.kinds.size())) continue;
      one.name = fmt::format("host kind {} of {}", here.kind, topology_.name);
      cluster_.kinds.push_back(std::move(one));
    }
  }

  // The host's links, and those that leave it, to one node that stands for all that is outside: a device with a NIC is
  // not like one without.
  Topology with_exits(Topology links, std::size_t host) {
    if (exits_.empty()) find_exits();
    const Node outside = links.nodes();
    ++links.switches;
    links.switch_kinds.resize(at(links.switches));
    for (Link link : exits_[host]) {
      (link.src < 0 ? link.src : link.dst) = outside;
      links.links.push_back(link);
    }
    return links;
  }

  void find_exits() {
    exits_.resize(cluster_.hosts.size());
    std::vector<int> host_of(at(topology_.nodes()), kNoHost);
    std::vector<Node> number(at(topology_.nodes()), -1);
    for (std::size_t host = 0; host < cluster_.nodes.size(); ++host)
      for (std::size_t index = 0; index < cluster_.nodes[host].size(); ++index) {
        host_of[at(cluster_.nodes[host][index])] = static_cast<int>(host);
        number[at(cluster_.nodes[host][index])] = static_cast<Node>(index);
      }
    for (Link link : topology_.links) {
      const int from = host_of[at(link.src)];
      const int to = host_of[at(link.dst)];
      if (from == to) continue;
      for (const int host : {from, to}) {
        if (host == kNoHost) continue;
        Link exit = link;
        exit.src = host == from ? number[at(link.src)] : -1;
        exit.dst = host == to ? number[at(link.dst)] : -1;
        exits_[at(host)].push_back(exit);
      }
    }
  }

  // By node of the first: the node of the second with the same canonical number. Nothing unless the nodes outside,
  // which are the last, have the same.
  static std::optional<std::vector<Node>> order_like(const std::vector<Node>& first, const std::vector<Node>& second) {
    std::vector<Node> node_of(second.size());
    for (std::size_t node = 0; node < second.size(); ++node) node_of[at(second[node])] = static_cast<Node>(node);
    std::vector<Node> order;
    for (const Node number : first) order.push_back(node_of[at(number)]);
    if (order.back() + 1 != static_cast<Node>(order.size())) return std::nullopt;
    order.pop_back();
    return order;
  }

  void renumber(std::size_t host, const std::vector<Node>& order) {
    std::vector<Node> nodes;
    for (const Node node : order) nodes.push_back(cluster_.nodes[host][at(node)]);
    cluster_.nodes[host] = std::move(nodes);
    for (std::size_t place = 0; place < cluster_.hosts[host].size(); ++place) {
      cluster_.hosts[host][place] = cluster_.nodes[host][place];
      cluster_.local_of[at(cluster_.hosts[host][place])] = static_cast<int>(place);
    }
  }

  bool in_network(Node node) const { return node >= topology_.ranks && host_of_node_[at(node)] == kNoHost; }

  // Breadth-first search from the rank over its host's switches to the network (to `wanted` if that is not negative).
  // With `next` = incoming links the path is found backwards.
  std::vector<std::pair<Node, Node>> way_to_network(Rank rank, const std::vector<std::vector<Node>>& next,
                                                    Node wanted) {
    struct Reached {
      Node node;
      int before;  // position of its predecessor
      int depth;
      double slowest;  // GB/s of the slowest link on the way
    };
    const bool forwards = &next == &out_;
    std::vector<Reached> reached{{rank, -1, 0, std::numeric_limits<double>::infinity()}};
    std::optional<Reached> end;
    for (std::size_t i = 0; i < reached.size() && (!end || reached[i].depth < end->depth); ++i)
      for (const Node node : next[at(reached[i].node)]) {
        if (node < topology_.ranks || (in_network(node) && wanted >= 0 && node != wanted)) continue;
        const double rate = forwards ? rates_.at({reached[i].node, node}) : rates_.at({node, reached[i].node});
        const Reached one{node, static_cast<int>(i), reached[i].depth + 1, std::min(rate, reached[i].slowest)};
        if (in_network(node)) {
          if (!end || one.slowest > kClearlyFaster * end->slowest) end = one;
          continue;
        }
        const auto known = std::ranges::find(reached, node, &Reached::node);
        if (known == reached.end())
          reached.push_back(one);
        else if (known->depth == one.depth && one.slowest > kClearlyFaster * known->slowest)
          *known = one;
      }
    std::vector<std::pair<Node, Node>> way;
    for (std::optional<Reached> one = end; one && one->before >= 0; one = reached[at(one->before)])
      way.emplace_back(reached[at(one->before)].node, one->node);
    std::reverse(way.begin(), way.end());
    return way;
  }

  void attach() {
    cluster_.attachments.resize(at(topology_.ranks));
    for (Rank rank = 0; rank < topology_.ranks; ++rank) {
      Attachment& one = cluster_.attachments[at(rank)];
      one.up = way_to_network(rank, out_, -1);
      if (one.up.empty()) continue;
      one.down = way_to_network(rank, in_, one.up.back().second);
      if (one.down.empty()) continue;
      for (auto& edge : one.down) std::swap(edge.first, edge.second);
      std::reverse(one.down.begin(), one.down.end());
      one.leaf = one.up.back().second;
    }
  }

  void find_racks() {
    std::map<std::vector<Node>, int> known;
    for (std::size_t host = 0; host < cluster_.hosts.size(); ++host) {
      std::vector<Node> leaves;
      for (const Rank rank : cluster_.hosts[host])
        if (cluster_.attachments[at(rank)].attached()) leaves.push_back(cluster_.attachments[at(rank)].leaf);
      std::sort(leaves.begin(), leaves.end());
      leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
      const auto [found, inserted] = known.emplace(leaves, static_cast<int>(cluster_.racks.size()));
      if (inserted) cluster_.racks.emplace_back();
      cluster_.racks[at(found->second)].push_back(static_cast<int>(host));
    }
  }

  const Topology& topology_;
  std::vector<std::vector<Node>> out_;  // by node, ascending, each once
  std::vector<std::vector<Node>> in_;
  std::map<std::pair<Node, Node>, double> rates_;  // GB/s of all links from a node to another
  std::vector<int> host_of_node_;
  std::vector<std::vector<Link>> exits_;  // by host, in its numbers; -1: the end outside
  Cluster cluster_;
};

}  // namespace

std::vector<int> Cluster::ports(int host) const {
  std::vector<int> result;
  for (const Rank rank : hosts[at(host)])
    if (attachments[at(rank)].attached()) result.push_back(local_of[at(rank)]);
  return result;
}

bool Cluster::has_one_leaf() const {
  std::set<Node> leaves;
  for (const Attachment& one : attachments)
    if (one.attached()) leaves.insert(one.leaf);
  return leaves.size() <= 1;
}

Cluster cluster_of(const Topology& topology) {
  Cluster cluster = Finder(topology).find();
  cluster.network_of = networks_of(topology, cluster);
  return cluster;
}

std::vector<bool> network_switches(const Topology& topology, const Cluster& cluster) {
  std::vector<bool> network(at(topology.nodes()), true);
  for (const auto& nodes : cluster.nodes)
    for (const Node node : nodes) network[at(node)] = false;
  for (const Attachment& one : cluster.attachments)
    for (const auto& [src, dst] : one.up) network[at(src)] = false;
  return network;
}

NetworkWays::NetworkWays(const Topology& topology, const Cluster& cluster) : numbers_(at(topology.nodes()), -1) {
  const std::vector<bool> network = network_switches(topology, cluster);
  int count = 0;
  for (std::size_t node = 0; node < network.size(); ++node)
    if (network[node]) numbers_[node] = count++;
  next_.resize(at(count));
  for (const Link& link : topology.links)
    if (network[at(link.src)] && network[at(link.dst)])
      next_[at(number(link.src))].emplace_back(link.dst, link.gbytes_per_s);
  for (auto& links : next_) {
    std::ranges::stable_sort(links, {}, &std::pair<Node, double>::first);
    std::vector<std::pair<Node, double>> joined;
    for (const auto& link : links) {
      if (joined.empty() || joined.back().first != link.first)
        joined.push_back(link);
      else
        joined.back().second += link.second;
    }
    links = std::move(joined);
  }
}

const NetworkWays::Search& NetworkWays::search(Node from) {
  constexpr std::size_t kMostKept = 1 << 22;  // edges
  const auto [known, inserted] = searched_.try_emplace(from);
  if (!inserted) return known->second;
  if (searched_.size() * next_.size() > kMostKept) {
    searched_.clear();
    return search(from);
  }
  Search& found = known->second;
  found.edge_to.assign(next_.size(), -1);
  if (number(from) < 0) return found;
  std::vector<double> slowest(next_.size(), 0);  // GB/s on the way to a switch
  std::vector<int> depth(next_.size(), 0);
  slowest[at(number(from))] = std::numeric_limits<double>::infinity();
  Node node = from;
  for (std::size_t reached = 0;; node = found.edges[reached++].second) {
    const std::size_t here = at(number(node));
    for (const auto& [other, rate] : next_[here]) {
      const std::size_t there = at(number(other));
      const double one = std::min(slowest[here], rate);
      const bool known = other == from || found.edge_to[there] >= 0;
      if (known && (other == from || depth[there] <= depth[here] || one <= kClearlyFaster * slowest[there])) continue;
      slowest[there] = one;
      depth[there] = depth[here] + 1;
      if (known) {
        found.edges[at(found.edge_to[there])].first = node;
        continue;
      }
      found.edge_to[there] = static_cast<int>(found.edges.size());
      found.edges.emplace_back(node, other);
    }
    if (reached == found.edges.size()) return found;
  }
}

const NetworkWays::Edges& NetworkWays::way(Node from, Node to) {
  way_.clear();
  if (from == to) return way_;
  const Search& found = search(from);
  for (Node node = to; node != from;) {
    const int edge = number(node) >= 0 ? found.edge_to[at(number(node))] : -1;
    if (edge < 0) break;
    way_.push_back(found.edges[at(edge)]);
    node = way_.back().first;
  }
  std::reverse(way_.begin(), way_.end());
  return way_;
}

}  // namespace sccl::topology
