#include "portfolio/host/host_level.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "planners/planners.h"
#include "portfolio/host/shallow_trees.h"
#include "schedule/simulation/cost.h"
#include "topology/graph/routes.h"
#include "treegen/packing/rings.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

using schedule::ChunkId;
using schedule::Schedule;

constexpr int kMostPackedRanks = 16;  // packing more ranks takes longer than planning may
constexpr int kMostSearchedTwice = 8;
constexpr int kMostTurns = 24;
constexpr std::size_t kMostTurnsOfPorts = 400;

struct Option {
  Schedule schedule;
  double busiest_us_per_byte = 0;
};

// Whether the value of a chunk stays with its owner, as composites require (compose/proof/verify.h, 2).
bool owners_keep(const Schedule& schedule) {
  const bool sums = info(schedule.collective).reduces;
  const bool rooted = info(schedule.collective).rooted;
  return std::none_of(schedule.sends.begin(), schedule.sends.end(), [&](const schedule::Send& send) {
    return (sums ? send.src : send.dst) == (rooted ? schedule.root : send.chunk % schedule.ranks);
  });
}

std::vector<Option> options(const topology::Topology& links, Collective collective, Rank root = 0,
                            const std::vector<Schedule>& shallow = {}, std::span<const double> parts = {}) {
  std::vector<Option> result;
  const auto add = [&](std::optional<Schedule> schedule) {
    if (!schedule || !owners_keep(*schedule)) return;
    const double busiest = parts.empty() ? schedule::busiest_us_per_byte(*schedule) : busiest_of(*schedule, parts);
    result.push_back({*std::move(schedule), busiest});
  };
  for (const planners::Planner& planner : planners::table()) add(planner.plan(links, collective, root));
  if (links.ranks > 1) add(treegen::rings(links, collective, root));
  if (links.ranks > 1 && links.ranks <= kMostPackedRanks && collective != Collective::alltoall)
    add(treegen::plan(links, collective, root, {treegen::CapacityUnit::lanes, treegen::TreeWeights::any}));
  for (const Schedule& schedule : shallow) add(schedule);
  if (result.empty())
    fail(ErrorCode::invalid_argument,
         "topology '{}': {} has no schedule, since some device of a host cannot reach another one over the host's "
         "links: add links",
         links.name, info(collective).call_name);
  return result;
}

// Trees of several depths.
std::vector<Schedule> shallow_options(const topology::Topology& links, Collective collective,
                                      std::span<const double> parts, Effort effort) {
  std::vector<Schedule> result;
  if (links.ranks < 2) return result;
  if (effort == Effort::little) {
    if (auto trees = shallow_trees(links, collective, 1, nullptr, parts, Search::moves))
      result.push_back(*std::move(trees));
    return result;
  }
  const int most = parts.empty() ? 4 : 6;  // few owners need deeper trees
  for (const int more_steps : {0, 1, 2, 4, 6})
    if (more_steps <= most)
      if (auto trees = shallow_trees(links, collective, more_steps, nullptr, parts))
        result.push_back(*std::move(trees));
  return result;
}

// Of ReduceScatter. On large hosts, where trees take long to find: those of AllGather backwards, if the links serve
// them as well. Trees of their own leave links to AllGather's a little better.
std::vector<Schedule> shallow_options(const topology::Topology& links, const std::vector<Schedule>& allgathers,
                                      std::span<const double> parts, Effort effort) {
  if (links.ranks > kMostSearchedTwice && parts.empty()) {
    std::vector<Schedule> result;
    for (const Schedule& one : allgathers)
      if (auto trees = backwards(one)) result.push_back(*std::move(trees));
    if (result.size() == allgathers.size()) return result;
  }
  return shallow_options(links, Collective::reducescatter, parts, effort);
}

// How busy a link may be, of the least that any option reaches; among those options the one with the fewest steps is
// taken.
constexpr double kLimits[] = {1.02, 1.12, 1.25, 1.5, 2.5, 1e30};

