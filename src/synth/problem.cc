#include "synth/problem.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "base/error.h"
#include "topology/graph/routes.h"

namespace sccl::synth {
namespace {

using topology::Edge;
using topology::Topology;

std::vector<int> distances_from(const Problem& problem, Rank source) {
  std::vector<int> distance(static_cast<std::size_t>(problem.ranks), kUnreachable);
  std::deque<Rank> waiting{source};
  distance[static_cast<std::size_t>(source)] = 0;
  while (!waiting.empty()) {
    const Rank at = waiting.front();
    waiting.pop_front();
    for (const int hop : problem.hops_from[static_cast<std::size_t>(at)]) {
      const Rank next = problem.hops[static_cast<std::size_t>(hop)].dst;
      int& reached = distance[static_cast<std::size_t>(next)];
      if (reached != kUnreachable) continue;
      reached = distance[static_cast<std::size_t>(at)] + 1;
      waiting.push_back(next);
    }
  }
  return distance;
}

void add_distances(Problem& problem) {
  problem.distance.clear();
  for (Rank rank = 0; rank < problem.ranks; ++rank) problem.distance.push_back(distances_from(problem, rank));
}

// By hop: how often it loads an edge.
using Load = std::map<int, int>;

void add_capacity(Problem& problem, std::map<std::vector<Capacity::Term>, int>& known, const Load& load, int lanes) {
  if (load.empty()) return;
  std::vector<Capacity::Term> terms;
  for (const auto& [hop, times] : load) terms.push_back({hop, times});
  const auto [at, fresh] = known.emplace(terms, static_cast<int>(problem.capacities.size()));
  if (fresh)
    problem.capacities.push_back({lanes, std::move(terms)});
  else
    problem.capacities[static_cast<std::size_t>(at->second)].lanes =
        std::min(problem.capacities[static_cast<std::size_t>(at->second)].lanes, lanes);
}

void add_hops(Problem& problem, const Topology& topology) {
  topology::Routes routes(topology);
  std::map<Edge, Load> loads;
  for (Rank src = 0; src < topology.ranks; ++src)
    for (Rank dst = 0; dst < topology.ranks; ++dst) {
      const auto path = routes.path(src, dst);
      if (path.empty()) continue;
      const int hop = static_cast<int>(problem.hops.size());
      problem.hops.push_back({src, dst});
      problem.hops_from[static_cast<std::size_t>(src)].push_back(hop);
      problem.hops_into[static_cast<std::size_t>(dst)].push_back(hop);
      for (const Edge& edge : path) ++loads[edge][hop];
    }
  std::map<std::vector<Capacity::Term>, int> known;
  const auto lanes = topology::edge_lanes(topology);
  for (const auto& [edge, load] : loads) add_capacity(problem, known, load, lanes.at(edge));
  for (const topology::SharedSet& set : topology.shared) {
    std::vector<Edge> members(set.links.begin(), set.links.end());
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    Load load;
    for (const Edge& member : members)
      if (const auto found = loads.find(member); found != loads.end())
        for (const auto& [hop, times] : found->second) load[hop] += times;
    add_capacity(problem, known, load, set.lanes);
  }
}

void add_commodities(Problem& problem, const schedule::Schedule& shape) {
  // By source and sink, -1 standing for everyone.
  std::map<std::pair<Rank, Rank>, std::vector<schedule::ChunkId>> alike;
  for (schedule::ChunkId chunk = 0; chunk < shape.chunks; ++chunk) {
    const schedule::ChunkEnds ends = schedule::ends(shape, chunk);
    alike[{ends.source, ends.everyone_receives ? -1 : ends.sink}].push_back(chunk);
  }
  for (auto& [from_to, chunks] : alike) {
    const auto [source, sink] = from_to;
    if (source == sink || shape.ranks == 1) continue;
    std::vector<bool> sinks(static_cast<std::size_t>(shape.ranks), sink < 0);
    if (sink >= 0) sinks[static_cast<std::size_t>(sink)] = true;
    sinks[static_cast<std::size_t>(source)] = false;
    problem.commodities.push_back({source, std::move(sinks), std::move(chunks)});
  }
}

}  // namespace

int Problem::chunks() const {
  int total = 0;
  for (const Commodity& commodity : commodities) total += static_cast<int>(commodity.chunks.size());
  return total;
}

int Problem::distance_to_sinks(const Commodity& commodity, Rank rank) const {
  int nearest = kUnreachable;
  for (Rank sink = 0; sink < ranks; ++sink)
    if (commodity.sinks[static_cast<std::size_t>(sink)])
      nearest = std::min(nearest, distance[static_cast<std::size_t>(rank)][static_cast<std::size_t>(sink)]);
  return nearest;
}

Problem make_problem(const Topology& topology, Collective collective, Rank root, int chunks_per_rank) {
  topology::validate(topology);
  if (info(collective).reduces)
    fail(ErrorCode::invalid_argument, "{} combines chunks: synthesize its inverse on the reversed topology",
         info(collective).call_name);
  if (root < 0 || root >= topology.ranks)
    fail(ErrorCode::invalid_argument, "root {} is not a rank of 0..{}", root, topology.ranks - 1);
  if (chunks_per_rank < 1) fail(ErrorCode::invalid_argument, "{} chunks: give at least 1", chunks_per_rank);
  if (chunks_per_rank % chunks_per_piece(collective, topology.ranks) != 0)
    fail(ErrorCode::invalid_argument, "{} chunks of a {} on {} ranks: give a multiple of {}", chunks_per_rank,
         info(collective).name, topology.ranks, topology.ranks);
  schedule::Schedule shape;
  shape.collective = collective;
  shape.ranks = topology.ranks;
  shape.root = root;
  shape.chunks_per_rank = chunks_per_rank;
  shape.chunks = schedule::chunk_count(collective, topology.ranks, chunks_per_rank);
  Problem problem;
  problem.ranks = topology.ranks;
  problem.hops_from.resize(static_cast<std::size_t>(topology.ranks));
  problem.hops_into.resize(static_cast<std::size_t>(topology.ranks));
  add_hops(problem, topology);
  add_commodities(problem, shape);
  add_distances(problem);
  return problem;
}

Problem reversed(Problem problem) {
  for (Hop& hop : problem.hops) std::swap(hop.src, hop.dst);
  std::swap(problem.hops_from, problem.hops_into);
  add_distances(problem);
  return problem;
}

int chunks_per_piece(Collective collective, int ranks) {
  return collective == Collective::scatter || collective == Collective::alltoall ? ranks : 1;
}

}  // namespace sccl::synth
