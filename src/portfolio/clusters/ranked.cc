#include "portfolio/clusters/ranked.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "compose/lowering/expand.h"
#include "portfolio/clusters/first_frames.h"
#include "portfolio/flat/candidate.h"
#include "portfolio/flat/simulated_time.h"

namespace sccl::portfolio {
namespace {

// In slices of the host's share, at about 0.25 us each: half for the share itself, half for its simulation.
constexpr double kMostWork = 350000;
constexpr double kLittleWork = 90000;  // one of each shape that takes no more comes first
constexpr double kMostWorkWithFirst = 800000;
constexpr double kMostWorkOfMany = 1600000;  // the same of a thousand ranks and more
constexpr int kManyRanks = 1024;
// A composite whose closed form is so many times the fastest simulated time is not simulated. On clusters of 40 to 128
// ranks the closed form is between 0.8 and 1.3 times the simulated time.
constexpr double kHopeless = 1.5;
// A simulation of all ranks takes a part of the bytes if these are more slices. Its flat form takes as long as two
// slices for each send.
constexpr double kMostOfAll = 100000;
constexpr double kOfParts = 60000;
constexpr double kWorkOfFlatForm = 2;
constexpr double kLeastSlice = 16 * 1024;
constexpr int kAllOfFamily = 1 << 20;
// What makes a composite slower than that, slots that are too few for its short chunks, need not hold for others.
constexpr double kMostOverClosedForm = 1.15;
constexpr double kAboutAsFast = 1.01;
// If the fastest takes so many times its closed form, other kinds of trees between hosts are tried: a Reduce of 64 MiB
// by trees took 1.14 times it on 5 hosts of 8 devices with two NICs, one by a ring 1.00 times.
constexpr double kAsPromised = 1.03;
// What is so much slower than others promise to be does other things: it tells nothing of them.
constexpr double kComparable = 1.25;
constexpr double kNever = std::numeric_limits<double>::infinity();
// Orders by time (OrderedShare) are made first, and of so many sends of one host together: three layouts or more, of
// half a microsecond for each send. On more ranks planning may take longer.
constexpr double kMostOrdered = 66000;
constexpr double kMostOrderedOfMany = 540000;
constexpr int kFewRanks = 128;
constexpr double kLongForOrders = 0.7;  // of the time without waiting, while links are busy: short data gains nothing
constexpr double kLongToTell = 0.9;
constexpr double kLittleFaster = 1.04;
constexpr double kAlmostBest = 1.05;  // times what an order promises: it is not worth its time

// Whether hosts seem to do alike.
bool has_share(const CompositeCandidate& one) { return one.shares != nullptr && one.shares->serves(*one.composite); }

bool has_entries(const CompositeCandidate& one) {
  return std::ranges::any_of(one.composite->kinds, [](const auto& kind) { return kind->has_entries(); });
}

double slices_of_chunk(const CompositeCandidate& one, const schedule::SimulationOptions& options) {
  return std::max(1.0, std::ceil(one.cost.chunk_per_byte * options.bytes / options.slice_bytes));
}

double sends_of(const CompositeCandidate& one) { return static_cast<double>(compose::about_sends(*one.composite)); }

// Of simulations of all frames of all ranks, and of the first of many frames: never where there are few.
double work_of_all_frames(const CompositeCandidate& one, const schedule::SimulationOptions& options) {
  const FlatSize size(sends_of(one), one.cost.chunk_per_byte);
  return kWorkOfFlatForm * sends_of(one) + size.slices(options, kMostOfAll, kOfParts);
}
double work_of_first_frames(const CompositeCandidate& one, const schedule::SimulationOptions& options) {
  const auto first = FirstFrames::of(*one.composite, one.cost);
  return first ? first->work(sends_of(one), slices_of_chunk(one, options), kWorkOfFlatForm) : kNever;
}

// Of a simulation of the host that stands for all, or of all ranks, by the way that takes less work.
double work_of(const CompositeCandidate& one, schedule::SimulationOptions options, double slice_bytes, bool alike) {
  options.slice_bytes = slice_bytes;
  if (alike) return sends_of(one) / static_cast<double>(one.composite->hosts.size()) * slices_of_chunk(one, options);
  return std::min(work_of_all_frames(one, options), work_of_first_frames(one, options));
}

double most_ordered(const compose::Composite& composite) {
  return std::min(kMostOrderedOfMany, kMostOrdered * std::max(1.0, static_cast<double>(composite.ranks()) / kFewRanks));
}

// That the closed form prefers. Frames of one root's data may have whole chunks where those take hardly longer: they
// are simulated sooner, so that more composites are.
constexpr double kHardlyLonger = 1.02;
double slice_of(const CompositeCandidate& one, const schedule::SimulationOptions& options) {
  const double best = one.cost.good_slice(options.bytes, options.slice_bytes);
  const bool in_frames = passes_whole(one.composite->collective) && one.composite->frames > 1;
  const bool fits = one.cost.chunk_per_byte * options.bytes <= options.slice_bytes;
  const bool whole =
      in_frames && fits &&
      one.cost.time_us(options.bytes, options.slice_bytes) <= kHardlyLonger * one.cost.time_us(options.bytes, best);
  return whole ? options.slice_bytes : best;
}

// By the closed form; of those that are about as fast the one first that takes the least work.
std::vector<RankedComposite*> by_promise(std::vector<RankedComposite>& order,
                                         const std::vector<CompositeCandidate>& candidates,
                                         const schedule::SimulationOptions& options) {
  std::vector<std::tuple<double, double, RankedComposite*>> all;
  const double least_us = order.empty() ? 0 : order.front().time_us;
  for (RankedComposite& one : order) {
    const double band = least_us > 0 ? std::floor(std::log(one.time_us / least_us) / std::log(kAboutAsFast)) : 0;
    all.emplace_back(
        band, work_of(candidates[one.candidate], options, one.slice_bytes, has_share(candidates[one.candidate])), &one);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(std::get<0>(a), std::get<1>(a)) < std::pair(std::get<0>(b), std::get<1>(b));
  });
  std::vector<RankedComposite*> result;
  for (const auto& one : all) result.push_back(std::get<2>(one));
  return result;
}

// Whether links hardly wait for chunks: in many frames that begin one after the other, on hosts whose links are a good
// part as busy as NICs, or busier where a device sends a chunk to all others at once. Of 121 Broadcasts and Reduces of
// 64 MiB and more on 40 to 128 ranks simulations took 0.96 to 1.03 times the closed form (one 1.12), half of them 0.99
// times or less. In fewer frames, or where NICs are the busiest, they take up to 1.2 times.
constexpr int kEnoughFrames = 16;
constexpr double kBusyHosts = 0.5;
constexpr double kBusierHosts = 1.1;
bool waits_little(const CompositeCandidate& one) {
  const bool at_once = std::ranges::all_of(
      one.composite->kinds, [](const auto& kind) { return kind->in.steps <= 1 && kind->out.steps <= 1; });
  return one.composite->staggered && one.composite->frames >= kEnoughFrames &&
         one.cost.host_us_per_byte >= (at_once ? kBusierHosts : kBusyHosts) * one.cost.network_us_per_byte;
}

// Shape and level, whatever the frames.
std::string_view shape_and_level(const CompositeCandidate& one) {
  const std::string_view name = one.composite->name;
  return name.substr(0, name.find('/', name.find('/') + 1));
}

// Between what data passes, and whether hosts do so one after the other.
enum class Trees : std::uint8_t { of_ranks, of_hosts, chains_of_hosts };
Trees trees_of(const CompositeCandidate& one) {
  const auto& tiers = one.composite->tiers;
  if (tiers.empty()) return Trees::of_ranks;
  return compose::is_chain(tiers.front().shape) ? Trees::chains_of_hosts : Trees::of_hosts;
}

// What one of them takes over its closed form tells of the others.
using Family = std::pair<bool, std::string_view>;
Family family(const CompositeCandidate& one) { return {waits_little(one), shape_and_level(one)}; }

// The same of all shapes whose links hardly wait, less surely: what the least of them takes.
std::string_view level(const CompositeCandidate& one) {
  const std::string_view name = shape_and_level(one);
  return name.substr(std::min(name.find('+'), name.size()));
}

// Simulates the most promising composites, and knows the least time of them.
class Simulations {
 public:
  Simulations(const std::vector<CompositeCandidate>& candidates, const schedule::SimulationOptions& options)
      : candidates_(candidates), options_(options) {
    const bool many = !candidates.empty() && candidates.front().composite->ranks() >= kManyRanks;
    most_work_with_first_ = many ? kMostWorkOfMany : kMostWorkWithFirst;
  }

