// In a schedule a rank has one value of a chunk at a time, and a message carries its source's value. A message's
// contributions therefore tell which arrivals at its source preceded it: those that it contains. All such facts are
// constraints step(a) + distance <= step(b), and the least solution gives the steps.
//
// A copy may bring a rank the value that the rank has already. Such an arrival changes nothing, so departures need not
// follow it.
#include "schedule/msccl/msccl_import.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>

#include "base/error.h"
#include "schedule/msccl/msccl_run.h"
#include "schedule/proof/verify.h"

namespace sccl::schedule {
namespace {

constexpr double kAssumedGbytesPerS = 25;
constexpr double kAssumedAlphaUs = 1.5;
// The second limit counts comparisons of messages of one chunk at one rank. A file that exceeds a limit is hostile.
constexpr Step kMostSteps = 1 << 16;
constexpr std::size_t kMostComparisons = std::size_t{1} << 24;

enum class Arrival : std::uint8_t { changes, changes_nothing };

struct Constraint {
  int later = 0;
  int distance = 0;
};

class Steps {
 public:
  Steps(const MscclAlgo& algo, const MscclRun& run) : algo_(algo), run_(run), after_(run.messages.size()) {
    std::map<std::pair<ChunkId, Rank>, std::pair<std::vector<int>, std::vector<int>>> at;  // arrivals, departures
    std::map<std::tuple<Rank, Rank, int>, int> last_of_connection;
    for (int i = 0; i < static_cast<int>(run.messages.size()); ++i) {
      const MscclMessage& message = run.messages[static_cast<std::size_t>(i)];
      at[{message.chunk, message.dst}].first.push_back(i);
      at[{message.chunk, message.src}].second.push_back(i);
      const auto [last, first] = last_of_connection.emplace(std::tuple(message.src, message.dst, message.channel), i);
      if (!first) order(std::exchange(last->second, i), i, 0);
    }
    for (const auto& [place, messages] : at) {
      for (const int arrival : messages.first) {
        const Arrival kind = messages.second.empty() ? Arrival::changes : kind_of(arrival, messages.first);
        for (const int departure : messages.second) order_at_rank(arrival, departure, kind);
      }
      for (std::size_t i = 0; i < messages.first.size(); ++i)
        for (std::size_t j = i + 1; j < messages.first.size(); ++j)
          order_arrivals(messages.first[i], messages.first[j]);
    }
  }

  // Longest paths from the start. If a cycle has positive length, there is no solution.
  std::vector<Step> solve() const {
    std::vector<Step> steps(after_.size(), 0);
    std::deque<int> changed;
    std::vector<bool> waiting(after_.size(), true);
    for (int i = 0; i < static_cast<int>(after_.size()); ++i) changed.push_back(i);
    while (!changed.empty()) {
      const int at = changed.front();
      changed.pop_front();
      waiting[static_cast<std::size_t>(at)] = false;
      for (const Constraint& constraint : after_[static_cast<std::size_t>(at)]) {
        Step& step = steps[static_cast<std::size_t>(constraint.later)];
        if (step >= steps[static_cast<std::size_t>(at)] + constraint.distance) continue;
        step = steps[static_cast<std::size_t>(at)] + constraint.distance;
        if (step > std::min(kMostSteps, static_cast<Step>(after_.size()))) refuse(message(constraint.later));
        if (!waiting[static_cast<std::size_t>(constraint.later)]) changed.push_back(constraint.later);
        waiting[static_cast<std::size_t>(constraint.later)] = true;
      }
    }
    return steps;
  }

 private:
  const MscclMessage& message(int at) const { return run_.messages[static_cast<std::size_t>(at)]; }

  [[noreturn]] void refuse(const MscclMessage& one) const {
    fail(ErrorCode::invalid_argument,
         "MSCCL XML line {}, <algo name=\"{}\">: gpu {} or gpu {} keeps two values of chunk {} at once, which a "
         "schedule "
         "cannot say",
         algo_.line, algo_.name, one.src, one.dst, one.chunk);
  }

