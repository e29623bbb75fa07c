#include "portfolio/portfolio.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "compose/lowering/expand.h"
#include "planners/planners.h"
#include "portfolio/clusters/cluster_planner.h"
#include "portfolio/composites/even_tree_candidates.h"
#include "portfolio/flat/detours.h"
#include "portfolio/flat/simulated_time.h"
#include "portfolio/flat/tree_candidates.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/cost.h"
#include "schedule/simulation/simulate.h"
#include "synth/synthesize.h"
#include "topology/graph/joined.h"

namespace sccl::portfolio {
namespace {

// For larger machines a search takes longer than a first call may; such machines have a catalogue entry or none.
constexpr int kSynthesizedRanks = 8;
constexpr int kMostPieces = 6;
constexpr int kMoreSteps = 2;
constexpr std::int64_t kConflicts = 20000;        // of one turn of one query
constexpr std::int64_t kAllConflicts = 4500;      // of all queries together, at 20 to 40 us each
constexpr std::int64_t kNetworkConflicts = 2000;  // the same on a cluster, where composites are mostly as good
constexpr double kSame = 1e-9;                    // tolerance for rounds per chunk
constexpr double kLeastFrameBytes = 2048;         // a smaller chunk of a frame is dominated by latency
// An order for chunks of a whole slice serves those of at least this part of one. It takes long to find, and is looked
// for where chunks of several slices take so many times the busiest link's time.
constexpr double kLeastOfSlice = 0.74;
constexpr double kQueuesMuch = 1.09;

constexpr int kMostPackedClusterRanks = 16;         // above this, composites are as good and are available at once
constexpr int kMostPackedRoots = 8;                 // on a cluster: packing trees of more roots takes a second
constexpr std::size_t kMostFramedSends = 130000;    // of one schedule: a second to lower
constexpr std::size_t kMostSendsOfSlices = 260000;  // for gigabytes alone
constexpr double kMostSimulatedSlices = 260000;     // of composites, whose closed form is a good estimate
constexpr double kMostSlicesOfWhole = 150000;       // of a composite in more slices parts are simulated,
constexpr double kSlicesOfParts = 60000;            // of about so many
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
// Chunks in the order of frames queue more, which the closed form does not know: the order by time comes first where
// its closed form is no longer than the other one divided by this. Simulations of the others then end soon.
constexpr double kByTimeFirst = 0.99;
constexpr double kOfSlicesNext = 0.995;  // then orders for chunks of a whole slice
constexpr double kAboutAsFast = 1.01;    // of such composites the one first that takes the least work
// Where one is known that takes little longer than the closed form of another composite, that one's usual order is not
// looked at if it has many sends, and its order by time is not.
constexpr double kNear = 0.96;
constexpr double kNearByTime = 0.978;
constexpr std::size_t kManySends = 10000;  // of even trees: simulated first
constexpr std::size_t kFewSends = 20000;
// The more work simulations were, the more a long one must promise to gain: its closed form must be below this many
// times the fastest time, which after work of 0.2 s is a twentieth less than it. That leaves out what is at most a
// fortieth faster, on clusters whose plans took up to 0.9 s. The few composites of blocks are all looked at.
constexpr double kLongWork = 60000;  // in simulated slices, at 0.15 us each
constexpr double kNearAtFirst = 1.25;
constexpr double kNearPerWork = 2.2e-7;
// Of a flat form and its simulator for each send, and of an order with it, as so many simulated slices.
constexpr double kWorkOfFlatForm = 2;
constexpr double kWorkOfOrder = 6;
// Flat schedules of more slices together are not all simulated to the end, but only this part of each.
constexpr double kMostFlatSlices = 1 << 20;
constexpr double kBriefly = 1.0 / 32;
// A flat schedule of more slices is simulated for a part of the bytes, and takes in proportion.
constexpr double kMostSlicesOfOne = 1 << 20;
// Nor is a schedule simulated whose busiest link alone takes this part of the fastest time.
constexpr double kGoodEnough = 0.98;

void add_planners(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective,
                  Rank root) {
  for (const planners::Planner& planner : planners::table())
    if (auto schedule = planner.plan(topology, collective, root))
      result.push_back({std::string(planner.name), Origin::planner, *std::move(schedule), 1});
}

// The schedule with the fewest rounds for the given chunks and steps; tries the lower bound and the next number. Must
// need fewer rounds per chunk than `best`.
std::optional<schedule::Schedule> fewest_rounds(synth::Synthesizer& synthesizer, int chunks, int steps, double best,
                                                synth::Effort effort) {
  const synth::Ratio bound = synthesizer.least_rounds_per_chunk();
  const auto least = static_cast<int>((bound.numerator * chunks + bound.denominator - 1) / bound.denominator);
  for (int rounds = std::max(steps, least); rounds <= std::max(steps, least) + 1; ++rounds) {
    const synth::Size size{chunks, steps, rounds};
    if (static_cast<double>(rounds) / chunks >= best - kSame) break;
    if (!effort.spent() && synthesizer.refutes(size)) continue;
    if (auto answer = synthesizer.find(size, effort, {}); answer.schedule) return std::move(answer.schedule);
  }
  return std::nullopt;
}

// For each number of steps, beginning with the least possible: the schedule with the fewest rounds per chunk, if it is
// better than all schedules of fewer steps (SCCL 3.7).
void add_synthesized(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective,
                     Rank root, std::int64_t conflicts) {
  if (topology.ranks > kSynthesizedRanks || topology.ranks < 2) return;
  synth::Synthesizer synthesizer(topology, collective, root);
  if (!synthesizer.connected()) return;
  std::int64_t left = conflicts;
  const synth::Effort effort{kConflicts, &left};
  double best = 1e30;  // rounds per chunk
  const int least_steps = synthesizer.least_steps();
  for (int steps = least_steps; steps <= least_steps + kMoreSteps * synthesizer.phases(); ++steps) {
    std::optional<schedule::Schedule> chosen;
    for (int pieces = 1; pieces <= kMostPieces; ++pieces) {
      auto schedule = fewest_rounds(synthesizer, pieces * synthesizer.chunk_multiple(), steps, best, effort);
      if (!schedule) continue;
      const double ratio = schedule::stepped_cost(*schedule).rounds_per_chunk();
      if (ratio >= best - kSame) continue;
      best = ratio;
      chosen = std::move(schedule);
    }
    if (!chosen) continue;
    const auto cost = schedule::stepped_cost(*chosen);
    result.push_back({fmt::format("synth {}/{}/{}", cost.chunks_per_rank, cost.steps, cost.rounds), Origin::synthesis,
                      *std::move(chosen), 1});
  }
}

// Adds flat forms of the composites. Topologies that are not hosts on a network have none.
void add_levels(std::vector<Candidate>& result, const topology::Topology& topology, Collective collective, Rank root,
                std::unique_ptr<ClusterPlanner>& planner) {
  std::vector<CompositeCandidate> composites;
  try {
    if (planner == nullptr) planner = std::make_unique<ClusterPlanner>(topology);
    composites = planner->candidates(collective, root);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument || result.empty()) throw;
    return;  // links of class net that connect devices directly: flat schedules serve these
  }
  for (const CompositeCandidate& one : composites) {
    FlatForm flat(one.composite, one.steps);
    const std::size_t most = one.steps == Steps::by_time_of_slices ? kMostSendsOfSlices : kMostFramedSends;
    if (one.composite->frames > 1 && flat.sends() > most) continue;
    result.push_back({one.name(), Origin::levels, std::move(flat), one.composite->frames,
                      std::make_shared<const compose::Cost>(one.cost), one.composite});
  }
}

bool on_a_network(const topology::Topology& topology) {
  return std::any_of(topology.links.begin(), topology.links.end(),
                     [](const topology::Link& link) { return link.link_class == topology::LinkClass::net; });
}

// Whether its chunks have a length for which it was made.
bool is_for(const Candidate& one, const schedule::SimulationOptions& options) {
  const double chunk_bytes = options.bytes / one.schedule.chunks_per_rank();
  if (one.schedule.steps() == Steps::by_time_of_slices)
    return chunk_bytes > kLeastOfSlice * options.slice_bytes && chunk_bytes <= options.slice_bytes;
  return one.frames <= 1 || chunk_bytes >= kLeastFrameBytes;
}

double slices_in_all(const FlatForm& schedule, const schedule::SimulationOptions& options) {
  const auto sends = static_cast<double>(schedule.sends());
  if (options.slice_bytes <= 0) return sends;
  return sends * std::max(1.0, options.bytes / schedule.chunks_per_rank() / options.slice_bytes);
}

// One candidate, in slices of the wanted size; a composite also in shorter ones, and in those that its closed form
// prefers. Frames whose chunks are shorter than a slice are not cut further.
class Foreseen {
 public:
  Foreseen(const Candidate& candidate, const schedule::SimulationOptions& options)
      : candidate_(&candidate), options_(options), slices_{options.slice_bytes} {
    constexpr double kShorter = 4;
    if (candidate.cost == nullptr) return;
    cost_ = *candidate.cost;
    if (options.slots > 0)
      cost_ = cost_.with_network_slots(options.network_slots > 0 ? options.network_slots : options.slots);
    const double chunk = cost_.chunk_per_byte * options.bytes;
    if (options.slice_bytes > 0)
      for (const double slice : {options.slice_bytes / kShorter, cost_.good_slice(options.bytes, options.slice_bytes)})
        if (slice < std::min(chunk, slices_.back())) slices_.push_back(slice);
    closed_.time_us = std::numeric_limits<double>::infinity();
    for (const double slice : slices_)
      if (const double us = cost_.time_us(options.bytes, slice); us < closed_.time_us) closed_ = {0, us, slice};
  }