  // Orders by time, in a time of their own, the one first that takes the least time if no chunk waits for another one.
  // Nothing where others promise as much: their closed form is good where data enters hosts at one device.
  void run_orders(std::vector<RankedComposite>& order) {
    std::vector<std::pair<double, RankedComposite*>> promising;
    double others_us = kNever;
    for (RankedComposite& one : order) {
      const CompositeCandidate& candidate = candidates_[one.candidate];
      if (candidate.by_time == nullptr && !has_entries(candidate)) others_us = std::min(others_us, one.closed_us);
      if (candidate.by_time != nullptr && is_long(one, kLongForOrders))
        promising.emplace_back(without_waiting_us(one), &one);
    }
    std::ranges::stable_sort(promising, {}, &std::pair<double, RankedComposite*>::first);
    double ordered = 0;
    for (const auto& [us, one] : promising) {
      const CompositeCandidate& candidate = candidates_[one->candidate];
      if (others_us < us || least_us_ < kAlmostBest * us) return;
      const double sends = sends_of(candidate) / static_cast<double>(candidate.composite->hosts.size()) *
                           compose::hosts_that_stand_for_all(*candidate.composite);
      if (ordered + sends > most_ordered(*candidate.composite)) continue;
      ordered += sends;
      simulate(*one);
      knows_order_ = true;
    }
  }

