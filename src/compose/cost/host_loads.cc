#include "compose/cost/host_loads.h"

#include <algorithm>

#include "topology/graph/routes.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

EdgeLoads edge_loads(const schedule::Schedule& schedule, const std::vector<double>& part) {
  topology::Routes ways(schedule.topology);
  EdgeLoads loads;
  for (const schedule::Send& send : schedule.sends)
    if (part[at(send.chunk)] > 0)
      for (const topology::Edge& edge : ways.path(send.src, send.dst)) loads[edge] += part[at(send.chunk)];
  return loads;
}

EdgeLoads loads_of_turns(const schedule::Schedule& schedule, const std::vector<std::vector<ChunkId>>& turns,
                         const std::vector<double>& share) {
  std::vector<double> part(at(schedule.chunks), 0);
  for (std::size_t port = 0; port < turns.size(); ++port)
    for (const ChunkId chunk : turns[port]) part[at(chunk)] += share[port] / static_cast<double>(turns[port].size());
  return edge_loads(schedule, part);
}

EdgeLoads loads_between(const HostKind& kind, const std::vector<std::vector<double>>& bytes) {
  const int devices = kind.between.ranks;
  const int pieces = std::max(1, kind.between.chunks / (devices * devices));
  std::vector<double> part(at(kind.between.chunks), 0);
  for (ChunkId chunk = 0; chunk < kind.between.chunks; ++chunk)
    part[at(chunk)] = bytes[at(chunk % devices)][at(chunk / devices % devices)] / pieces;
  return edge_loads(kind.between, part);
}

EdgeLoads loads_at_root(const Composite& composite, int chunks) {
  const schedule::Schedule& schedule = composite.at_root->schedule;
  std::vector<double> part(at(schedule.chunks), 0);
  for (std::size_t chunk = 0; chunk < at(chunks); ++chunk)
    part[at(composite.root_turns[chunk % composite.root_turns.size()])] += 1.0 / chunks;
  return edge_loads(schedule, part);
}

}  // namespace sccl::compose
