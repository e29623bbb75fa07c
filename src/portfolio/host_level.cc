#include "portfolio/host_level.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "planners/planners.h"
#include "schedule/cost.h"
#include "treegen/rings.h"
#include "treegen/to_schedule.h"

namespace sccl::portfolio {
namespace {

using schedule::ChunkId;
using schedule::Schedule;

constexpr int kMostPackedRanks = 16;  // packing more takes longer than a plan may
constexpr int kMostTurns = 24;

struct Option {
  Schedule schedule;
  double busiest_us_per_byte = 0;
};

// The value of a chunk stays with its owner, as composites need it (compose/verify.h, 2).
bool owners_keep(const Schedule& schedule) {
  const bool sums = schedule.collective == Collective::reducescatter;
  return std::none_of(schedule.sends.begin(), schedule.sends.end(), [&](const schedule::Send& send) {
    return (sums ? send.src : send.dst) == send.chunk % schedule.ranks;
  });
}

double busiest_us_per_byte(Schedule schedule) {
  constexpr int kManySlices = 1 << 20;
  schedule.pipelined = true;
  return schedule::linear_cost(schedule, kManySlices).us_per_byte;
}

std::vector<Option> options(const topology::Topology& links, Collective collective) {
  std::vector<Option> result;
  const auto add = [&](std::optional<Schedule> schedule) {
    if (!schedule || !owners_keep(*schedule)) return;
    const double busiest = busiest_us_per_byte(*schedule);
    result.push_back({*std::move(schedule), busiest});
  };
  for (const planners::Planner& planner : planners::table()) add(planner.plan(links, collective, 0));
  if (links.ranks > 1) add(treegen::rings(links, collective, 0));
  if (links.ranks > 1 && links.ranks <= kMostPackedRanks && collective != Collective::alltoall)
    add(treegen::plan(links, collective, 0, {treegen::CapacityUnit::lanes, treegen::TreeWeights::any}));
  if (result.empty())
    fail(ErrorCode::invalid_argument,
         "topology '{}': {} has no schedule, since some device of a host cannot reach another one over the host's "
         "links: add links",
         links.name, info(collective).call_name);
  return result;
}

enum class Wanted : std::uint8_t { fewest_steps, least_busy };

const Schedule& best(const std::vector<Option>& options, Wanted wanted) {
  constexpr double kSame = 1.02;
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

// The chunks of each owner, as often as their weights say.
std::vector<std::vector<ChunkId>> turns(const Schedule& schedule) {
  std::vector<std::vector<ChunkId>> result(static_cast<std::size_t>(schedule.ranks));
  for (Rank owner = 0; owner < schedule.ranks; ++owner) {
    std::vector<ChunkId> chunks;
    double all = 0;
    for (ChunkId chunk = owner; chunk < schedule.chunks; chunk += schedule.ranks) {
      chunks.push_back(chunk);
      all += schedule.weights.empty() ? 1 : schedule.weights[static_cast<std::size_t>(chunk)];
    }
    auto& mine = result[static_cast<std::size_t>(owner)];
    if (schedule.weights.empty() || all <= 0) {
      mine = chunks;
      continue;
    }
    std::vector<treegen::Amount> shares;
    for (const ChunkId chunk : chunks)
      shares.push_back(
          static_cast<treegen::Amount>(schedule.weights[static_cast<std::size_t>(chunk)] / all * kMostTurns + 0.5));
    for (const int index : treegen::take_turns(shares)) mine.push_back(chunks[static_cast<std::size_t>(index)]);
    if (mine.empty()) mine = chunks;
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

std::vector<HostLevel> host_levels(const topology::Topology& links) {
  const auto in = options(links, Collective::reducescatter);
  const auto out = options(links, Collective::allgather);
  const auto between = options(links, Collective::alltoall);
  std::vector<HostLevel> result{level(in, out, between, Wanted::least_busy)};
  HostLevel fast = level(in, out, between, Wanted::fewest_steps);
  if (!same(result.front(), fast)) result.push_back(std::move(fast));
  return result;
}

}  // namespace sccl::portfolio
