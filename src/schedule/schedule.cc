#include "schedule/schedule.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "topology/graph/routes.h"

namespace sccl::schedule {

ChunkEnds ends(Collective collective, int ranks, Rank root, ChunkId chunk) {
  const Rank owner = chunk % ranks;
  const Rank target = chunk / ranks % ranks;
  switch (collective) {
    case Collective::allreduce:
      return {true, 0, true, 0};
    case Collective::allgather:
      return {false, owner, true, 0};
    case Collective::reducescatter:
      return {true, 0, false, owner};
    case Collective::broadcast:
      return {false, root, true, 0};
    case Collective::reduce:
      return {true, 0, false, root};
    case Collective::alltoall:
      return {false, owner, false, target};
    case Collective::gather:
      return {false, owner, false, root};
    case Collective::scatter:
      return {false, root, false, owner};
    case Collective::sendrecv:
      break;
  }
  fail(ErrorCode::invalid_argument, "{} has no chunk ownership: point-to-point transfers are planned per pair",
       info(collective).call_name);
}

ChunkEnds ends(const Schedule& schedule, ChunkId chunk) {
  return ends(schedule.collective, schedule.ranks, schedule.root, chunk);
}

std::vector<std::vector<int>> sends_from_root(const Schedule& schedule) {
  const auto at = [](int index) { return static_cast<std::size_t>(index); };
  const bool sums = schedule.collective == Collective::reduce;
  std::vector<std::vector<int>> result(at(schedule.chunks), std::vector<int>(at(schedule.ranks), 0));
  std::vector<std::vector<Rank>> parents(at(schedule.chunks), std::vector<Rank>(at(schedule.ranks), -1));
  for (const Send& send : schedule.sends)
    parents[at(send.chunk)][at(sums ? send.src : send.dst)] = sums ? send.dst : send.src;
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk)
    for (Rank rank = 0; rank < schedule.ranks; ++rank)
      for (Rank up = rank; up != schedule.root && result[at(chunk)][at(rank)] < schedule.ranks;
           up = parents[at(chunk)][at(up)]) {
        if (parents[at(chunk)][at(up)] < 0) break;
        ++result[at(chunk)][at(rank)];
      }
  return result;
}

int chunk_count(Collective collective, int ranks, int chunks_per_rank) {
  switch (collective) {
    case Collective::allgather:
    case Collective::gather:
    case Collective::alltoall:
      // Both numbers may come from a file and may be arbitrarily large.
      return static_cast<int>(
          std::min<std::int64_t>(std::int64_t{chunks_per_rank} * ranks, std::numeric_limits<int>::max()));
    default:
      return chunks_per_rank;
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

// A part has its chunk's owner and target: both follow from the chunk's number modulo a divisor of `chunks`.
Schedule divided(const Schedule& schedule, int parts) {
  std::vector<Send> sends;
  for (int part = 0; part < parts; ++part)
    for (Send send : schedule.sends) {
      send.chunk += part * schedule.chunks;
      sends.push_back(send);
    }
  Schedule result = make_schedule(schedule.name, schedule.collective, schedule.root, schedule.topology,
                                  schedule.chunks_per_rank * parts, std::move(sends));
  for (int part = 0; part < parts; ++part)
    result.weights.insert(result.weights.end(), schedule.weights.begin(), schedule.weights.end());
  return result;
}

std::vector<int> needed_rounds(const Schedule& schedule) {
  std::vector<int> rounds(static_cast<std::size_t>(schedule.steps), 1);
  const EdgeIndex edges(schedule.topology);
  for_each_step(schedule, edges, [&](const StepLoads& loads) {
    auto& needed = rounds[static_cast<std::size_t>(loads.step)];
    const auto raise = [&](int load, int lanes) {
      needed = std::max(needed, load / lanes + (load % lanes != 0 ? 1 : 0));
    };
    for (const auto& [edge, chunks] : loads.edges) raise(chunks, edges[edge].lanes);
    for (std::size_t set = 0; set < loads.sets.size(); ++set)
      raise(loads.sets[set], schedule.topology.shared[set].lanes);
  });
  return rounds;
}

std::vector<int> order_by_step(const Schedule& schedule) {
  std::vector<int> next(static_cast<std::size_t>(schedule.steps) + 1, 0);
  for (const Send& send : schedule.sends) ++next[static_cast<std::size_t>(send.step) + 1];
  for (std::size_t step = 1; step < next.size(); ++step) next[step] += next[step - 1];
  std::vector<int> order(schedule.sends.size());
  for (std::size_t i = 0; i < schedule.sends.size(); ++i)
    order[static_cast<std::size_t>(next[static_cast<std::size_t>(schedule.sends[i].step)]++)] = static_cast<int>(i);
  return order;
}

std::optional<Send> for_each_step(const Schedule& schedule, const EdgeIndex& edges,
                                  const std::function<void(const StepLoads&)>& visit) {
  EdgePaths paths(schedule.topology, edges, schedule.sends.size());
  std::optional<Send> impossible;
  const std::vector<int> order = order_by_step(schedule);
  std::vector<int> chunks(static_cast<std::size_t>(edges.size()), 0);
  std::vector<EdgeId> touched;
  StepLoads loads;
  for (std::size_t at = 0; at < order.size();) {
    loads.step = schedule.sends[static_cast<std::size_t>(order[at])].step;
    for (; at < order.size() && schedule.sends[static_cast<std::size_t>(order[at])].step == loads.step; ++at) {
      const Send& send = schedule.sends[static_cast<std::size_t>(order[at])];
      const auto path = paths.of(send.src, send.dst);
      if (path.empty() && !impossible) impossible = send;
      for (const EdgeId edge : path)
        if (chunks[static_cast<std::size_t>(edge)]++ == 0) touched.push_back(edge);
    }
    std::sort(touched.begin(), touched.end());
    loads.edges.clear();
    loads.sets.assign(schedule.topology.shared.size(), 0);
    for (const EdgeId edge : touched) {
      const int load = std::exchange(chunks[static_cast<std::size_t>(edge)], 0);
      loads.edges.push_back({edge, load});
      for (const int set : edges.sets_of(edge)) loads.sets[static_cast<std::size_t>(set)] += load;
    }
    touched.clear();
    visit(loads);
  }
  return impossible;
}

}  // namespace sccl::schedule
