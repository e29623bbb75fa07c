#include "portfolio/prediction/predict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/os/in_parallel.h"
#include "portfolio/prediction/foreseen.h"
#include "schedule/simulation/cost.h"

namespace sccl::portfolio {
namespace {

constexpr double kLeastFrameBytes = 2048;  // a smaller chunk of a frame is dominated by latency
constexpr double kABit = 1e-9;
// An order for chunks of a whole slice serves those of at least this part of one. It takes long to find, and is looked
// for where chunks of several slices take so many times the busiest link's time.
constexpr double kLeastOfSlice = 0.74;
constexpr double kQueuesMuch = 1.09;
// A composite whose closed form is this many times the fastest is not simulated: the closed form mostly leaves out
// that chunks queue, and counts latencies that overlap.
constexpr double kHopeless = 2;
// Blocks are long chunks, of which the closed form takes the slices of few to cross one after the other. It also takes
// each device to have one NIC: where hosts have several, blocks may find faster ways. Their flat forms are short.
constexpr double kHopelessOfBlocks = 4;
// With an order by time few chunks queue. An order takes as long to find as a simulation: only the most promising few
// are looked at.
constexpr double kHopelessByTime = 1.05;
constexpr int kMostByTime = 2;
constexpr double kAboutAsFast = 1.01;  // of such composites the one first that takes the least work
// Where one is known that takes little longer than the closed form of another composite, that one's usual order is not
// looked at if it has many sends, and its order by time is not.
constexpr double kNear = 0.96;
constexpr double kNearByTime = 0.985;
constexpr std::size_t kFewSends = 20000;
// The more work simulations were, the more a long one must promise to gain: its closed form must be below this many
// times the fastest time, which after work of 0.2 s is a twentieth less than it. That leaves out what is at most a
// fortieth faster, on clusters whose plans took up to 0.9 s. The few composites of blocks are all looked at.
constexpr double kLongWork = 60000;  // in simulated slices, at 0.15 us each
constexpr double kNearAtFirst = 1.25;
constexpr double kNearPerWork = 2.2e-7;
// Flat schedules of more slices together are not all simulated to the end, but only a part of each.
constexpr double kMostFlatSlices = 1 << 20;
// Nor is a schedule simulated whose busiest link alone takes this part of the fastest time.
constexpr double kGoodEnough = 0.98;
// Where copies of several slices queue, the first order by time hardly ever does what it promises. The next one that
// promises about as much, and has not many more sends, is simulated beside it.
constexpr double kMuchWork = 20000;
constexpr double kAsPromising = 1.02;
constexpr std::size_t kMoreSends = 4;

constexpr int kMostKnown = 3;         // by longer simulations, one after the other
constexpr double kAsForeseen = 1.01;  // is near enough

// Whether its chunks have a length for which it was made.
bool is_for(const Candidate& one, const schedule::SimulationOptions& options) {
  const double chunk_bytes = options.bytes / one.schedule.chunks_per_rank();
  if (one.schedule.steps() == Steps::by_time_of_slices)
    return chunk_bytes > kLeastOfSlice * options.slice_bytes && chunk_bytes <= options.slice_bytes;
  return one.frames <= 1 || chunk_bytes >= kLeastFrameBytes;
}

using AllForeseen = std::vector<std::pair<std::size_t, Foreseen>>;  // with the number of each candidate

// Predicts the most promising candidates first: the more the others then must promise. Some simulations run in pairs,
// on two cores if there are two. Which ones run as a pair does not depend on cores, so all ranks foresee the same.
class Predictor {
 public:
  // By candidate, as far as they can be simulated.
  std::vector<Prediction> run(const AllForeseen& all) {
    std::vector<std::optional<Prediction>> found(all.size());
    std::vector<bool> looked_at(all.size(), false);
    for (std::size_t place = 0; place < all.size(); ++place) {
      if (looked_at[place]) continue;
      const Foreseen& one = all[place].second;
      composites_ = composites_ || one.has_closed();
      found[place] = without_simulation(one);
      if (one.has_closed() && !one.may_be_simulated()) least_us_ = std::min(least_us_, one.closed().time_us);
      if (found[place]) continue;
      std::vector<std::size_t> places{place};
      if (const std::size_t other = partner(all, place, looked_at); other < all.size()) places.push_back(other);
      std::vector<Told> told(places.size());
      in_parallel(places.size(), planning_threads(),
                  [&](std::size_t i, unsigned /*thread*/) { told[i] = tell(all[places[i]].second); });
      for (std::size_t i = 0; i < places.size(); ++i) {
        looked_at[places[i]] = true;
        found[places[i]] = told[i].prediction;
        learn(all[places[i]].second, told[i]);
      }
    }
    know_first(all, found);
    std::vector<Prediction> result;
    for (std::size_t place = 0; place < all.size(); ++place) {
      if (!found[place]) continue;
      result.push_back(*found[place]);
      result.back().candidate = all[place].first;
    }
    return result;
  }

