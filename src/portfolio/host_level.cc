#include "portfolio/host_level.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "planners/planners.h"
#include "schedule/simulation/cost.h"
#include "topology/graph/routes.h"
#include "treegen/packing/rings.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

using schedule::ChunkId;
using schedule::Schedule;

constexpr int kMostPackedRanks = 16;  // packing more ranks takes longer than planning may
constexpr int kMostTurns = 24;

struct Option {
  Schedule schedule;
  double busiest_us_per_byte = 0;
};

// Whether the value of a chunk stays with its owner, as composites require (compose/verify.h, 2).
bool owners_keep(const Schedule& schedule) {
  const bool sums = info(schedule.collective).reduces;
  const bool rooted = info(schedule.collective).rooted;
  return std::none_of(schedule.sends.begin(), schedule.sends.end(), [&](const schedule::Send& send) {
    return (sums ? send.src : send.dst) == (rooted ? schedule.root : send.chunk % schedule.ranks);
  });
}

double busiest_us_per_byte(Schedule schedule) {
  constexpr int kManySlices = 1 << 20;
  schedule.pipelined = true;
  return schedule::linear_cost(schedule, kManySlices).us_per_byte;
}

// Trees of minimal depth from every owner, several per owner: a device receives from a device of the level before whose
// link is least busy so far. A compromise: shortest paths ignore the load of links, packings ignore depth.
std::optional<Schedule> shallow(const topology::Topology& links, Collective collective) {
  constexpr int kTreesOfOwner = 4;
  const bool sums = collective == Collective::reducescatter;
  const int ranks = links.ranks;
  topology::Routes ways(links);
  const schedule::EdgeIndex edges(links);
  std::vector<double> busy(static_cast<std::size_t>(edges.size()), 0);
  const auto way = [&](Rank from, Rank to) { return sums ? ways.path(to, from) : ways.path(from, to); };
  const auto cost = [&](Rank from, Rank to) {
    double most = 0;
    for (const topology::Edge& edge : way(from, to)) {
      const schedule::EdgeId id = edges.find(edge);
      most = std::max(most, (busy[static_cast<std::size_t>(id)] + 1) / edges[id].lanes);
    }
    return most;
  };
  std::vector<schedule::Send> sends;
  int deepest = 0;
  for (int piece = 0; piece < kTreesOfOwner; ++piece)
    for (Rank owner = 0; owner < ranks; ++owner) {
      std::vector<int> depth(static_cast<std::size_t>(ranks), -1);
      depth[static_cast<std::size_t>(owner)] = 0;
      int known = 1;
      for (int level = 1; level < ranks && known < ranks; ++level)
        for (Rank i = 0; i < ranks; ++i) {
          const Rank rank = (owner + piece + i) % ranks;
          if (depth[static_cast<std::size_t>(rank)] >= 0) continue;
          Rank from = -1;
          double least = 0;
          for (Rank j = 0; j < ranks; ++j) {
            const Rank other = (rank + j) % ranks;
            if (other == rank || depth[static_cast<std::size_t>(other)] != level - 1 || way(other, rank).empty())
              continue;
            if (const double here = cost(other, rank); from < 0 || here < least) {
              from = other;
              least = here;
            }
          }
          if (from < 0) continue;
          for (const topology::Edge& edge : way(from, rank)) ++busy[static_cast<std::size_t>(edges.find(edge))];
          depth[static_cast<std::size_t>(rank)] = level;
          deepest = std::max(deepest, level);
          ++known;
          sends.push_back({piece * ranks + owner, sums ? rank : from, sums ? from : rank, level - 1,
                           sums ? schedule::SendKind::reduce : schedule::SendKind::copy});
        }
      if (known < ranks) return std::nullopt;
    }
  if (sums)
    for (schedule::Send& send : sends) send.step = deepest - 1 - send.step;
  return schedule::make_schedule("shallow", collective, 0, links, sums ? kTreesOfOwner * ranks : kTreesOfOwner,
                                 std::move(sends));
}

std::vector<Option> options(const topology::Topology& links, Collective collective, Rank root = 0) {
  std::vector<Option> result;
  const auto add = [&](std::optional<Schedule> schedule) {
    if (!schedule || !owners_keep(*schedule)) return;
    const double busiest = busiest_us_per_byte(*schedule);
    result.push_back({*std::move(schedule), busiest});
  };
  for (const planners::Planner& planner : planners::table()) add(planner.plan(links, collective, root));
  if (links.ranks > 1) add(treegen::rings(links, collective, root));
  if (links.ranks > 1 && links.ranks <= kMostPackedRanks && collective != Collective::alltoall)
    add(treegen::plan(links, collective, root, {treegen::CapacityUnit::lanes, treegen::TreeWeights::any}));
  if (links.ranks > 1 && (collective == Collective::allgather || collective == Collective::reducescatter))
    add(shallow(links, collective));
  if (result.empty())
    fail(ErrorCode::invalid_argument,
         "topology '{}': {} has no schedule, since some device of a host cannot reach another one over the host's "
         "links: add links",
         links.name, info(collective).call_name);
  return result;
}