  // Whether links are busy for such a part of the time.
  bool is_long(const RankedComposite& one, double part) const {
    return candidates_[one.candidate].cost.busy_us(options_.bytes) >= part * without_waiting_us(one);
  }

  double without_waiting_us(const RankedComposite& one) const {
    return candidates_[one.candidate].cost.without_waiting().time_us(options_.bytes, one.slice_bytes);
  }

  // At most so many of each family, as long as there is time, of which `kept` is for others. Frames of one shape take
  // about as long; shapes differ.
  void run(const std::vector<RankedComposite*>& promising, int most_of_family, double most_work, double kept = 0) {
    std::map<std::string_view, int> taken;  // by shape and level
    for (RankedComposite* const next : promising) {
      RankedComposite& one = *next;
      const CompositeCandidate& candidate = candidates_[one.candidate];
      if (one.simulated || refused_.contains(one.candidate) || candidate.by_time != nullptr) continue;
      if (one.time_us >= kHopeless * least_us_) return;
      if (cannot_win(one)) continue;
      if (taken[shape_and_level(candidate)] == most_of_family) continue;
      if (passes_whole(candidate.composite->collective) && twins_.contains(twin(one))) continue;
      const double work = work_of(one.candidate, one.slice_bytes);
      if (work > most_work || work_ + work > kMostWork - kept) continue;
      simulate(one);
      if (one.simulated) ++taken[shape_and_level(candidate)];
    }
  }

  double work_of(const RankedComposite& one) const { return work_of(one.candidate, one.slice_bytes); }

  // Who comes first is known, if that takes no long time: others that were simulated may be slower than they promised.
  bool know_first(std::vector<RankedComposite>& order) {
    RankedComposite& first = order.front();
    if (first.simulated || refused_.contains(first.candidate)) return false;
    const double work = work_of(first.candidate, first.slice_bytes);
    if (work_ + work > most_work_with_first_) return false;
    simulate(first);
    return true;
  }