 private:
  struct Told {
    std::optional<Prediction> prediction;  // nothing: it cannot be simulated
    double work = 0;
    bool simulated = false;
  };

  // Of the fastest, if a short part of it was simulated, a longer one is, or all: long data may wait more the longer it
  // is. A Reduce of 256 MiB on parts of three DGX-2 would take 1.22 times the bound, by short parts 1.002.
  void know_first(const AllForeseen& all, std::vector<std::optional<Prediction>>& found) {
    for (int known = 0; known < kMostKnown; ++known) {
      const auto earlier = [](const auto& a, const auto& b) { return b && (!a || b->time_us < a->time_us); };
      const auto first = std::max_element(found.begin(), found.end(), earlier);
      if (first == found.end() || !*first) return;
      const Prediction foreseen = **first;
      const Foreseen& one = all[static_cast<std::size_t>(first - found.begin())].second;
      if (!one.is_foreseen_by_part(foreseen.slice_bytes)) return;
      const double us = one.longer_us(foreseen.slice_bytes);
      if (us <= kAsForeseen * foreseen.time_us) return;
      // So do those that do the same. What was not looked at for it is no faster either, as far as anybody knows.
      least_us_ = us;
      for (auto& other : found) {
        if (!other) continue;
        const bool same = other->time_us == foreseen.time_us && other->slice_bytes == foreseen.slice_bytes;
        const bool no_faster = other->time_us == foreseen.time_us * (1 + kABit);
        if (same) other->time_us = us;
        if (no_faster) other->time_us = us * (1 + kABit);
      }
    }
  }

  // Of what promises too little, or would take too long.
  std::optional<Prediction> without_simulation(const Foreseen& one) const {
    if (!one.has_closed()) return std::nullopt;
    const double closed_us = one.closed().time_us;
    const double hopeless = one.by_time() ? kHopelessByTime : one.of_blocks() ? kHopelessOfBlocks : kHopeless;
    if (closed_us >= hopeless * least_us_ || !one.may_be_simulated()) return one.closed();
    if (one.turn() == Turn::last && std::isfinite(least_us_)) return worse(one);
    if (one.by_time_of_slices() && least_us_ < kQueuesMuch * one.closed_busy_us()) return worse(one);
    if (gains_little(one) || (!one.of_blocks() && one.closed_busy_us() >= kGoodEnough * least_us_)) return worse(one);
    return std::nullopt;
  }

  // Of what turned out to be no better than the fastest.
  Prediction worse(const Foreseen& one) const {
    return {0, std::max(one.closed().time_us, least_us_ * (1 + kABit)), one.closed().slice_bytes};
  }

  // What else would be simulated next; all.size(): nothing.
  std::size_t partner(const AllForeseen& all, std::size_t place, const std::vector<bool>& looked_at) const {
    const Foreseen& one = all[place].second;
    if (!one.queues() || one.least_work() < kMuchWork) return all.size();
    for (std::size_t next = place + 1; next < all.size(); ++next) {
      const Foreseen& other = all[next].second;
      if (!other.has_closed() || other.promised_us() > kAsPromising * one.promised_us()) break;
      if (looked_at[next] || other.turn() != one.turn() || other.sends() > kMoreSends * one.sends()) continue;
      const bool none_left =
          other.by_time() && !other.by_time_of_slices() && &of(one) == &of(other) && of(one).left <= 1;
      if (none_left || one.alike(other) || without_simulation(other)) continue;
      return next;
    }
    return all.size();
  }

  // Changes nothing: for two threads at once.
  Told tell(const Foreseen& one) const {
    try {
      return one.has_closed() ? tell_composite(one) : tell_flat(one);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
      return {};
    }
  }

  Told tell_composite(const Foreseen& one) const {
    const auto twin = std::ranges::find_if(simulated_, [&](const auto& known) { return one.alike(*known.first); });
    if (too_busy(twin != simulated_.end() ? *twin->first : one)) return {worse(one)};
    if (twin != simulated_.end()) return {twin->second};
    for (const auto& [known, prediction] : simulated_)
      if (known->same(one)) return {prediction};
    return simulated(one, least_us_);
  }

  // Without composites all are simulated to the end if that takes no long time: few ranks, and people compare them.
  Told tell_flat(const Foreseen& one) const {
    const bool brief = one.closed().time_us > 0;
    if (!composites_ && !brief) return simulated(one, std::numeric_limits<double>::infinity());
    if (one.busy_us() >= kGoodEnough * least_us_) return {brief ? worse(one) : one.guess()};
    return simulated(one, least_us_);
  }

  static Told simulated(const Foreseen& one, double limit_us) {
    Told told;
    told.prediction = one.simulated(limit_us, told.work);
    told.simulated = true;
    return told;
  }

  void learn(const Foreseen& one, const Told& told) {
    work_ += told.work;
    if (!told.simulated) return;
    const double us = told.prediction->time_us;
    if (composites_ || one.closed().time_us > 0) least_us_ = std::min(least_us_, us);
    if (!one.has_closed()) return;
    if (one.by_time()) {
      --of(one).left;
      of(one).least_us = std::min(of(one).least_us, us);
    }
    if (one.fitted()) fitted_us_ = std::min(fitted_us_, us);
    simulated_.emplace_back(&one, *told.prediction);
  }