  // By the closed form; a flat schedule has none, and then nothing is known, 0, before look_briefly().
  const Prediction& closed() const { return closed_; }

  // By which it is looked at, the shortest first.
  double promised_us() const {
    return closed_.time_us * (by_time_of_slices() ? kOfSlicesNext : by_time() ? kByTimeFirst : 1);
  }

  // Takes the time of a part of the bytes for what is foreseen of all.
  void look_briefly() {
    schedule::SimulationOptions part = options_;
    part.bytes *= kBriefly;
    closed_ = {0, schedule::simulate(*candidate_->schedule, part).time_us / kBriefly, options_.slice_bytes};
  }
  double slices() const { return slices_in_all(candidate_->schedule, options_); }
  bool has_closed() const { return candidate_->cost != nullptr; }

  std::size_t sends() const { return candidate_->schedule.sends(); }

  bool by_time() const { return has_order(candidate_->schedule.steps()); }
  bool by_time_of_slices() const { return candidate_->schedule.steps() == Steps::by_time_of_slices; }
  bool of_blocks() const { return cost_.own_connections; }
  // Its closed form is no guess: it is fitted to simulations (composites/even_tree_candidates.h).
  bool fitted() const { return candidate_->composite && (*candidate_->composite)->hosts.size() == 1; }
  // With fewer sends it takes no long time to simulate others, too.
  bool comes_first() const { return fitted() && sends() >= kManySends; }
  bool has_near_ports() const {
    return candidate_->composite && std::ranges::any_of((*candidate_->composite)->hosts, [](const auto& host) {
             return std::ranges::any_of(host.near, [](const auto& ports) { return !ports.empty(); });
           });
  }

