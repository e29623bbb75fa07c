#include "runtime/host/choosing/arrival_gate.h"

#include "base/settings/log.h"
#include "runtime/choice/tuning/size_class.h"
#include "runtime/control/arrivals.h"
#include "runtime/membership/message_time.h"
#include "runtime/waiting/waiter.h"

namespace sccl::runtime {
namespace {

// Fewer measured calls say too little.
constexpr double kLeastCalls = 8;
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

ArrivalGate::ArrivalGate(const Membership& membership)
    : membership_(membership), words_(&membership.control.arrival_words()) {}

bool ArrivalGate::is_open(Collective collective, std::size_t bytes, std::uint64_t sequence) const {
  const std::size_t group = group_of(collective, bytes);
  if (group == kGroups) return false;
  const Decision decision = Decision::of(words_->forms[group].load(std::memory_order_acquire));  // pairs with decide()
  return sequence > decision.until ? decision.now : decision.before;
}

void ArrivalGate::decide(const CallSignature& call) {
  if (membership_.rank != 0) return;
  ++measured_since_look_;
  if (measured_since_look_ < kMeasuredBetweenLooks || !needs_every_rank(call.collective)) return;
  measured_since_look_ = 0;
  const std::array<Measured, kGroups> all = measured();
  for (std::size_t group = 0; group < kGroups; ++group) decide(group, all[group], call.sequence);
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

// Measured on 2 cores, with N ranks, by
//
//   bench/arrival/run.sh --ranks N --forms chain --patterns none,mif=1,mif=2,mif=5,mif=10 --sizes 4096,65536,1048576
//   SCCL_ARRIVAL=FORM sccl perf all_reduce -n N -b 1K -e 4M -f 8 -c 0 -i 200
//
// 4 and 8 ranks: the chain's tails are 0.9 of the usual schedules' at 4 KiB and 0.4 to 0.74 of them from 64 KiB on,
// with every factor from none to 10. Calls without a pause take 0.55 to 1.0 of the time up to 512 KiB; at 4 MiB 4 ranks
// take 0.6 in place and 1.3 otherwise. So where ranks share cores, ranks need only be apart by more than chance. 2
// ranks: the tail at 4 KiB is 1.06 of the usual one, and a short call without a pause takes longer. So where each rank
// has a core, the paper's factor stays.
ArrivalGate::Threshold ArrivalGate::threshold() const {
  const bool share_cores = membership_.ranks > Waiter::cores();
  return share_cores ? Threshold{2, 1} : Threshold{10, 5};
}

void ArrivalGate::decide(std::size_t group, const Measured& now, std::uint64_t sequence) {
  Measured& known = known_[group];
  const double calls = now.calls - known.calls;
  if (calls < kLeastCalls) return;
  const double factor = (now.factors - known.factors) / calls;
  known = now;
  const Decision last = Decision::of(words_->forms[group].load(std::memory_order_relaxed));
  const Threshold least = threshold();
  const bool opens = factor >= (last.now ? least.closes : least.opens);
  if (opens == last.now) return;
  // Both stores pair with the loads of ranks that begin a later call.
  words_->forms[group].store(Decision{sequence, opens, last.now}.word(), std::memory_order_release);
  words_->latest.store(sequence, std::memory_order_release);
  log::info(log::Subsystem::tuning,
            "{}, after call {}: {} reduced by the ranks that are there: they come {:.1f} times "
            "the time of a message apart",
            text_of(group), sequence, opens ? "is" : "is no longer", factor);
}

}  // namespace sccl::runtime
