#include "runtime/host/choosing/arrival_gate.h"

#include <algorithm>
#include <limits>

#include "base/settings/log.h"
#include "runtime/choice/tuning/size_class.h"
#include "runtime/control/arrivals.h"
#include "runtime/membership/message_time.h"
#include "runtime/waiting/waiter.h"

namespace sccl::runtime {
namespace {

// Fewer measured calls say too little.
constexpr double kLeastCalls = 8;
// So much of a call's time must be saved: less is chance.
constexpr double kPays = 0.93;
// Ranks that are so many times further apart than at the last trial may need another form.
constexpr double kMuchFurther = 4;
// Of each part of a call's cost counts at most so much: more than any call takes whose ranks come together and have
// cores.
constexpr double kMostUs = 50;
constexpr double kMostMessages = 4;  // for each rank
// Where ranks share cores, and where each rank has one.
constexpr ArrivalGate::Threshold kSharedCores{2, 1};
constexpr ArrivalGate::Threshold kOwnCores{10, 5};
constexpr std::array kCollectives{Collective::allreduce, Collective::reduce, Collective::reducescatter};
// Bytes of the longest call of a range; the last range has no end.
constexpr std::array<std::size_t, 2> kRanges{16384, 262144};
static_assert(kCollectives.size() * (kRanges.size() + 1) == ArrivalWords::kGroups);

// ArrivalWords::kGroups for collectives that do not reduce.
std::size_t group_of(Collective collective, std::size_t bytes) {
  const auto at = std::find(kCollectives.begin(), kCollectives.end(), collective);
  if (at == kCollectives.end()) return ArrivalWords::kGroups;
  const auto range = std::lower_bound(kRanges.begin(), kRanges.end(), bytes) - kRanges.begin();
  return static_cast<std::size_t>((at - kCollectives.begin()) * static_cast<long>(kRanges.size() + 1) + range);
}

std::string text_of(std::size_t group) {
  const std::size_t range = group % (kRanges.size() + 1);
  const std::string_view name = info(kCollectives[group / (kRanges.size() + 1)]).call_name;
  return range < kRanges.size() ? fmt::format("{} of up to {} bytes", name, kRanges[range])
                                : fmt::format("{} of more than {} bytes", name, kRanges.back());
}

// A decision in one word: the last call of the earlier form, the form since then, the form before.
struct Decision {
  std::uint64_t until = 0;
  bool now = false;
  bool before = false;