  // Where the fastest does not keep what it promised: the most promising of each kind of trees of which none was
  // simulated yet. Trees of all ranks promise what simulations have shown: others may be a little faster than they
  // promise. Whether any was simulated now.
  bool try_other_trees(std::vector<RankedComposite>& order) {
    const RankedComposite& first = order.front();
    const bool known = trees_of(candidates_[first.candidate]) == Trees::of_ranks;
    if (!first.simulated || (!known && first.time_us < kAsPromised * first.closed_us)) return false;
    const double least_us = (known ? kAsPromised : 1) * least_us_;
    std::set<Trees> tried;
    std::vector<RankedComposite*> others;
    for (RankedComposite& one : order) {
      if (one.simulated) tried.insert(trees_of(candidates_[one.candidate]));
      const bool known_or_order = one.simulated || candidates_[one.candidate].by_time != nullptr;
      if (!known_or_order && !refused_.contains(one.candidate) && one.closed_us < least_us) others.push_back(&one);
    }
    std::ranges::stable_sort(others, {}, &RankedComposite::closed_us);
    bool any = false;
    for (RankedComposite* const one : others) {
      const Trees trees = trees_of(candidates_[one->candidate]);
      if (tried.contains(trees) || work_ + work_of(one->candidate, one->slice_bytes) > most_work_with_first_) continue;
      simulate(*one);
      any = true;
      if (one->simulated) tried.insert(trees);
    }
    return any;
  }

  // The closed form mostly finds the best slices, but not those of chains through many ranks.
  void shorten_slices(RankedComposite& first) {
    if (!first.simulated || alike(first.candidate)) return;
    for (double slice = first.slice_bytes / 2; slice >= kLeastSlice; slice /= 2) {
      if (work_ + work_of(first.candidate, slice) > most_work_with_first_) return;
      const auto time = time_of(first.candidate, slice);
      if (!time || time->stopped || time->us >= first.time_us) return;
      first.time_us = least_us_ = time->us;
      first.slice_bytes = slice;
    }
  }

  // What was not simulated is as far above its closed form as the fastest, if that is comparable, or as others of its
  // shape, and a little more where links wait: what is known comes first.
  void guess(std::vector<RankedComposite>& order) const {
    if (!std::isfinite(least_us_)) return;
    const double promised_us = std::ranges::min_element(order, {}, &RankedComposite::closed_us)->closed_us;
    const bool comparable = least_us_ <= kComparable * promised_us;
    for (RankedComposite& one : order) {
      if (one.simulated || refused_.contains(one.candidate) || unlike_.contains(one.candidate)) continue;
      const CompositeCandidate& candidate = candidates_[one.candidate];
      const double of_fastest = comparable ? over_closed_form_[waits_little(candidate) ? 1 : 0] : 1;
      const auto shape = over_closed_form_of_.find(family(candidate));
      const double of_shape = shape == over_closed_form_of_.end() ? 1 : shape->second;
      const auto all_shapes = over_closed_form_of_level_.find(level(candidate));
      const bool known = waits_little(candidate) && all_shapes != over_closed_form_of_level_.end();
      const double of_level = known ? all_shapes->second : 1;
      const double little_more = waits_little(candidate) ? 1 : kAboutAsFast;
      one.time_us = one.closed_us * little_more * std::max({of_fastest, of_shape, of_level});
    }
    put_unknown_orders_back(order);
  }

 private:
  // Beside the time of an order. Steps of a frame overlap those of others: simulations may be a little faster than the
  // closed form without waiting, of short data a good deal.
  bool cannot_win(const RankedComposite& one) const {
    if (!knows_order_ || least_us_ == kNever) return false;
    const double busy_us = candidates_[one.candidate].cost.busy_us(options_.bytes);
    return kAboutAsFast * busy_us >= least_us_ ||
           (is_long(one, kLongToTell) && without_waiting_us(one) >= kLittleFaster * least_us_);
  }