  // Of a flat schedule that is not simulated.
  Prediction guess() const {
    const int slices =
        options_.slice_bytes > 0 ? std::max(1, static_cast<int>(options_.bytes / options_.slice_bytes)) : 1;
    return {0, std::max(busy_us(), schedule::linear_cost(*candidate_->schedule, slices).time_us(options_.bytes)),
            options_.slice_bytes};
  }

  // No simulated time is shorter.
  double busy_us() const { return schedule::busiest_us_per_byte(*candidate_->schedule) * options_.bytes; }

  // The same of a composite, by its closed form: hardly ever less, and the flat form is not needed.
  double closed_busy_us() const { return cost_.busy_us(options_.bytes); }

  // A composite that takes longer than `limit_us` gets a guess above it. Adds to `work` what that took.
  Prediction simulated(double limit_us, double& work) const {
    const schedule::Simulator simulator(*candidate_->schedule);
    work += work_of_form();
    Prediction best{0, std::numeric_limits<double>::infinity(), 0};
    const auto simulate = [&](double slice) {
      const double us = time_us(simulator, slice, std::min(limit_us, best.time_us), work);
      if (us < best.time_us) best = {0, us, slice};
    };
    // The most promising first: a simulation of the others stops at its time.
    simulate(first_slice());
    if (by_time_of_slices()) return best;
    for (const double slice : slices_)
      if (slice != first_slice()) simulate(slice);
    return best;
  }

  // Of the most promising simulation, if it runs to the end.
  double least_work() const { return work_of_form() + std::min(kMostSimulatedSlices, simulated_slices(first_slice())); }

  // Whether a simulation, of a part of the bytes at least, takes a short time. If not, the flat form is not needed.
  bool may_be_simulated() const { return static_cast<double>(sends()) <= kMostSimulatedSlices; }

