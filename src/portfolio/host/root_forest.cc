#include "portfolio/host/root_forest.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "portfolio/links/outside.h"
#include "topology/graph/routes.h"
#include "treegen/graph/bounds.h"
#include "treegen/graph/kept_flows.h"
#include "treegen/packing/integral.h"
#include "treegen/packing/pack.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

using schedule::ChunkId;
using schedule::Step;
using treegen::Amount;
using treegen::Tree;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool reaches_all(const topology::Topology& one, Rank root) {
  topology::Routes routes(one);
  std::vector<bool> known(at(one.ranks), false);
  known[at(root)] = true;
  std::vector<Rank> open{root};
  while (!open.empty()) {
    const Rank from = open.back();
    open.pop_back();
    for (Rank to = 0; to < one.ranks; ++to) {
      if (known[at(to)] || !routes.connected(from, to)) continue;
      known[at(to)] = true;
      open.push_back(to);
    }
  }
  return std::find(known.begin(), known.end(), false) == known.end();
}

// What the root can send to all others at once.
Amount rate_from(const topology::Topology& one, Rank root) {
  return reaches_all(one, root) ? treegen::broadcast_bound(treegen::Links(one), root).rate.numerator() : 0;
}

// What trees have left of links, and of the rate that the root can send to all at once.
class Rest {
 public:
  Rest(const topology::Topology& links, Rank root)
      : links_(links),
        routes_(links_),
        root_(root),
        rate_(rate_from(links, root)),
        flows_(nodes(), arcs(), root, links.ranks) {
    set_capacities({}, 0);
  }

  const topology::Topology& links() const { return links_; }
  Amount rate() const { return rate_; }

  // Takes the tree with the largest weight that leaves the other links the rest of the rate (Edmonds), and returns it.
  Amount take_most(const Tree& tree) {
    const std::optional<Uses> uses = uses_of(tree);
    const Amount weight = uses ? most_weight(*uses) : 0;
    if (weight > 0) take(*uses, weight);
    return weight;
  }

 private:
  using Uses = std::map<std::size_t, int>;  // by link: how many of the tree's paths pass it

  int nodes() const { return links_.ranks + links_.switches; }
  std::vector<topology::Arc> arcs() const {
    std::vector<topology::Arc> result;
    for (const topology::Link& link : links_.links) result.push_back({link.src, link.dst});
    return result;
  }

  // None if a path is missing.
  std::optional<Uses> uses_of(const Tree& tree) {
    const Rank outside = links_.ranks - 1;
    Uses uses;
    for (Rank rank = 0; rank < links_.ranks; ++rank) {
      if (rank == root_) continue;
      const auto path = routes_.path(tree.parent[at(rank)], rank);
      // A tree may leave the host by any of its exits.
      if (path.empty() && rank != outside) return std::nullopt;
      for (const topology::Edge& edge : path) {
        const auto link = std::ranges::find_if(
            links_.links, [&](const auto& one) { return topology::Edge(one.src, one.dst) == edge; });
        if (link == links_.links.end()) return std::nullopt;
        ++uses[static_cast<std::size_t>(link - links_.links.begin())];
      }
    }
    return uses;
  }

  Amount most_weight(const Uses& uses) {
    Amount most = rate_;
    for (const auto& [link, times] : uses) most = std::min<Amount>(most, links_.links[link].lanes / times);
    Amount least = 0;
    for (Amount weight = most; least < most; weight = (least + most + 1) / 2) {
      const bool fits = carries_rest(uses, weight);
      (fits ? least : most) = fits ? weight : weight - 1;
    }
    return least;
  }

  void take(const Uses& uses, Amount weight) {
    for (const auto& [link, times] : uses) links_.links[link].lanes -= static_cast<int>(times * weight);
    std::erase_if(links_.links, [](const topology::Link& link) { return link.lanes == 0; });
    routes_ = topology::Routes(links_);
    flows_ = treegen::KeptFlows(nodes(), arcs(), root_, links_.ranks);
    set_capacities({}, 0);
    rate_ -= weight;
  }

  void set_capacities(const Uses& uses, Amount weight) {
    std::vector<Amount> lanes;
    for (const topology::Link& link : links_.links) lanes.push_back(link.lanes);
    for (const auto& [link, times] : uses) lanes[link] -= times * weight;
    for (std::size_t link = 0; link < lanes.size(); ++link) flows_.set_capacity(link, lanes[link]);
  }

  bool carries_rest(const Uses& uses, Amount weight) {
    if (weight == rate_) return true;
    set_capacities(uses, weight);
    for (Rank rank = 0; rank < links_.ranks; ++rank)
      if (rank != root_ && !flows_.reaches(rank, rate_ - weight)) return false;
    return true;
  }