  bool alike(std::size_t index) const { return has_share(candidates_[index]) && !unlike_.contains(index); }
  // The same for composites whose hosts do the same in another order. Of data of one root they take about as long, and
  // one is simulated; the others are if they come first.
  using Twin = std::tuple<double, double, int, std::size_t>;
  Twin twin(const RankedComposite& one) const {
    const compose::Composite& composite = *candidates_[one.candidate].composite;
    return {one.closed_us, one.slice_bytes, composite.frames, compose::about_sends(composite)};
  }
  double work_of(std::size_t index, double slice_bytes) const {
    return portfolio::work_of(candidates_[index], options_, slice_bytes, alike(index));
  }

  // An order by time that was not made is not chosen: it would take long.
  void put_unknown_orders_back(std::vector<RankedComposite>& order) const {
    double least = kNever;
    for (const RankedComposite& one : order)
      if (candidates_[one.candidate].by_time == nullptr) least = std::min(least, one.time_us);
    if (least == kNever) return;
    for (RankedComposite& one : order)
      if (!one.simulated && candidates_[one.candidate].by_time != nullptr)
        one.time_us = std::max(one.time_us, std::nextafter(least, kNever));
  }

  // What the simulator refuses, links of thousands of lanes for example, keeps its closed form; so do hosts that seem
  // to do alike, but do not, until all of them are simulated.
  void simulate(RankedComposite& one) {
    try {
      if (const auto time = time_of(one.candidate, one.slice_bytes)) return learn(one, *time);
      unlike_.insert(one.candidate);
      one.time_us = one.closed_us;
      return;
    } catch (const Error&) {
    }
    refused_.insert(one.candidate);
    one.time_us = one.closed_us;
  }

  void learn(RankedComposite& one, const SimulatedTime& time) {
    one.simulated = true;
    twins_.insert(twin(one));
    const auto over_closed_form = [&](double us) {
      return one.closed_us > 0 ? std::clamp(us / one.closed_us, 1.0, kMostOverClosedForm) : 1;
    };
    double& of_shape = over_closed_form_of_[family(candidates_[one.candidate])];
    const double at_least = over_closed_form(time.stopped ? least_us_ : time.us);
    of_shape = std::max(of_shape, at_least);
    if (waits_little(candidates_[one.candidate])) {
      const auto of_level = over_closed_form_of_level_.emplace(level(candidates_[one.candidate]), at_least).first;
      of_level->second = std::min(of_level->second, at_least);
    }
    if (time.stopped) {  // it takes longer than the least
      one.time_us = std::max(time.us, std::nextafter(least_us_, kNever));
      return;
    }
    if (time.us < least_us_) {
      least_us_ = time.us;
      over_closed_form_[waits_little(candidates_[one.candidate]) ? 1 : 0] = over_closed_form(time.us);
    }
    one.time_us = time.us;
  }

  // Nothing where hosts seem to do alike, but do not.
  std::optional<SimulatedTime> time_of(std::size_t index, double slice_bytes) {
    const CompositeCandidate& candidate = candidates_[index];
    schedule::SimulationOptions options = options_;
    options.slice_bytes = slice_bytes;
    options.stop_after_us = least_us_;
    if (candidate.by_time != nullptr && !unlike_.contains(index)) {
      const schedule::HostShare* const share = candidate.by_time->share();
      if (share == nullptr) return std::nullopt;
      const FlatSize size(static_cast<double>(share->schedule.sends.size()), candidate.cost.chunk_per_byte);
      SimulatedTime time = size.time(schedule::Simulator(*share), options, kMostOfAll, kOfParts);
      time.us = std::max(time.us, candidate.cost.busy_us(options.bytes));
      return time;
    }
    if (alike(index)) {
      const auto share = candidate.shares->of(*candidate.composite);
      if (!share) return std::nullopt;
      const schedule::Simulation simulation = schedule::Simulator(*share).run(options);
      work_ += static_cast<double>(simulation.slices);
      return SimulatedTime{simulation.time_us, simulation.stopped};
    }
    SimulatedTime time = of_all_ranks(index, options);
    // What parts of long data tell may be a little less than the busiest link takes for all.
    time.us = std::max(time.us, candidate.cost.busy_us(options.bytes));
    return time;
  }