  static Decision of(std::uint64_t word) { return {word >> 2, (word & 2) != 0, (word & 1) != 0}; }
  std::uint64_t word() const { return until << 2 | (now ? 2u : 0u) | (before ? 1u : 0u); }
};

// No rank ends such a call before it has data of every rank.
bool needs_every_rank(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::allgather ||
         collective == Collective::reducescatter || collective == Collective::alltoall;
}

}  // namespace

ArrivalGate::ArrivalGate(const Membership& membership, Clock clock)
    : membership_(membership),
      clock_(clock),
      words_(&membership.control.arrival_words()),
      over_hosts_(membership.hosts.are_several()
                      ? std::make_unique<OverHosts>(
                            OverHosts{ArrivalAgreement(words_->agreed), ArrivalCosts(membership.control.members()), {}})
                      : nullptr) {}

bool ArrivalGate::is_open(Collective collective, std::size_t bytes, std::uint64_t sequence) const {
  const std::size_t group = group_of(collective, bytes);
  if (group == kGroups) return false;
  if (over_hosts_) return over_hosts_->agreement.forms()[group];
  const Decision decision = Decision::of(words_->forms[group].load(std::memory_order_acquire));  // pairs with decide()
  return sequence > decision.until ? decision.now : decision.before;
}

bool ArrivalGate::settle(const CallSignature& call) {
  if (!over_hosts_ || !over_hosts_->agreement.is_due(call.sequence) || !needs_every_rank(call.collective)) return true;
  if (membership_.rank == 0) decide_over_hosts(call.sequence);
  return over_hosts_->agreement.settle(call.sequence);
}

void ArrivalGate::decide(const CallSignature& call) {
  if (membership_.rank != 0) return;
  if (over_hosts_) return decide_over_hosts(call.sequence);
  ++measured_since_look_;
  if (measured_since_look_ < kMeasuredBetweenLooks || !needs_every_rank(call.collective)) return;
  measured_since_look_ = 0;
  look_at_all(call.sequence);
}

void ArrivalGate::decide_over_hosts(std::uint64_t sequence) {
  if (!over_hosts_->agreement.may_decide(sequence)) return;
  look_at_all(sequence);
  over_hosts_->agreement.decide(over_hosts_->wanted, sequence, clock_());
  membership_.control.bells().wake_all();
}

void ArrivalGate::look_at_all(std::uint64_t sequence) {
  const std::array<Measured, kGroups> all = measured();
  for (std::size_t group = 0; group < kGroups; ++group) {
    Look found = look(group, all[group]);
    if (over_hosts_) found = look_over_hosts(group, found);
    if (found.calls > 0) decide(group, found.factor, sequence);
  }
}

ArrivalGate::Look ArrivalGate::look(std::size_t group, const Measured& now) {
  Measured& known = groups_[group].known;
  const double calls = now.calls - known.calls;
  if (calls < kLeastCalls) return {};
  const Look found{calls, (now.factors - known.factors) / calls};
  known = now;
  return found;
}

// `here`: of this host alone.
ArrivalGate::Look ArrivalGate::look_over_hosts(std::size_t group, const Look& here) {
  std::vector<ArrivalCosts::Sums>& looked = groups_[group].looked;
  double calls = 0;
  double least = std::numeric_limits<double>::max();
  double most = 0;
  for (const ArrivalCosts::Sums& sums : over_hosts_->costs.since(looked, group)) {
    const double of_rank = sums[0].calls + sums[1].calls;
    if (of_rank < kLeastCalls) continue;
    calls = std::max(calls, of_rank);
    const double mean = (sums[0].messages + sums[1].messages) / of_rank;
    least = std::min(least, mean);
    most = std::max(most, mean);
  }
  if (calls < kLeastCalls) return {};
  looked = over_hosts_->costs.seen(group);
  return {calls, std::max(here.factor, most - least)};
}

std::array<ArrivalGate::Measured, ArrivalGate::kGroups> ArrivalGate::measured() const {
  std::array<Measured, kGroups> all{};
  for (const ArrivalReport::Kind& kind : measured_arrivals(membership_.control.members())) {
    const std::size_t bytes = SizeClass{kind.kind.size_class}.typical_bytes();
    const std::size_t group = group_of(kind.kind.collective, bytes);
    const double message = message_us(membership_, bytes);
    if (group == kGroups || !(message > 0)) continue;
    all[group].calls += static_cast<double>(kind.calls);
    all[group].factors += static_cast<double>(kind.calls) * kind.spread_us / message;
  }
  return all;
}

// Where ranks share cores, ranks that come by chance are apart by as much, and a trial pays as soon: the paper's chain
// also lets those work that have a core. Where each rank has a core of its own it is the paper's factor.
ArrivalGate::Threshold ArrivalGate::threshold() const {
  const bool share_cores = membership_.ranks_on_this_host() > Waiter::cores();
  return share_cores ? kSharedCores : kOwnCores;
}

void ArrivalGate::note_left(const Left& left) {
  const std::size_t group = group_of(left.collective, left.bytes);
  const double message = message_us(membership_, left.bytes);
  if (group == kGroups || !(message > 0)) return;
  // Over hosts the parts are one, and show how far apart ranks come, too.
  const double apart = over_hosts_ ? kOwnCores.opens * message : 0;
  const double most = kMostUs + kMostMessages * membership_.ranks * message + apart;
  const auto part = [&](std::uint64_t from, std::uint64_t to) {
    return std::min(static_cast<double>(to - std::min(from, to)) * 1e-3, most) / message;
  };
  if (over_hosts_) return over_hosts_->costs.add(group, left.by_arrival, part(left.entered_ns, left.left_ns));
  const double messages = part(left.entered_ns, left.last_arrival_ns) + part(left.last_arrival_ns, left.left_ns);
  Costs& costs = groups_[group].costs;
  ++costs.calls[left.by_arrival ? 1 : 0];
  costs.messages[left.by_arrival ? 1 : 0] += messages;
}

// Of a call in the trial; 0: there was none.
double ArrivalGate::cost(std::size_t group, std::size_t form) const {
  const Group& of = groups_[group];
  if (!over_hosts_) return of.costs.messages[form] / std::max(of.costs.calls[form], 1.0);
  double least = 0;
  for (const ArrivalCosts::Sums& sums : over_hosts_->costs.since(of.begun, group)) {
    if (sums[form].calls < kLeastCalls) continue;
    const double mean = sums[form].messages / sums[form].calls;
    if (least == 0 || mean < least) least = mean;
  }
  return least;
}

bool ArrivalGate::is_open_now(std::size_t group) const {
  if (over_hosts_) return over_hosts_->wanted[group];
  return Decision::of(words_->forms[group].load(std::memory_order_relaxed)).now;
}

void ArrivalGate::store(std::size_t group, bool opens, std::uint64_t sequence) {
  if (over_hosts_) {
    over_hosts_->wanted[group] = opens;
    return;
  }
  const bool before = is_open_now(group);
  if (opens == before) return;
  // Both stores pair with the loads of ranks that begin a later call.
  words_->forms[group].store(Decision{sequence, opens, before}.word(), std::memory_order_release);
  words_->latest.store(sequence, std::memory_order_release);
}

void ArrivalGate::decide(std::size_t group, double factor, std::uint64_t sequence) {
  Group& of = groups_[group];
  if (of.turns > 0) {
    if (--of.turns == 0) return end_trial(group, factor, sequence);
    return store(group, !is_open_now(group), sequence);
  }
  const Threshold least = threshold();
  if (of.rest > 0) --of.rest;
  if (is_open_now(group) && factor < least.closes) {
    log::info(
        log::Subsystem::tuning,
        "{}, after call {}: is no longer reduced by the ranks that are there: they come {:.1f} times the time of a "
        "message apart",
        text_of(group), sequence, factor);
    return store(group, false, sequence);
  }
  if (factor >= least.opens && (of.rest == 0 || factor >= kMuchFurther * of.tried_factor))
    begin_trial(group, factor, sequence);
}

void ArrivalGate::begin_trial(std::size_t group, double factor, std::uint64_t sequence) {
  Group& of = groups_[group];
  of.turns = kTurns;
  of.costs = {};
  if (over_hosts_) of.begun = over_hosts_->costs.seen(group);
  of.tried_factor = factor;
  store(group, !is_open_now(group), sequence);
}

void ArrivalGate::end_trial(std::size_t group, double factor, std::uint64_t sequence) {
  Group& of = groups_[group];
  const double usual = cost(group, 0);
  const double by_arrival = cost(group, 1);
  const bool both = usual > 0 && by_arrival > 0;
  const bool pays = both && by_arrival < kPays * usual;
  of.rest = pays ? kRestWhenOpen : of.next_rest;
  of.next_rest = pays ? kLeastRest : std::min(2 * of.next_rest, kMostRest);
  store(group, pays, sequence);
  if (both)
    log::info(log::Subsystem::tuning,
              "{}, after call {}: {} reduced by the ranks that are there: they come {:.1f} times the time of a message "
              "apart, and calls then take {:.2f} of their time",
              text_of(group), sequence, pays ? "is" : "is not", factor, by_arrival / usual);
}

}  // namespace sccl::runtime