  topology::Topology links_;
  topology::Routes routes_;
  Rank root_;
  Amount rate_;
  treegen::KeptFlows flows_;
};

// Whether the root reaches `by`, and `by` all others, over the host's links.
bool reaches_each(topology::Routes& routes, Rank root, Rank by, int devices) {
  if (!routes.connected(root, by)) return false;
  for (Rank other = 0; other < devices; ++other)
    if (other != root && other != by && !routes.connected(by, other)) return false;
  return true;
}

// A device with a NIC, the root before others.
Rank first_exit(std::span<const double> nics, Rank root) {
  if (nics[at(root)] > 0) return root;
  return static_cast<Rank>(std::ranges::find_if(nics, [](double rate) { return rate > 0; }) - nics.begin());
}

// Trees that are taken first. Through the root's NIC alone: all other devices get the chunk back, so their NICs are
// used for what no other link brings. In two steps, from the root to one device and from there to all others: the
// fewest steps of trees that divide what the root sends.
std::vector<Tree> first_trees(const topology::Topology& links, std::span<const double> nics, Rank root) {
  const Rank outside = links.ranks;
  Tree alone{root, std::vector<Rank>(at(links.ranks) + 1, outside)};
  alone.parent[at(root)] = -1;
  alone.parent[at(outside)] = root;
  const auto has_nic = [&](Rank device) { return nics[at(device)] > 0; };
  std::vector<Tree> result;
  if (std::ranges::all_of(nics, [](double rate) { return rate > 0; })) result.push_back(std::move(alone));
  topology::Routes routes(links);
  for (Rank by = 0; by < links.ranks; ++by) {
    if (by == root || !reaches_each(routes, root, by, links.ranks)) continue;
    Tree tree{root, std::vector<Rank>(at(links.ranks) + 1, by)};
    tree.parent[at(root)] = -1;
    tree.parent[at(by)] = root;
    tree.parent[at(outside)] = !has_nic(root) && has_nic(by) ? by : first_exit(nics, root);
    result.push_back(std::move(tree));
  }
  return result;
}

// The next ones. On the host's links alone: then every device is an exit.
std::vector<Tree> trees_on_host(const topology::Topology& links, std::span<const double> nics, Rank root) {
  std::vector<Amount> demands(at(links.ranks), 0);
  demands[at(root)] = rate_from(links, root);
  std::vector<Tree> result;
  if (auto trees = treegen::pack_whole(treegen::Links(links), demands, 1))
    for (treegen::WholeTree& tree : *trees) {
      tree.tree.parent.push_back(first_exit(nics, root));
      result.push_back(std::move(tree.tree));
    }
  return result;
}

// What a tree does on the root's host.
struct Part {
  Part(const Tree& tree, std::span<const double> nics) {
    const auto outside = static_cast<Rank>(tree.parent.size()) - 1;
    const std::vector<int> depth = treegen::depth_by_rank(tree);
    for (Rank device = 0; device < outside; ++device) {
      Rank up = device;
      while (up != tree.root && tree.parent[at(up)] != outside) up = tree.parent[at(up)];
      const bool returned = up != tree.root;
      if (!returned && nics[at(device)] > 0) exits.push_back(device);
      const Rank parent = tree.parent[at(device)];
      if (parent == outside) returns.push_back(device);
      if (device == tree.root || parent == outside) continue;
      const int step = depth[at(device)] - (returned ? depth[at(outside)] + 2 : 1);
      (returned ? late : early).push_back({0, parent, device, step, schedule::SendKind::copy});
      (returned ? late_steps : early_steps) = std::max(returned ? late_steps : early_steps, step + 1);
    }
  }

  std::vector<int> exits, returns;
  std::vector<schedule::Send> early, late;
  Step early_steps = 0;
  Step late_steps = 0;
};

// Trees in turn, in proportion to their rates: `count` of them in all.
std::vector<int> turns(const std::vector<RootTree>& trees, int count) {
  double all = 0;
  for (const RootTree& one : trees) all += one.gbytes_per_s;
  std::vector<Amount> shares;
  std::vector<std::pair<double, std::size_t>> rest;
  int left = count;
  for (const RootTree& one : trees) {
    const double share = one.gbytes_per_s / all * count;
    shares.push_back(static_cast<Amount>(share));
    rest.emplace_back(static_cast<double>(shares.back()) - share, rest.size());
    left -= static_cast<int>(shares.back());
  }
  std::sort(rest.begin(), rest.end());
  for (int i = 0; i < left; ++i) ++shares[rest[at(i) % rest.size()].second];
  return treegen::take_turns(shares);
}

}  // namespace