  SimulatedTime of_all_ranks(std::size_t index, const schedule::SimulationOptions& options) {
    const CompositeCandidate& candidate = candidates_[index];
    if (work_of_first_frames(candidate, options) <= work_of_all_frames(candidate, options)) {
      const FirstFrames first = *FirstFrames::of(*candidate.composite, candidate.cost);
      const SimulatedTime time = first.time(*candidate.composite, options, candidate.cost.busy_us(options.bytes));
      work_ += time.slices + first.work(sends_of(candidate), 0, kWorkOfFlatForm);
      return time;
    }
    if (flat_ == nullptr || flat_->index != index) {
      flat_ = nullptr;  // never two
      flat_ = std::make_unique<const Flat>(index, candidate);
      work_ += kWorkOfFlatForm * flat_->sends();
    }
    const FlatSize size(flat_->sends(), candidate.cost.chunk_per_byte);
    const SimulatedTime time = size.time(flat_->simulator, options, kMostOfAll, kOfParts);
    work_ += time.slices;
    return time;
  }

  // Of one composite, for slices of several sizes.
  struct Flat {
    std::size_t index;
    schedule::Schedule schedule;
    schedule::Simulator simulator;

    Flat(std::size_t of, const CompositeCandidate& candidate)
        : index(of), schedule(compose::expand_without_rounds(*candidate.composite)), simulator(schedule) {}
    double sends() const { return static_cast<double>(schedule.sends.size()); }
  };

  const std::vector<CompositeCandidate>& candidates_;
  const schedule::SimulationOptions& options_;
  double work_ = 0;
  double most_work_with_first_ = 0;
  bool knows_order_ = false;
  double least_us_ = kNever;
  std::array<double, 2> over_closed_form_{1, 1};                  // the least time, apart for those that wait little
  std::map<Family, double> over_closed_form_of_;                  // the most of a time, at least
  std::map<std::string_view, double> over_closed_form_of_level_;  // the least of all shapes whose links hardly wait
  std::set<std::size_t> refused_;
  std::set<std::size_t> unlike_;
  std::set<Twin> twins_;              // of all that were simulated
  std::unique_ptr<const Flat> flat_;  // the last one that was made
};

}  // namespace

std::vector<RankedComposite> ranked(const std::vector<CompositeCandidate>& candidates,
                                    const schedule::SimulationOptions& options, Slices slices) {
  std::vector<RankedComposite> order;
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    const compose::Cost& cost = candidates[index].cost;
    const double slice = slice_of(candidates[index], options);
    const double closed_us = cost.time_us(options.bytes, slice);
    order.push_back({index, slice, closed_us, closed_us});
  }
  const auto earlier = [](const RankedComposite& a, const RankedComposite& b) { return a.time_us < b.time_us; };
  std::stable_sort(order.begin(), order.end(), earlier);
  Simulations simulations(candidates, options);
  simulations.run_orders(order);
  const std::vector<RankedComposite*> promising = by_promise(order, candidates, options);
  // The one that promises most has its turn, however much work it is.
  const double most_promising = order.empty() ? 0 : simulations.work_of(order.front());
  simulations.run(promising, 1, kLittleWork, most_promising <= kMostWork / 2 ? most_promising : 0);
  for (const int most_of_family : {2, kAllOfFamily}) simulations.run(promising, most_of_family, kMostWork);
  const auto before = [](const RankedComposite& a, const RankedComposite& b) {
    return a.time_us != b.time_us ? a.time_us < b.time_us : a.simulated && !b.simulated;
  };
  do {
    simulations.guess(order);
    std::stable_sort(order.begin(), order.end(), before);
  } while (!order.empty() && (simulations.know_first(order) || simulations.try_other_trees(order)));
  if (slices == Slices::best_of_first && !order.empty()) simulations.shorten_slices(order.front());
  return order;
}

}  // namespace sccl::portfolio