const Schedule& best(const std::vector<Option>& options, double limit) {
  double least = options.front().busiest_us_per_byte;
  for (const Option& one : options) least = std::min(least, one.busiest_us_per_byte);
  const Option* chosen = nullptr;
  for (const Option& one : options) {
    if (one.busiest_us_per_byte > limit * least) continue;
    if (chosen == nullptr || one.schedule.steps < chosen->schedule.steps ||
        (one.schedule.steps == chosen->schedule.steps && one.busiest_us_per_byte < chosen->busiest_us_per_byte))
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
                double limit) {
  auto kind = std::make_shared<compose::HostKind>();
  kind->in = best(in, limit);
  kind->out = best(out, limit);
  kind->between = best(between, limit);
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

// Trees in and out that leave the links to each other, for AllReduce; nothing if `like` is as good.
std::optional<HostLevel> beside_each_other(const topology::Topology& links, const HostLevel& like,
                                           std::span<const double> parts, Effort effort) {
  const Search search = effort == Effort::little ? Search::moves : Search::moves_and_chance;
  constexpr double kBetter = 0.99;
  constexpr int kMoreSteps = 2;
  if (links.ranks < 3) return std::nullopt;
  auto out = shallow_trees(links, Collective::allgather, kMoreSteps, nullptr, parts, search);
  if (!out) return std::nullopt;
  auto in = shallow_trees(links, Collective::reducescatter, kMoreSteps, &*out, parts, search);
  if (!in || busiest_of_both(*in, *out, parts) > kBetter * busiest_of_both(like.kind->in, like.kind->out, parts))
    return std::nullopt;
  auto kind = std::make_shared<compose::HostKind>(*like.kind);
  kind->in = *std::move(in);
  kind->out = *std::move(out);
  kind->in_turns = turns(kind->in);
  kind->out_turns = turns(kind->out);
  const int steps = kind->in.steps + kind->out.steps;
  std::string name = kind->in.name;
  return HostLevel{std::move(name), std::move(kind), steps};
}

}  // namespace

std::vector<ChunkId> all_turns(const Schedule& schedule) {
  std::vector<ChunkId> chunks(static_cast<std::size_t>(schedule.chunks));
  std::iota(chunks.begin(), chunks.end(), 0);
  return by_weight(schedule, chunks);
}

std::vector<ChunkId> turns_near_ports(const Schedule& schedule, const std::vector<int>& ports) {
  const std::vector<ChunkId> turns = all_turns(schedule);
  const std::size_t count = std::lcm(turns.size(), ports.size());
  if (count > kMostTurnsOfPorts) return turns;
  const std::vector<std::vector<int>> depths = schedule::sends_from_root(schedule);
  // Long ways count more than short ones save.
  const auto cost = [&](ChunkId chunk, std::size_t place) {
    const int depth = depths[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(ports[place % ports.size()])];
    return depth * depth;
  };
  std::vector<ChunkId> result;
  for (std::size_t place = 0; place < count; ++place) result.push_back(turns[place % turns.size()]);
  for (bool better = true; better;) {
    better = false;
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < a; ++b) {
        if (cost(result[a], b) + cost(result[b], a) >= cost(result[a], a) + cost(result[b], b)) continue;
        std::swap(result[a], result[b]);
        better = true;
      }
  }
  return result;
}

std::vector<std::shared_ptr<const Schedule>> root_levels(const topology::Topology& links, Collective collective,
                                                         Rank root) {
  const auto all = options(links, collective, root);
  std::vector<std::shared_ptr<const Schedule>> result;
  for (const double limit : kLimits) result.push_back(std::make_shared<const Schedule>(best(all, limit)));
  return result;
}

std::shared_ptr<const Schedule> scattered(const topology::Topology& links, Collective collective, Rank root) {
  if (links.ranks < 3) return nullptr;
  topology::Routes ways(links);
  std::vector<schedule::Send> sends;
  const auto add = [&](ChunkId chunk, Rank from, Rank to, schedule::Step step) {
    if (collective == Collective::broadcast)
      sends.push_back({chunk, from, to, step, schedule::SendKind::copy});
    else
      sends.push_back({chunk, to, from, 1 - step, schedule::SendKind::reduce});
  };
  for (ChunkId chunk = 0; chunk < links.ranks - 1; ++chunk) {
    const Rank by = (root + 1 + chunk) % links.ranks;
    add(chunk, root, by, 0);
    for (Rank other = 0; other < links.ranks; ++other) {
      if (other == by) continue;
      if (!ways.connected(by, other)) return nullptr;
      if (other != root) add(chunk, by, other, 1);
    }
  }
  Schedule made =
      schedule::make_schedule(std::string(kScattered), collective, root, links, links.ranks - 1, std::move(sends));
  made.pipelined = true;
  return std::make_shared<const Schedule>(std::move(made));
}

std::vector<HostLevel> host_levels(const topology::Topology& links, std::span<const double> parts, Effort effort) {
  const std::vector<Schedule> shallow_out = shallow_options(links, Collective::allgather, parts, effort);
  const auto in =
      options(links, Collective::reducescatter, 0, shallow_options(links, shallow_out, parts, effort), parts);
  const auto out = options(links, Collective::allgather, 0, shallow_out, parts);
  const auto between = options(links, Collective::alltoall);
  std::vector<HostLevel> result;
  for (const double limit : kLimits)
    if (HostLevel more = level(in, out, between, limit);
        std::none_of(result.begin(), result.end(), [&](const HostLevel& one) { return same(one, more); }))
      result.push_back(std::move(more));
  if (auto more = beside_each_other(links, result.front(), parts, effort))
    result.insert(result.begin(), *std::move(more));
  return result;
}

}  // namespace sccl::portfolio