  // Whether both have the same predictions: between two hosts all shapes are one. Without the flat forms: as far as the
  // composites tell.
  bool alike(const Foreseen& other) const {
    return may_be_same(other) && candidate_->schedule.steps() == other.candidate_->schedule.steps() &&
           compose::same_sends(**candidate_->composite, **other.candidate_->composite);
  }
  bool same(const Foreseen& other) const {
    const FlatForm& a = candidate_->schedule;
    const FlatForm& b = other.candidate_->schedule;
    return may_be_same(other) && a->steps == b->steps && a->sends == b->sends;
  }

 private:
  // The one that is simulated first. Chunks in an order by time that are cut into slices queue as in any other order.
  double first_slice() const { return has_closed() && !by_time() ? closed_.slice_bytes : slices_.front(); }

  double work_of_form() const {
    return (by_time() ? kWorkOfOrder : kWorkOfFlatForm) * static_cast<double>(candidate_->schedule.sends());
  }

  bool may_be_same(const Foreseen& other) const {
    const FlatForm& a = candidate_->schedule;
    const FlatForm& b = other.candidate_->schedule;
    return has_closed() && other.has_closed() &&
           (closed_.time_us == other.closed_.time_us || is_simulated(slices_.back())) && slices_ == other.slices_ &&
           a.chunks() == b.chunks() && a.sends() == b.sends();
  }

  FlatSize size() const { return {static_cast<double>(sends()), cost_.chunk_per_byte}; }

  double simulated_slices(double slice_bytes) const {
    schedule::SimulationOptions options = options_;
    options.slice_bytes = slice_bytes;
    return size().slices(options, kMostSlicesOfWhole, kSlicesOfParts);
  }
  bool is_simulated(double slice_bytes) const { return simulated_slices(slice_bytes) <= kMostSimulatedSlices; }

  double time_us(const schedule::Simulator& simulator, double slice_bytes, double limit_us, double& work) const {
    schedule::SimulationOptions options = options_;
    options.slice_bytes = slice_bytes;
    if (candidate_->cost == nullptr) {
      const double part = std::min(1.0, kMostSlicesOfOne / slices());
      options.bytes *= part;
      options.stop_after_us = limit_us * part;
      const schedule::Simulation run = simulator.run(options);
      const double us = run.time_us / part;
      return run.stopped ? std::max(limit_us, us) : us;
    }
    options.stop_after_us = limit_us;
    const double closed_us = cost_.time_us(options.bytes, slice_bytes);
    if (!is_simulated(slice_bytes)) return closed_us;
    const SimulatedTime time = size().time(simulator, options, kMostSlicesOfWhole, kSlicesOfParts);
    work += time.slices;
    return time.stopped ? std::max(closed_us, time.us) : time.us;
  }

  const Candidate* candidate_;
  compose::Cost cost_;  // with the slots of `options_`; used only if the candidate has one
  schedule::SimulationOptions options_;
  std::vector<double> slices_;
  Prediction closed_;
};

// Predicts one candidate after another, the most promising first.
class Predictor {
 public:
  Prediction predict(const Foreseen& one) {
    if (!one.has_closed()) return predict_flat(one);
    composites_ = true;
    const double closed_us = one.closed().time_us;
    const double hopeless = one.by_time() ? kHopelessByTime : one.of_blocks() ? kHopelessOfBlocks : kHopeless;
    if (closed_us >= hopeless * least_us_) return one.closed();
    if (!one.may_be_simulated()) {
      least_us_ = std::min(least_us_, closed_us);
      return one.closed();
    }
    const Prediction worse{0, std::max(closed_us, least_us_ * (1 + kSame)), one.closed().slice_bytes};
    if (one.by_time_of_slices() && least_us_ < kQueuesMuch * one.closed_busy_us()) return worse;
    if (gains_little(one) || (!one.of_blocks() && one.closed_busy_us() >= kGoodEnough * least_us_)) return worse;
    const auto twin = std::ranges::find_if(simulated_, [&](const auto& known) { return one.alike(*known.first); });
    if (too_busy(twin != simulated_.end() ? *twin->first : one)) return worse;
    if (twin != simulated_.end()) return twin->second;
    for (const auto& [known, prediction] : simulated_)
      if (known->same(one)) return prediction;
    const Prediction prediction = one.simulated(least_us_, work_);
    least_us_ = std::min(least_us_, prediction.time_us);
    if (one.by_time()) {
      --of(one).left;
      of(one).least_us = std::min(of(one).least_us, prediction.time_us);
    }
    if (one.fitted()) fitted_us_ = std::min(fitted_us_, prediction.time_us);
    simulated_.emplace_back(&one, prediction);
    return prediction;
  }

 private:
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

