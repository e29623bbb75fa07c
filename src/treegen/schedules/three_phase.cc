#include "treegen/schedules/three_phase.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "topology/presets.h"
#include "treegen/packing/pack.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::treegen {
namespace {

using schedule::Send;
using schedule::SendKind;
using schedule::Step;

// A piece of [0, 1) and its holder.
template <typename Value>
struct Interval {
  Rational end;
  Value value;
};

template <typename Value>
const Value& at(const std::vector<Interval<Value>>& intervals, const Rational& place) {
  return std::find_if(intervals.begin(), intervals.end(), [&](const auto& one) { return place < one.end; })->value;
}

// One server's part of the plan; trees and roots are numbered as ranks of the whole topology.
struct Server {
  std::vector<Rank> ranks;
  bool symmetric = true;
  std::vector<Interval<Route>> trees;
  std::vector<Interval<Rank>> roots;
};

Topology without_network(Topology topology) {
  std::erase_if(topology.links, [](const topology::Link& link) { return link.link_class == topology::LinkClass::net; });
  for (topology::SharedSet& set : topology.shared)
    std::erase_if(set.links, [&](const auto& edge) { return topology.lanes(edge.first, edge.second) == 0; });
  std::erase_if(topology.shared, [](const topology::SharedSet& set) { return set.links.empty(); });
  return topology;
}

// Trees one after another by root, so that a device's one-hop tree meets the device's own share of the network.
std::vector<Interval<Route>> tree_intervals(const std::vector<Rank>& ranks, const Packing& packing) {
  std::vector<WeightedRoute> routes = packing.routes;
  std::stable_sort(routes.begin(), routes.end(),
                   [](const WeightedRoute& a, const WeightedRoute& b) { return a.route.root() < b.route.root(); });
  std::vector<Interval<Route>> result;
  Rational end(0);
  for (const auto& [route, weight] : routes) {
    end += weight / packing.rate;
    Route global = route;
    for (Tree* tree : {&global.in, &global.out}) {
      tree->root = ranks[static_cast<std::size_t>(tree->root)];
      for (Rank& parent : tree->parent)
        if (parent >= 0) parent = ranks[static_cast<std::size_t>(parent)];
    }
    result.push_back({end, std::move(global)});
  }
  return result;
}

// Shares by the lanes that lead from each rank into the network; equal ones where none does.
std::vector<Interval<Rank>> root_intervals(const Topology& topology, const std::vector<Rank>& ranks) {
  std::vector<std::int64_t> lanes(ranks.size(), 0);
  for (const topology::Link& link : topology.links)
    if (link.link_class == topology::LinkClass::net)
      if (const auto found = std::find(ranks.begin(), ranks.end(), link.src); found != ranks.end())
        lanes[static_cast<std::size_t>(found - ranks.begin())] += link.lanes;
  std::int64_t all = 0;
  for (const std::int64_t one : lanes) all += one;
  if (all == 0) {
    std::fill(lanes.begin(), lanes.end(), 1);
    all = static_cast<std::int64_t>(ranks.size());
  }
  std::vector<Interval<Rank>> result;
  std::int64_t sum = 0;
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    sum += lanes[index];
    if (lanes[index] > 0) result.push_back({Rational(sum, all), ranks[index]});
  }
  return result;
}

Server plan_server(const Topology& topology, const Topology& local, const std::vector<Rank>& ranks) {
  Server server;
  server.ranks = ranks;
  server.roots = root_intervals(topology, ranks);
  if (ranks.size() == 1) {
    const Tree alone{ranks.front(), {-1}};
    server.trees.push_back({Rational(1), {alone, alone}});
    return server;
  }
  const Topology part = topology::subset(local, ranks);
  server.symmetric = Links(part).symmetric();
  server.trees = tree_intervals(ranks, pack(part, Collective::allreduce, 0));
  return server;
}

// Sends of one chunk inside one server; `parent` of the i-th rank is a rank of the whole topology.
class LocalTree {
 public:
  LocalTree(const Server& server, const Tree& tree, Rank root) : ranks_(server.ranks) {
    // Trees know positions only, so they are turned round by position.
    Tree local{position(tree.root), {}};
    for (const Rank parent : tree.parent) local.parent.push_back(parent < 0 ? -1 : position(parent));
    tree_ = server.symmetric ? rerooted(local, position(root)) : local;
    depths_ = depth_by_rank(tree_);
  }

  Rank root() const { return ranks_[static_cast<std::size_t>(tree_.root)]; }
  int height() const { return *std::max_element(depths_.begin(), depths_.end()); }