enum class Wanted : std::uint8_t { fewest_steps, least_busy, between };

const Schedule& best(const std::vector<Option>& options, Wanted wanted) {
  constexpr double kSame = 1.02;
  constexpr double kFarFromLeast = 2.5;
  if (wanted == Wanted::between) {
    double least = options.front().busiest_us_per_byte;
    for (const Option& one : options) least = std::min(least, one.busiest_us_per_byte);
    std::vector<Option> near;
    for (const Option& one : options)
      if (one.busiest_us_per_byte <= kFarFromLeast * least) near.push_back(one);
    const std::string name = best(near, Wanted::fewest_steps).name;
    return std::find_if(options.begin(), options.end(), [&](const Option& one) { return one.schedule.name == name; })
        ->schedule;
  }
  const Option* chosen = &options.front();
  for (const Option& one : options) {
    const bool steps_less = one.schedule.steps < chosen->schedule.steps;
    const bool steps_same = one.schedule.steps == chosen->schedule.steps;
    const bool busy_less = one.busiest_us_per_byte * kSame < chosen->busiest_us_per_byte;
    const bool busy_more = one.busiest_us_per_byte > kSame * chosen->busiest_us_per_byte;
    if (wanted == Wanted::fewest_steps ? steps_less || (steps_same && busy_less)
                                       : busy_less || (!busy_more && steps_less))
      chosen = &one;
  }
  return chosen->schedule;
}

// Lists `chunks` repeatedly, in proportion to their weights.
std::vector<ChunkId> by_weight(const Schedule& schedule, const std::vector<ChunkId>& chunks) {
  double all = 0;
  if (!schedule.weights.empty())
    for (const ChunkId chunk : chunks) all += schedule.weights[static_cast<std::size_t>(chunk)];
  if (all <= 0) return chunks;
  std::vector<treegen::Amount> shares;
  for (const ChunkId chunk : chunks)
    shares.push_back(
        static_cast<treegen::Amount>(schedule.weights[static_cast<std::size_t>(chunk)] / all * kMostTurns + 0.5));
  std::vector<ChunkId> result;
  for (const int index : treegen::take_turns(shares)) result.push_back(chunks[static_cast<std::size_t>(index)]);
  return result.empty() ? chunks : result;
}

// The chunks of each owner.
std::vector<std::vector<ChunkId>> turns(const Schedule& schedule) {
  std::vector<std::vector<ChunkId>> result;
  for (Rank owner = 0; owner < schedule.ranks; ++owner) {
    std::vector<ChunkId> chunks;
    for (ChunkId chunk = owner; chunk < schedule.chunks; chunk += schedule.ranks) chunks.push_back(chunk);
    result.push_back(by_weight(schedule, chunks));
  }
  return result;
}

HostLevel level(const std::vector<Option>& in, const std::vector<Option>& out, const std::vector<Option>& between,
                Wanted wanted) {
  auto kind = std::make_shared<compose::HostKind>();
  kind->in = best(in, wanted);
  kind->out = best(out, wanted);
  kind->between = best(between, wanted);
  kind->in_turns = turns(kind->in);
  kind->out_turns = turns(kind->out);
  const int steps = kind->in.steps + kind->out.steps;
  std::string name = kind->out.name;
  return {std::move(name), std::move(kind), steps};
}

bool same(const HostLevel& a, const HostLevel& b) {
  return a.kind->in.name == b.kind->in.name && a.kind->out.name == b.kind->out.name &&
         a.kind->between.name == b.kind->between.name;
}

}  // namespace

std::vector<ChunkId> all_turns(const Schedule& schedule) {
  std::vector<ChunkId> chunks(static_cast<std::size_t>(schedule.chunks));
  std::iota(chunks.begin(), chunks.end(), 0);
  return by_weight(schedule, chunks);
}

std::vector<std::shared_ptr<const Schedule>> root_levels(const topology::Topology& links, Collective collective,
                                                         Rank root) {
  const auto all = options(links, collective, root);
  std::vector<std::shared_ptr<const Schedule>> result;
  for (const Wanted wanted : {Wanted::least_busy, Wanted::between, Wanted::fewest_steps})
    result.push_back(std::make_shared<const Schedule>(best(all, wanted)));
  return result;
}

std::vector<HostLevel> host_levels(const topology::Topology& links) {
  const auto in = options(links, Collective::reducescatter);
  const auto out = options(links, Collective::allgather);
  const auto between = options(links, Collective::alltoall);
  std::vector<HostLevel> result{level(in, out, between, Wanted::least_busy)};
  for (const Wanted wanted : {Wanted::between, Wanted::fewest_steps})
    if (HostLevel more = level(in, out, between, wanted);
        std::none_of(result.begin(), result.end(), [&](const HostLevel& one) { return same(one, more); }))
      result.push_back(std::move(more));
  return result;
}

}  // namespace sccl::portfolio