  // Without composites all are simulated to the end if that takes no long time: few ranks, and people compare them.
  Prediction predict_flat(const Foreseen& one) {
    const bool brief = one.closed().time_us > 0;
    if (!composites_ && !brief) return one.simulated(std::numeric_limits<double>::infinity(), work_);
    if (one.busy_us() >= kGoodEnough * least_us_)
      return brief ? Prediction{0, std::max(one.closed().time_us, least_us_ * (1 + kSame)), one.closed().slice_bytes}
                   : one.guess();
    const Prediction prediction = one.simulated(least_us_, work_);
    least_us_ = std::min(least_us_, prediction.time_us);
    return prediction;
  }

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

using AllForeseen = std::vector<std::pair<std::size_t, Foreseen>>;

// What simulations have shown, then by the closed form, and of forms of one composite that with an order by time; what
// has no closed form last.
bool is_before(const Foreseen& a, const Foreseen& b) {
  if (a.has_closed() != b.has_closed()) return a.has_closed();
  if (a.comes_first() != b.comes_first()) return a.comes_first();
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
      return !one.second.has_closed() || one.second.comes_first() != fastest.comes_first() ||
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

bool by_levels_alone(const topology::Topology& topology) {
  if (topology.ranks <= kMostFlatRanks || !on_a_network(topology)) return false;
  const topology::Cluster cluster = topology::cluster_of(topology);
  return cluster.hosts.size() > 1 && std::any_of(cluster.attachments.begin(), cluster.attachments.end(),
                                                 [](const auto& one) { return one.attached(); });
}

std::span<const std::string_view> kinds() {
  static constexpr std::string_view names[] = {"trees",   "hybrid", "three-phase", "rings",
                                               "detours", "synth",  kEvenTrees,    "levels"};
  return names;
}

bool answers_to(std::string_view name, std::string_view algorithm) {
  return name == algorithm || name.substr(0, name.find('+')) == algorithm ||
         name.substr(0, name.find_first_of(" /")) == algorithm;
}

std::vector<Candidate> candidates(const topology::Topology& topology, Collective collective, Rank root,
                                  std::string_view asked) {
  std::unique_ptr<ClusterPlanner> planner;
  return candidates(topology, collective, root, asked, planner);
}

std::vector<Candidate> candidates(const topology::Topology& topology, Collective collective, Rank root,
                                  std::string_view asked, std::unique_ptr<ClusterPlanner>& planner) {
  if (root < 0 || root >= topology.ranks)
    fail(ErrorCode::invalid_argument, "root {} is not one of the ranks 0..{} of topology '{}'", root,
         topology.ranks - 1, topology.name);
  std::vector<Candidate> result;
  const bool network = on_a_network(topology);
  if (network && (by_levels_alone(topology) || !topology::joined(topology))) {
    add_levels(result, topology, collective, root, planner);
    return result;
  }
  add_planners(result, topology, collective, root);
  if (result.empty())
    fail(ErrorCode::invalid_argument,
         "topology '{}': {} has no schedule, since some rank cannot reach another: add links", topology.name,
         info(collective).call_name);
  if (auto schedule = detours(topology, collective, root))
    result.push_back({"detours", Origin::planner, *std::move(schedule), 1});
  if (network) add_levels(result, topology, collective, root, planner);
  const bool levels = !result.empty() && result.back().origin == Origin::levels;
  const bool packed = asked.starts_with("trees") || asked.starts_with("hybrid");
  if (!levels || packed || topology.ranks <= kMostPackedClusterRanks) {
    const bool quick = levels && !packed && topology.ranks > kMostPackedRoots && !info(collective).rooted;
    add_trees(result, topology, collective, root, quick ? TreeKinds::quick : TreeKinds::all);
  }
  add_synthesized(result, topology, collective, root, levels ? kNetworkConflicts : kAllConflicts);
  for (const Candidate& candidate : result)
    if (candidate.origin != Origin::levels) schedule::verify(*candidate.schedule);  // those are proved by composition
  return result;
}

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
  std::vector<Prediction> predictions;
  Predictor predictor;
  for (const auto& [index, one] : foreseen) {
    try {
      Prediction prediction = predictor.predict(one);
      prediction.candidate = index;
      predictions.push_back(prediction);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
    }
  }
  // Equal times in the order of the candidates.
  std::sort(predictions.begin(), predictions.end(),
            [](const Prediction& a, const Prediction& b) { return a.candidate < b.candidate; });
  std::stable_sort(predictions.begin(), predictions.end(),
                   [](const Prediction& a, const Prediction& b) { return a.time_us < b.time_us; });
  return predictions;
}

}  // namespace sccl::portfolio