  void reduce(schedule::ChunkId chunk, Step end, std::vector<Send>& sends) const {
    each([&](Rank child, Rank parent, int depth) {
      sends.push_back({chunk, child, parent, end - depth, SendKind::reduce});
    });
  }
  void copy(schedule::ChunkId chunk, Step begin, std::vector<Send>& sends) const {
    each([&](Rank child, Rank parent, int depth) {
      sends.push_back({chunk, parent, child, begin + depth - 1, SendKind::copy});
    });
  }

 private:
  int position(Rank rank) const {
    return static_cast<int>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
  }

  template <typename Visit>
  void each(Visit&& visit) const {
    for (std::size_t index = 0; index < ranks_.size(); ++index)
      if (const Rank parent = tree_.parent[index]; parent >= 0)
        visit(ranks_[index], ranks_[static_cast<std::size_t>(parent)], depths_[index]);
  }

  const std::vector<Rank>& ranks_;
  Tree tree_;
  std::vector<int> depths_;
};

// Chunk `first_chunk + s` of this cut ends its reduction at server s's root.
void add_cut(const std::vector<Server>& servers, const Rational& place, schedule::ChunkId first_chunk,
             std::vector<Send>& sends) {
  std::vector<LocalTree> in;
  std::vector<LocalTree> out;
  int height = 0;
  for (const Server& server : servers) {
    const Route& route = at(server.trees, place);
    const Rank root = server.symmetric ? at(server.roots, place) : route.root();
    in.emplace_back(server, route.in, root);
    out.emplace_back(server, route.out, root);
    height = std::max(height, in.back().height());
  }
  for (std::size_t owner = 0; owner < servers.size(); ++owner) {
    const schedule::ChunkId chunk = first_chunk + static_cast<int>(owner);
    for (std::size_t other = 0; other < servers.size(); ++other) {
      in[other].reduce(chunk, height, sends);
      if (other != owner) {
        sends.push_back({chunk, in[other].root(), in[owner].root(), height, SendKind::reduce});
        sends.push_back({chunk, in[owner].root(), in[other].root(), height + 1, SendKind::copy});
      }
      out[other].copy(chunk, height + 2, sends);
    }
  }
}

}  // namespace

std::vector<std::vector<Rank>> servers(const Topology& topology) {
  std::vector<int> server_of(static_cast<std::size_t>(topology.nodes()), -1);
  std::vector<std::vector<Rank>> result;
  for (Rank first = 0; first < topology.ranks; ++first) {
    if (server_of[static_cast<std::size_t>(first)] >= 0) continue;
    const int number = static_cast<int>(result.size());
    result.emplace_back();
    std::vector<Node> waiting{first};
    server_of[static_cast<std::size_t>(first)] = number;
    while (!waiting.empty()) {
      const Node node = waiting.back();
      waiting.pop_back();
      if (node < topology.ranks) result.back().push_back(node);
      for (const topology::Link& link : topology.links) {
        if (link.link_class == topology::LinkClass::net || (link.src != node && link.dst != node)) continue;
        const Node other = link.src == node ? link.dst : link.src;
        if (server_of[static_cast<std::size_t>(other)] >= 0) continue;
        server_of[static_cast<std::size_t>(other)] = number;
        waiting.push_back(other);
      }
    }
    std::sort(result.back().begin(), result.back().end());
  }
  return result;
}

std::optional<schedule::Schedule> three_phase(const Topology& topology, Collective collective, Rank root) {
  if (collective != Collective::allreduce) return std::nullopt;
  topology::validate(topology);
  const auto parts = servers(topology);
  if (parts.size() < 2) return std::nullopt;
  std::vector<Server> plan;
  const Topology local = without_network(topology);
  for (const auto& ranks : parts) plan.push_back(plan_server(topology, local, ranks));

  std::set<Rational> cuts;
  for (const Server& server : plan) {
    for (const auto& tree : server.trees) cuts.insert(tree.end);
    for (const auto& one : server.roots) cuts.insert(one.end);
  }
  std::vector<Send> sends;
  std::vector<double> weights;
  Rational begin(0);
  for (const Rational& end : cuts) {
    add_cut(plan, begin, static_cast<int>(weights.size()), sends);
    weights.insert(weights.end(), plan.size(), to_double((end - begin) / static_cast<std::int64_t>(plan.size())));
    begin = end;
  }
  topology::Routes routes(topology);
  for (const Send& send : sends)
    if (!routes.connected(send.src, send.dst)) return std::nullopt;
  schedule::Schedule schedule = schedule::make_schedule("three-phase", collective, root, topology,
                                                        static_cast<int>(weights.size()), std::move(sends));
  schedule.pipelined = true;
  schedule.weights = std::move(weights);
  return schedule;
}

}  // namespace sccl::treegen
