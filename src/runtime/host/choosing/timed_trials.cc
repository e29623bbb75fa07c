#include "runtime/host/choosing/timed_trials.h"

#include "base/error.h"
#include "base/monotonic.h"

namespace sccl::runtime {
namespace {

// The most trials whose times have not been read. A rank may be this many trials ahead of a rank that has not read the
// records of these trials yet.
constexpr std::size_t kMostPending = Trials::kKept / 2;
// The times of rooted calls become readable only after a call of another kind, which may never come.
constexpr std::size_t kMostRootedPending = 2;

}  // namespace

bool TimedTrials::may_begin(Collective collective) const {
  return pending_.size() < (info(collective).rooted ? kMostRootedPending : kMostPending);
}

void TimedTrials::begin(ChoiceEntry& entry, std::uint64_t call) {
  timed_ = true;
  pending_.push_back({&entry, call, ++count_});
  begin_ns_ = monotonic_ns();
}

void TimedTrials::note_end() {
  timed_ = false;
  control_.trials().publish(count_, begin_ns_, monotonic_ns());
}

std::optional<TimedTrials::Measured> TimedTrials::next(std::uint64_t call) {
  const bool readable = !pending_.empty() && pending_.front().call < last_joining_call_ && last_joining_call_ < call;
  if (!readable) return std::nullopt;
  const Measured trial = pending_.front();
  pending_.pop_front();
  return trial;
}

std::uint64_t TimedTrials::duration_ns(const Measured& trial) const {
  const auto span_ns = control_.trials().span_ns(trial.number);
  if (!span_ns)
    fail(ErrorCode::internal_error, "rank {} misses the times of trial {}: set SCCL_TUNE=off and report this",
         control_.members().rank, trial.number);
  return *span_ns;
}

}  // namespace sccl::runtime