  // It takes long to tell, and by its closed form it is hardly better than the orders by time that are known, or no
  // better than even trees.
  bool gains_little(const Foreseen& one) const {
    if (one.fitted()) return false;
    if (one.by_time() && !one.by_time_of_slices() && of(one).left == 0) return true;
    if (!one.of_blocks() && one.least_work() >= kLongWork &&
        one.closed().time_us >= (kNearAtFirst - kNearPerWork * work_) * least_us_)
      return true;
    if (one.sends() >= kFewSends && one.closed().time_us >= fitted_us_) return true;
    if (!one.by_time() && one.sends() < kFewSends) return false;
    return one.closed().time_us >= (one.by_time() ? kNearByTime : kNear) * of(one).least_us;
  }

  // The flat form tells better than the closed one how busy links are, where it is no long way to it.
  bool too_busy(const Foreseen& one) const { return !one.by_time() && one.busy_us() >= kGoodEnough * least_us_; }

  bool composites_ = false;
  // Of orders by time, apart for composites whose blocks take near ports and those whose blocks take all ports.
  struct ByTime {
    int left = kMostByTime;
    double least_us = std::numeric_limits<double>::infinity();
  };
  ByTime& of(const Foreseen& one) { return by_time_[one.has_near_ports() ? 1 : 0]; }
  const ByTime& of(const Foreseen& one) const { return by_time_[one.has_near_ports() ? 1 : 0]; }

  std::array<ByTime, 2> by_time_;
  double fitted_us_ = std::numeric_limits<double>::infinity();  // the least of those
  double least_us_ = std::numeric_limits<double>::infinity();
  double work_ = 0;  // of simulations and what comes before them, in slices
  std::vector<std::pair<const Foreseen*, Prediction>> simulated_;
};

// By turns, then by the closed form, and of forms of one composite that with an order by time; what has no closed form
// last.
bool is_before(const Foreseen& a, const Foreseen& b) {
  if (a.has_closed() != b.has_closed()) return a.has_closed();
  if (a.turn() != b.turn()) return a.turn() < b.turn();
  return a.promised_us() < b.promised_us();
}

// In the order of is_before(); of those that promise to be about as fast the one first that takes the least work. Then
// simulations of the others end soon, or need not begin.
void put_most_promising_first(AllForeseen& foreseen) {
  std::stable_sort(foreseen.begin(), foreseen.end(),
                   [](const auto& a, const auto& b) { return is_before(a.second, b.second); });
  for (auto first = foreseen.begin(); first != foreseen.end() && first->second.has_closed();) {
    const Foreseen& fastest = first->second;
    const auto last = std::find_if(first, foreseen.end(), [&](const auto& one) {
      return !one.second.has_closed() || one.second.turn() != fastest.turn() ||
             one.second.promised_us() > kAboutAsFast * fastest.promised_us();
    });
    std::stable_sort(first, last,
                     [](const auto& a, const auto& b) { return a.second.least_work() < b.second.least_work(); });
    first = last;
  }
}

// Those that cannot be simulated are left to the predictor, which leaves them out.
void look_briefly(AllForeseen& foreseen) {
  for (auto& [index, one] : foreseen) try {
      one.look_briefly();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
    }
}

}  // namespace

std::vector<Prediction> predict(const std::vector<Candidate>& candidates, std::size_t count, std::size_t element_bytes,
                                const Pipeline& pipeline) {
  if (candidates.empty()) return {};
  const double bytes = schedule::buffer_bytes(*candidates.front().schedule, static_cast<double>(count),
                                              static_cast<double>(element_bytes));
  return predict(candidates, pipeline.simulated(bytes));
}

std::vector<Prediction> predict(const std::vector<Candidate>& candidates, const schedule::SimulationOptions& options) {
  AllForeseen foreseen;
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    if (is_for(candidates[index], options)) foreseen.emplace_back(index, Foreseen(candidates[index], options));
  }
  const bool flat = std::ranges::none_of(foreseen, [](const auto& one) { return one.second.has_closed(); });
  const double slices = std::accumulate(foreseen.begin(), foreseen.end(), 0.0,
                                        [](double sum, const auto& one) { return sum + one.second.slices(); });
  if (flat && slices > kMostFlatSlices) look_briefly(foreseen);
  put_most_promising_first(foreseen);
  std::vector<Prediction> predictions = Predictor().run(foreseen);
  // Equal times in the order of the candidates.
  std::sort(predictions.begin(), predictions.end(),
            [](const Prediction& a, const Prediction& b) { return a.candidate < b.candidate; });
  std::stable_sort(predictions.begin(), predictions.end(),
                   [](const Prediction& a, const Prediction& b) { return a.time_us < b.time_us; });
  return predictions;
}

}  // namespace sccl::portfolio