  void order(int earlier, int later, int distance) {
    count_comparison();
    after_[static_cast<std::size_t>(earlier)].push_back({later, distance});
  }

  void count_comparison() {
    if (++comparisons_ > kMostComparisons)
      fail(ErrorCode::invalid_argument, "MSCCL XML line {}, <algo>: it has too many messages to order", algo_.line);
  }

  // Nothing new is what the rank itself contributes, a copy of what arrived before, and the sum that the rank has.
  Arrival kind_of(int arrival, const std::vector<int>& arrivals) {
    const MscclMessage& one = message(arrival);
    if (one.kind != SendKind::copy) return Arrival::changes;
    Contributions value(run_.frame.ranks);
    value.add(one.dst);
    if (one.contributions == value) return Arrival::changes_nothing;
    for (const int other : arrivals) {
      if (other == arrival) break;  // arrivals ascend
      count_comparison();
      const MscclMessage& before = message(other);
      if (before.kind == SendKind::copy) {
        if (before.contributions == one.contributions) return Arrival::changes_nothing;
        value = before.contributions;
      } else {
        value.add(before.contributions);
      }
    }
    return one.contributions == value ? Arrival::changes_nothing : Arrival::changes;
  }

  // A departure contains arrivals of earlier steps; an arrival that it does not contain happens in its step or later.
  void order_at_rank(int arrival, int departure, Arrival kind) {
    if (!message(arrival).contributions.within(message(departure).contributions))
      order(departure, arrival, 0);
    else if (kind == Arrival::changes)
      order(arrival, departure, 1);
  }

  // A copy shares its step with no other arrival: it follows the arrivals that it contains, and precedes those that are
  // added to it.
  void order_arrivals(int a, int b) {
    if (message(a).kind == SendKind::reduce && message(b).kind == SendKind::reduce) return;
    const bool b_is_last =
        message(b).kind == SendKind::copy && message(a).contributions.within(message(b).contributions);
    const bool a_is_last =
        message(a).kind == SendKind::copy && message(b).contributions.within(message(a).contributions);
    if (b_is_last || (!a_is_last && message(a).kind == SendKind::copy))
      order(a, b, 1);
    else
      order(b, a, 1);
  }

  const MscclAlgo& algo_;
  const MscclRun& run_;
  std::vector<std::vector<Constraint>> after_;
  std::size_t comparisons_ = 0;
};

topology::Topology links_used(const MscclRun& run) {
  std::map<topology::Edge, std::set<int>> channels;
  for (const MscclMessage& message : run.messages) channels[{message.src, message.dst}].insert(message.channel);
  topology::Topology topology;
  topology.name = "links of " + run.frame.name;
  topology.ranks = run.frame.ranks;
  for (const auto& [ends, used] : channels) {
    const int lanes = static_cast<int>(used.size());
    topology.links.push_back(
        {ends.first, ends.second, lanes, lanes * kAssumedGbytesPerS, kAssumedAlphaUs, topology::LinkClass::nvlink});
  }
  return topology;
}

}  // namespace

Schedule schedule_from_msccl(const MscclAlgo& algo) {
  const MscclRun run = run_msccl(algo);
  const std::vector<Step> steps = Steps(algo, run).solve();
  std::vector<Send> sends;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const MscclMessage& message = run.messages[i];
    sends.push_back({message.chunk, message.src, message.dst, steps[i], message.kind});
  }
  std::stable_sort(sends.begin(), sends.end(), [](const Send& a, const Send& b) { return a.step < b.step; });
  Schedule schedule = make_schedule(algo.name, run.frame.collective, run.frame.root, links_used(run),
                                    run.frame.chunks_per_rank, std::move(sends));
  try {
    verify(schedule);
  } catch (const Error& error) {
    fail(ErrorCode::invalid_argument,
         "MSCCL XML line {}, <algo name=\"{}\">: right as it is, but a rank keeps two values of a chunk at once, which "
         "a "
         "schedule cannot say ({})",
         algo.line, algo.name, error.what());
  }
  return schedule;
}

}  // namespace sccl::schedule
