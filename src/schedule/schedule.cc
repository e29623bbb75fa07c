#include "schedule/schedule.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "topology/routes.h"

namespace sccl::schedule {

ChunkEnds ends(const Schedule& schedule, ChunkId chunk) {
  const Rank owner = chunk % schedule.ranks;
  const Rank target = chunk / schedule.ranks % schedule.ranks;
  switch (schedule.collective) {
    case Collective::allreduce: return {true, 0, true, 0};
    case Collective::allgather: return {false, owner, true, 0};
    case Collective::reducescatter: return {true, 0, false, owner};
    case Collective::broadcast: return {false, schedule.root, true, 0};
    case Collective::reduce: return {true, 0, false, schedule.root};
    case Collective::alltoall: return {false, owner, false, target};
    case Collective::gather: return {false, owner, false, schedule.root};
    case Collective::scatter: return {false, schedule.root, false, owner};
    case Collective::sendrecv: break;
  }
  fail(ErrorCode::invalid_argument, "{} has no chunk ownership: point-to-point transfers are planned per pair",
       info(schedule.collective).call_name);
}

int chunk_count(Collective collective, int ranks, int chunks_per_rank) {
  switch (collective) {
    case Collective::allgather:
    case Collective::gather:
    case Collective::alltoall: return chunks_per_rank * ranks;
    default: return chunks_per_rank;
  }
}

Schedule make_schedule(std::string name, Collective collective, Rank root, const topology::Topology& topology,
                       int chunks_per_rank, std::vector<Send> sends) {
  Schedule schedule;
  schedule.name = std::move(name);
  schedule.collective = collective;
  schedule.ranks = topology.ranks;
  schedule.root = root;
  schedule.topology = topology;
  schedule.chunks_per_rank = chunks_per_rank;
  schedule.chunks = chunk_count(collective, topology.ranks, chunks_per_rank);
  for (const Send& send : sends) schedule.steps = std::max(schedule.steps, send.step + 1);
  schedule.sends = std::move(sends);
  schedule.rounds = needed_rounds(schedule);
  return schedule;
}

std::vector<int> needed_rounds(const Schedule& schedule) {
  std::vector<int> rounds(static_cast<std::size_t>(schedule.steps), 1);
  const auto raise = [&](Step step, int load, int lanes) {
    auto& needed = rounds[static_cast<std::size_t>(step)];
    needed = std::max(needed, (load + lanes - 1) / lanes);
  };
  const LinkLoads loads = link_loads(schedule);
  const auto lanes = topology::edge_lanes(schedule.topology);
  for (const auto& [use, load] : loads.by_use) raise(use.step, load, lanes.at({use.src, use.dst}));
  for (const topology::SharedSet& set : schedule.topology.shared)
    for (const auto& [step, load] : set_loads(loads, set)) raise(step, load, set.lanes);
  return rounds;
}

LinkLoads link_loads(const Schedule& schedule) {
  LinkLoads loads;
  topology::Routes routes(schedule.topology);
  for (const Send& send : schedule.sends) {
    const auto path = routes.path(send.src, send.dst);
    if (path.empty()) loads.impossible.push_back(send);
    for (const auto& [src, dst] : path) ++loads.by_use[{send.step, src, dst}];
  }
  return loads;
}

std::map<Step, int> set_loads(const LinkLoads& loads, const topology::SharedSet& set) {
  const std::set<topology::Edge> members(set.links.begin(), set.links.end());
  std::map<Step, int> by_step;
  for (const auto& [use, load] : loads.by_use)
    if (members.contains({use.src, use.dst})) by_step[use.step] += load;
  return by_step;
}

}  // namespace sccl::schedule
