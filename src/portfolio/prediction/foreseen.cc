#include "portfolio/prediction/foreseen.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "compose/lowering/expand.h"
#include "schedule/simulation/cost.h"

namespace sccl::portfolio {
namespace {

constexpr double kShorter = 4;                   // slices
constexpr double kMostSimulatedSlices = 400000;  // of composites, whose closed form is a good estimate
// In an order by time the first size of slices is mostly the best.
constexpr double kMostSlicesOfOther = 260000;
constexpr double kMostSlicesOfWhole = 150000;  // of a composite in more slices parts are simulated,
constexpr double kSlicesOfParts = 60000;       // of about so many
// The same of the fastest composite.
constexpr double kMostSlicesOfFirst = 300000;
constexpr double kSlicesOfLongParts = 240000;
// Chunks in the order of frames queue more, which the closed form does not know: the order by time comes first where
// its closed form is no longer than the other one divided by this. Simulations of the others then end soon.
constexpr double kByTimeFirst = 0.99;
// Copies in chunks of several slices queue in such an order all the same: an AllGather of 256 MiB on 2*mi250x took 1.15
// times the bound in 16 frames, in 32 frames, whose chunks are a slice, 1.06.
constexpr double kQueues = 1.1;
constexpr double kOfSlicesNext = 0.995;    // then orders for chunks of a whole slice
constexpr double kIslandsFirst = 0.99;     // little passes between their sockets, where chunks of others queue
constexpr std::size_t kManySends = 10000;  // of even trees: simulated first
// An order by time for data of one root whose closed form takes so many times the busiest link: latencies are a good
// part of it, and chunks wait for slots. Of 18 such calls on the presets it was the best of none, and each order takes
// a tenth of a second.
constexpr double kOfLatencies = 1.28;
// Of a flat form and its simulator for each send, and of an order with it, as so many simulated slices.
constexpr double kWorkOfFlatForm = 2;
constexpr double kWorkOfOrder = 6;
constexpr double kBriefly = 1.0 / 32;  // this part of flat schedules is simulated where all together are long
// A flat schedule of more slices is simulated for a part of the bytes, and takes in proportion.
constexpr double kMostSlicesOfOne = 1 << 20;

double slices_in_all(const FlatForm& schedule, const schedule::SimulationOptions& options) {
  const auto sends = static_cast<double>(schedule.sends());
  if (options.slice_bytes <= 0) return sends;
  return sends * std::max(1.0, options.bytes / schedule.chunks_per_rank() / options.slice_bytes);
}

}  // namespace

Foreseen::Foreseen(const Candidate& candidate, const schedule::SimulationOptions& options)
    : candidate_(&candidate), options_(options), slices_{options.slice_bytes} {
  if (candidate.cost == nullptr) return;
  cost_ = *candidate.cost;
  if (options.slots > 0)
    cost_ = cost_.with_slots(options.short_slots > 0 ? options.short_slots : options.slots,
                             options.network_slots > 0 ? options.network_slots : options.slots);
  const double chunk = cost_.chunk_per_byte * options.bytes;
  if (options.slice_bytes > 0)
    for (const double slice : {options.slice_bytes / kShorter, cost_.good_slice(options.bytes, options.slice_bytes)})
      if (slice < std::min(chunk, slices_.back())) slices_.push_back(slice);
  closed_.time_us = std::numeric_limits<double>::infinity();
  for (const double slice : slices_)
    if (const double us = cost_.time_us(options.bytes, slice); us < closed_.time_us) closed_ = {0, us, slice};
}

double Foreseen::promised_us() const {
  const double order = by_time_of_slices() ? kOfSlicesNext : by_time() ? kByTimeFirst : 1;
  const bool copies_alone = queues() && (*candidate_->composite)->collective != Collective::allreduce;
  return closed_.time_us * order * (of_islands() ? kIslandsFirst : 1) * (copies_alone ? kQueues : 1);
}

void Foreseen::look_briefly() {
  schedule::SimulationOptions part = options_;
  part.bytes *= kBriefly;
  closed_ = {0, schedule::simulate(*candidate_->schedule, part).time_us / kBriefly, options_.slice_bytes};
}

double Foreseen::slices() const { return slices_in_all(candidate_->schedule, options_); }

// With fewer sends it takes no long time to simulate others before even trees.
Turn Foreseen::turn() const {
  if (fitted()) return sends() >= kManySends ? Turn::first : Turn::usual;
  const bool waits = by_time() && passes_whole((*candidate_->composite)->collective) &&
                     closed_.time_us > kOfLatencies * closed_busy_us();
  return waits ? Turn::last : Turn::usual;
}

bool Foreseen::has_near_ports() const {
  return candidate_->composite && std::ranges::any_of((*candidate_->composite)->hosts, [](const auto& host) {
           return std::ranges::any_of(host.near, [](const auto& ports) { return !ports.empty(); });
         });
}

bool Foreseen::queues() const {
  if (!by_time()) return false;
  const Collective collective = (*candidate_->composite)->collective;
  const bool sums_alone = collective == Collective::reduce || collective == Collective::reducescatter;
  return !sums_alone && options_.slice_bytes > 0 && cost_.chunk_per_byte * options_.bytes > options_.slice_bytes;
}

Prediction Foreseen::guess() const {
  const int slices =
      options_.slice_bytes > 0 ? std::max(1, static_cast<int>(options_.bytes / options_.slice_bytes)) : 1;
  return {0, std::max(busy_us(), schedule::linear_cost(*candidate_->schedule, slices).time_us(options_.bytes)),
          options_.slice_bytes};
}

double Foreseen::busy_us() const { return schedule::busiest_us_per_byte(*candidate_->schedule) * options_.bytes; }

Prediction Foreseen::simulated(double limit_us, double& work) const {
  const std::vector<double> slices = simulated_slices();
  if (slices.empty()) return unless_cut();
  const schedule::Simulator simulator(*candidate_->schedule);
  work += work_of_form();
  Prediction best{0, std::numeric_limits<double>::infinity(), 0};
  for (const double slice : slices) {
    const double us = time_us(simulator, slice, std::min(limit_us, best.time_us), work);
    if (us < best.time_us) best = {0, us, slice};
    if (by_time_of_slices()) break;
  }
  return best;
}

// By the closed form. It does not know that slices of frames' chunks wait for those of others: they are as long as they
// may be.
Prediction Foreseen::unless_cut() const {
  if (candidate_->frames <= 1) return closed_;
  return {0, cost_.time_us(options_.bytes, slices_.front()), slices_.front()};
}

// The most promising first: a simulation of the others stops at its time. What would be too many slices is no slice to
// choose: the closed form may tell half of what they take, as they wait for those of all other chunks.
std::vector<double> Foreseen::simulated_slices() const {
  if (!has_closed()) return slices_;
  std::vector<double> result;
  for (const double slice : slices_) {
    const double most = by_time() && slice != first_slice() ? kMostSlicesOfOther : kMostSimulatedSlices;
    if (number_of_slices(slice) <= most) result.push_back(slice);
  }
  const auto promised = [&](double slice) { return slice == first_slice() ? 0 : cost_.time_us(options_.bytes, slice); };
  std::ranges::stable_sort(result, {}, promised);
  return result;
}

bool Foreseen::is_foreseen_by_part(double slice_bytes) const {
  if (!has_closed() || !is_simulated(slice_bytes)) return false;
  schedule::SimulationOptions options = options_;
  options.slice_bytes = slice_bytes;
  return number_of_slices(slice_bytes) < size().slices(options, kMostSlicesOfFirst, kSlicesOfLongParts);
}

double Foreseen::longer_us(double slice_bytes) const {
  schedule::SimulationOptions options = options_;
  options.slice_bytes = slice_bytes;
  options.stop_after_us = std::numeric_limits<double>::infinity();
  return size().time(schedule::Simulator(*candidate_->schedule), options, kMostSlicesOfFirst, kSlicesOfLongParts).us;
}

double Foreseen::least_work() const {
  return work_of_form() + std::min(kMostSimulatedSlices, number_of_slices(first_slice()));
}

bool Foreseen::may_be_simulated() const { return static_cast<double>(sends()) <= kMostSimulatedSlices; }

// Orders by time follow from sends alone, and are simulated in slices of the wanted size first.
bool Foreseen::alike(const Foreseen& other) const {
  if (!has_closed() || !other.has_closed()) return false;
  const FlatForm& a = candidate_->schedule;
  const FlatForm& b = other.candidate_->schedule;
  const bool may_be = by_time() ? a.chunks() == b.chunks() && a.sends() == b.sends() : may_be_same(other);
  return may_be && a.steps() == b.steps() &&
         compose::same_sends(**candidate_->composite, **other.candidate_->composite);
}

bool Foreseen::same(const Foreseen& other) const {
  const FlatForm& a = candidate_->schedule;
  const FlatForm& b = other.candidate_->schedule;
  return may_be_same(other) && a->steps == b->steps && a->sends == b->sends;
}

double Foreseen::work_of_form() const {
  return (by_time() ? kWorkOfOrder : kWorkOfFlatForm) * static_cast<double>(candidate_->schedule.sends());
}

bool Foreseen::may_be_same(const Foreseen& other) const {
  const FlatForm& a = candidate_->schedule;
  const FlatForm& b = other.candidate_->schedule;
  return has_closed() && other.has_closed() &&
         (closed_.time_us == other.closed_.time_us || is_simulated(slices_.back())) && slices_ == other.slices_ &&
         a.chunks() == b.chunks() && a.sends() == b.sends();
}

double Foreseen::number_of_slices(double slice_bytes) const {
  schedule::SimulationOptions options = options_;
  options.slice_bytes = slice_bytes;
  return size().slices(options, kMostSlicesOfWhole, kSlicesOfParts);
}

bool Foreseen::is_simulated(double slice_bytes) const { return number_of_slices(slice_bytes) <= kMostSimulatedSlices; }

double Foreseen::time_us(const schedule::Simulator& simulator, double slice_bytes, double limit_us,
                         double& work) const {
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
  const SimulatedTime time = size().time(simulator, options, kMostSlicesOfWhole, kSlicesOfParts);
  work += time.slices;
  return time.stopped ? std::max(cost_.time_us(options.bytes, slice_bytes), time.us) : time.us;
}

}  // namespace sccl::portfolio
