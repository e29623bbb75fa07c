#include "synth/pareto.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

#include "base/error.h"

namespace sccl::synth {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLeastDefaultK = 2;
constexpr int kMostDefaultK = 8;
constexpr int kRounds = 4;          // of the sweep
constexpr int kFirstSliceMs = 250;  // for one question in the first round
constexpr int kSliceGrowth = 5;

Ratio cost(const Size& size) { return ratio(size.rounds, size.chunks); }

bool no_worse(const Size& one, const Size& other) {
  return one.steps <= other.steps && cost(one) <= cost(other) && one.chunks <= other.chunks;
}

class Sweep {
 public:
  Sweep(Synthesizer& synthesizer, const ParetoOptions& options, const Limits& limits)
      : synthesizer_(synthesizer), options_(options), limits_(limits) {
    frontier_.least_steps = std::max(1, synthesizer.least_steps());
    frontier_.least_rounds_per_chunk = synthesizer.least_rounds_per_chunk();
    frontier_.k = options.k >= 0 ? options.k : default_k();
    frontier_.most_steps = frontier_.least_steps + options.more_steps;
  }

  Frontier run() {
    seed();
    for (round_ = 0; round_ < kRounds; ++round_) {
      sweep();
      if (limits_.reached() || still_better().empty()) break;
    }
    frontier_.complete = !limits_.reached();
    drop_dominated();
    for (Point& point : frontier_.points) point.standing = standing(point);
    frontier_.open = still_better();
    frontier_.seconds = elapsed();
    return std::move(frontier_);
  }

 private:
  // The rounds of the smallest schedule that could meet the bandwidth bound, minus the fewest steps.
  int default_k() const {
    const Ratio bound = frontier_.least_rounds_per_chunk;
    // The two phases of an AllReduce have whole numbers of rounds each.
    const int phases = synthesizer_.phases();
    const std::int64_t unit = std::int64_t{synthesizer_.chunk_multiple()} * phases;
    const std::int64_t chunks = std::lcm(bound.denominator, unit);
    const std::int64_t rounds = bound.numerator * (chunks / bound.denominator);
    return static_cast<int>(
        std::clamp<std::int64_t>(rounds - frontier_.least_steps, kLeastDefaultK * phases, kMostDefaultK * phases));
  }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void sweep() {
    for (int steps = frontier_.least_steps; steps <= frontier_.most_steps; ++steps) {
      for (int rounds = steps; rounds <= steps + frontier_.k && !limits_.reached(); ++rounds)
        most_chunks(steps, rounds);
      if (meets_bound(steps)) return;
    }
  }

  // True if some schedule of at most `steps` steps is bandwidth-optimal, so that more steps are not needed.
  bool meets_bound(int steps) const {
    return std::any_of(frontier_.points.begin(), frontier_.points.end(),
                       [&](const Point& point) { return point.bandwidth_optimal && point.size.steps <= steps; });
  }

  // Finds the largest number of chunks for these steps and rounds. Starts from the largest number that the bounds
  // allow, and halves it where a search takes too long. A schedule without one of its pieces is still a schedule, so a
  // refuted number refutes all larger numbers.
  void most_chunks(int steps, int rounds) {
    const int multiple = synthesizer_.chunk_multiple();
    const auto size = [&](int pieces) { return Size{pieces * multiple, steps, rounds}; };
    int& refuted = least_refuted_.try_emplace({steps, rounds}, 0).first->second;
    if (refuted == 0) {
      const Ratio bound = frontier_.least_rounds_per_chunk;
      const std::int64_t most = bound.numerator == 0 ? multiple : rounds * bound.denominator / bound.numerator;
      refuted = static_cast<int>(most / multiple) + 1;
    }
    while (refuted > 1 && synthesizer_.refutes(size(refuted - 1))) --refuted;
    int found = refuted - 1;
    while (found > 0 && !known_no_better(size(found))) --found;
    constexpr int kMostTried = 6;
    int tried = refuted;
    for (int tries = 0; tried > found + 1 && tries < kMostTried && !limits_.reached(); ++tries) {
      const int pieces = tries == 0 ? tried - 1 : (found + tried) / 2;
      const Outcome outcome = ask(size(pieces));
      if (outcome == Outcome::sat)
        found = pieces;
      else
        tried = pieces;
      if (outcome == Outcome::unsat) refuted = pieces;
    }
    std::vector<Size>& unknown = unknown_[{steps, rounds}];
    unknown.clear();
    for (int pieces = refuted - 1; pieces > found; --pieces) unknown.push_back(size(pieces));
  }

  bool known_no_better(const Size& size) const {
    return std::any_of(frontier_.points.begin(), frontier_.points.end(),
                       [&](const Point& point) { return no_worse(point.size, size); });
  }

  Outcome ask(const Size& size) {
    int slice_ms = kFirstSliceMs;
    for (int i = 0; i < round_; ++i) slice_ms *= kSliceGrowth;
    const auto left_ms = limits_.deadline.remaining_ms(slice_ms);
    const Limits slice{Deadline::in(std::chrono::milliseconds(left_ms)), limits_.stop};
    Answer answer = synthesizer_.find(size, Effort{}, slice);
    if (answer.outcome == Outcome::sat) add(std::move(*answer.schedule));
    return answer.outcome;
  }

  void add(schedule::Schedule schedule) {
    Point point;
    point.size = {schedule.chunks_per_rank, schedule.steps,
                  std::accumulate(schedule.rounds.begin(), schedule.rounds.end(), 0)};
    point.schedule = std::move(schedule);
    point.seconds = elapsed();
    point.latency_optimal = point.size.steps == synthesizer_.least_steps();
    point.bandwidth_optimal = cost(point.size) == frontier_.least_rounds_per_chunk;
    frontier_.points.push_back(std::move(point));
    if (options_.found) options_.found(frontier_.points.back());
  }