std::vector<RootTree> root_trees(const topology::Topology& links, std::span<const double> nic_gbytes_per_s,
                                 std::span<const topology::Node> last_nodes, double entries, Collective collective,
                                 Rank root) {
  topology::Topology one = with_outside(links, nic_gbytes_per_s, last_nodes);
  const auto widest = std::ranges::max_element(one.links, {}, &topology::Link::lanes);
  const double gbytes_per_s_of_lane = widest->gbytes_per_s / widest->lanes;
  const bool sums = collective == Collective::reduce;
  if (sums)
    for (topology::Link& link : one.links) std::swap(link.src, link.dst);
  for (topology::Link& link : one.links)
    if (link.dst == links.ranks) link.lanes = std::max(1, static_cast<int>(link.lanes / entries));
  std::vector<RootTree> result;
  const auto add = [&](const Tree& tree, double lanes) { result.push_back({tree, lanes * gbytes_per_s_of_lane}); };
  // By weights of any size, where links share their bandwidth or where whole numbers do not divide what switches pass
  // on.
  const auto packed = [&] {
    result.clear();
    const treegen::Packing packing =
        treegen::pack(one, Collective::broadcast, root, {.least_number = treegen::LeastNumber::where_it_helps});
    for (const treegen::WeightedRoute& route : packing.routes) add(route.route.out, treegen::to_double(route.weight));
    return std::move(result);
  };
  if (!one.shared.empty()) return packed();
  Rest rest(one, root);
  const auto take_from = [&](const std::vector<Tree>& trees) {
    for (const Tree& tree : trees)
      if (const Amount weight = rest.take_most(tree); weight > 0) add(tree, static_cast<double>(weight));
  };
  take_from(first_trees(links, nic_gbytes_per_s, root));
  if (rest.rate() > 0) take_from(trees_on_host(links, nic_gbytes_per_s, root));
  std::vector<Amount> demands(at(one.ranks), 0);
  demands[at(root)] = rest.rate();
  const auto trees = rest.rate() > 0 ? treegen::pack_whole(treegen::Links(rest.links()), demands, 1)
                                     : std::vector<treegen::WholeTree>{};
  if (!trees) return packed();
  for (const treegen::WholeTree& tree : *trees) add(tree.tree, static_cast<double>(tree.weight));
  return result;
}

compose::RootHost root_forest(const topology::Topology& links, const std::vector<RootTree>& trees, ExitsOfTree exits,
                              std::span<const double> nic_gbytes_per_s, Collective collective, Rank root,
                              const std::vector<Leaving>& leaving, bool on_rails) {
  std::vector<Part> parts;
  Step early_steps = 0;
  Step late_steps = 0;
  for (const RootTree& one : trees) {
    parts.emplace_back(one.tree, nic_gbytes_per_s);
    if (exits == ExitsOfTree::packed) parts.back().exits = {one.tree.parent.back()};
    early_steps = std::max(early_steps, parts.back().early_steps);
    late_steps = std::max(late_steps, parts.back().late_steps);
  }
  const int chunks = static_cast<int>(leaving.size());
  std::vector<std::vector<int>> exits_of_trees;
  for (const Part& part : parts) exits_of_trees.push_back(part.exits);
  WaysOut ways = choose_ways_out(exits_of_trees, turns(trees, chunks), leaving, nic_gbytes_per_s, root, on_rails);
  const bool sums = collective == Collective::reduce;
  compose::RootHost result;
  result.exits = std::move(ways.exits);
  result.returns.resize(leaving.size());
  result.split = sums ? late_steps : early_steps;
  std::vector<schedule::Send> sends;
  for (ChunkId chunk = 0; chunk < chunks; ++chunk) {
    const Part& part = parts[at(ways.trees[at(chunk)])];
    result.returns[at(chunk)] = part.returns;
    const auto add = [&](schedule::Send send, Step first) {
      send.chunk = chunk;
      send.step += first;
      if (sums) {
        std::swap(send.src, send.dst);
        send.step = early_steps + late_steps - 1 - send.step;
        send.kind = schedule::SendKind::reduce;
      }
      sends.push_back(send);
    };
    for (const schedule::Send& send : part.early) add(send, 0);
    for (const schedule::Send& send : part.late) add(send, early_steps);
  }
  result.schedule = schedule::make_schedule("forest", collective, root, links, chunks, std::move(sends));
  result.schedule.pipelined = true;
  return result;
}

}  // namespace sccl::portfolio