  // First points: schedules that need no search, for growing numbers of chunks; then one piece in the fewest steps and
  // in as few rounds as a short search finds.
  void seed() {
    const int chunks = synthesizer_.chunk_multiple();
    constexpr int kMostPieces = 64;
    constexpr int kShareOfBudget = 4;
    const int share_ms = std::max(1, limits_.deadline.remaining_ms(kFirstSliceMs * kShareOfBudget) / kShareOfBudget);
    const Deadline enough = Deadline::in(std::chrono::milliseconds(share_ms));
    for (int pieces = 1; pieces <= kMostPieces && !enough.passed(); pieces *= 2)
      for (const Size& size : synthesizer_.easy_sizes(pieces * chunks))
        if (!known_no_better(size)) ask(size);
    if (frontier_.points.empty()) return;
    const int most = frontier_.points.front().size.rounds;
    int rounds = frontier_.least_steps;
    while (rounds < most && synthesizer_.refutes({chunks, frontier_.least_steps, rounds})) ++rounds;
    for (int more = 1; rounds < most && !limits_.reached(); rounds += more, more *= 2)
      if (ask({chunks, frontier_.least_steps, rounds}) == Outcome::sat) return;
  }

  void drop_dominated() {
    std::vector<Point>& points = frontier_.points;
    std::stable_sort(points.begin(), points.end(), [](const Point& one, const Point& other) {
      if (one.size.steps != other.size.steps) return one.size.steps < other.size.steps;
      if (const auto order = cost(one.size) <=> cost(other.size); order != 0) return order > 0;
      return one.size.chunks < other.size.chunks;
    });
    std::vector<Point> kept;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const bool worse = std::any_of(points.begin(), points.end(), [&](const Point& other) {
        if (&other == &points[i] || !no_worse(other.size, points[i].size)) return false;
        return !no_worse(points[i].size, other.size) || &other < &points[i];
      });
      if (!worse) kept.push_back(points[i]);
    }
    points = std::move(kept);
  }

  // Sizes that are neither found nor refuted, and that no point equals or beats in steps, rounds per chunk and chunks.
  std::vector<Size> still_better() const {
    std::vector<Size> result;
    for (const auto& [row, sizes] : unknown_)
      for (const Size& size : sizes)
        if (!known_no_better(size)) result.push_back(size);
    return result;
  }

  Standing standing(const Point& point) const {
    if (point.latency_optimal && point.bandwidth_optimal) return Standing::proved;
    const auto beats = [&](const Size& size) {
      return size.steps <= point.size.steps && cost(size) <= cost(point.size) &&
             (size.steps < point.size.steps || cost(size) < cost(point.size));
    };
    for (const Point& other : frontier_.points)
      if (beats(other.size)) return Standing::dominated;
    const bool looked_at =
        point.size.steps <= frontier_.most_steps && point.size.rounds - point.size.steps <= frontier_.k;
    if (!looked_at || (limits_.reached() && round_ == 0)) return Standing::open;
    for (const auto& [row, sizes] : unknown_)
      if (std::any_of(sizes.begin(), sizes.end(), beats)) return Standing::open;
    return Standing::proved;
  }

  Synthesizer& synthesizer_;
  const ParetoOptions& options_;
  const Limits& limits_;
  Clock::time_point start_ = Clock::now();
  Frontier frontier_;
  int round_ = 0;
  std::map<std::pair<int, int>, std::vector<Size>> unknown_;  // by steps and rounds, from the last sweep
  std::map<std::pair<int, int>, int> least_refuted_;          // by steps and rounds: pieces
};

}  // namespace

std::string_view optimality(const Point& point) {
  if (point.latency_optimal && point.bandwidth_optimal) return "both";
  return point.latency_optimal ? "latency" : point.bandwidth_optimal ? "bandwidth" : "";
}

std::string_view name(Standing standing) {
  switch (standing) {
    case Standing::proved:
      return "proved";
    case Standing::open:
      return "open";
    case Standing::dominated:
      break;
  }
  return "dominated";
}

std::string Frontier::statement() const {
  bool bandwidth = false;
  bool latency = false;
  Ratio least{0, 0};
  for (const Point& point : points) {
    bandwidth = bandwidth || point.bandwidth_optimal;
    latency = latency || point.latency_optimal;
    if (least.denominator == 0 || cost(point.size) < least) least = cost(point.size);
  }
  std::string text = latency ? fmt::format("latency-optimal: {} steps are the distance bound", least_steps)
                             : fmt::format("no schedule of {} steps, the distance bound, was found", least_steps);
  const Ratio bound = least_rounds_per_chunk;
  if (bandwidth)
    text += fmt::format("; bandwidth-optimal: {}/{} rounds per chunk are the cut bound", bound.numerator,
                        bound.denominator);
  else if (least.denominator != 0)
    text += fmt::format("; bandwidth open: {}/{} rounds per chunk found, {}/{} is the cut bound", least.numerator,
                        least.denominator, bound.numerator, bound.denominator);
  if (!complete && open.empty()) return text + "; the budget ended before other sizes were looked at";
  if (open.empty())
    text += fmt::format("; nothing of at most {} steps and {} more rounds is left open", most_steps, k);
  else
    text += fmt::format("; best within the budget: {} sizes are left open", open.size());
  return text;
}

Frontier pareto(Synthesizer& synthesizer, const ParetoOptions& options, const Limits& limits) {
  if (!synthesizer.connected())
    fail(ErrorCode::invalid_argument,
         "some rank cannot be reached over the links: the collective has no schedule on this topology");
  return Sweep(synthesizer, options, limits).run();
}

}  // namespace sccl::synth
