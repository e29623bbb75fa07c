#include "runtime/control/calls.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/deadline.h"
#include "base/error.h"

namespace sccl::runtime {
namespace {

constexpr std::chrono::milliseconds kLateNews{300};

}  // namespace

void Calls::note_waits(std::span<const LaneWait> waits) {
  Activity& activity = members_.own().activity;
  if (activity.waits_since_us.load(std::memory_order_relaxed) == 0)
    activity.waits_since_us.store(monotonic_us(), std::memory_order_relaxed);
  for (std::size_t i = 0; i < activity.waits.size(); ++i)
    activity.waits[i].store(i < waits.size() ? waits[i].packed() : 0, std::memory_order_relaxed);
}

void Calls::forget_waits() {
  Activity& activity = members_.own().activity;
  activity.waits_since_us.store(0, std::memory_order_relaxed);
  for (auto& wait : activity.waits) wait.store(0, std::memory_order_relaxed);
}

bool Calls::is_idle(Rank rank) const {
  const Activity& activity = members_.state(rank).activity;
  return entered(rank) == activity.completed.load(std::memory_order_relaxed) &&
         activity.transfers.load(std::memory_order_relaxed) == 0;
}

std::string Calls::text(Rank rank) const {
  const Activity& activity = members_.state(rank).activity;
  if (activity.transfers.load(std::memory_order_relaxed) != 0) return "a group of Send and Recv";
  const std::uint64_t sequence = entered(rank);
  if (sequence == activity.completed.load(std::memory_order_relaxed)) return "";
  CallSignature call;
  return read(rank, sequence, call) ? call.text() : "a call";
}

std::vector<LaneWait> Calls::waits(Rank rank) const {
  std::vector<LaneWait> found;
  for (const auto& wait : members_.state(rank).activity.waits)
    if (const std::uint64_t packed = wait.load(std::memory_order_relaxed); packed != 0)
      found.push_back(LaneWait::unpacked(packed));
  return found;
}

double Calls::waits_seconds(Rank rank) const {
  const std::uint64_t since = members_.state(rank).activity.waits_since_us.load(std::memory_order_relaxed);
  return since == 0 ? 0.0 : static_cast<double>(monotonic_us() - since) * 1e-6;
}

void Calls::await_news(Rank rank, std::uint64_t sequence) const {
  if (members_.of(rank).locality != Locality::remote) return;
  const Deadline limit = Deadline::in(kLateNews);
  while (entered(rank) < sequence && !limit.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Calls::compare(Rank rank, const CallSignature& mine) const {
  CallSignature theirs;
  if (read(rank, mine.sequence, theirs) && !(theirs == mine))
    throw Error(ErrorCode::invalid_usage,
                mismatch_text(members_.named(members_.rank), mine, members_.named(rank), theirs));
}

void Calls::compare(Rank rank, std::uint64_t first, std::uint64_t last) const {
  const std::uint64_t kept = last > SharedState::kRecords ? last - SharedState::kRecords + 1 : 1;
  for (std::uint64_t sequence = std::max(first, kept); sequence <= last; ++sequence) {
    CallSignature mine;
    if (read(members_.rank, sequence, mine)) compare(rank, mine);
  }
}

}  // namespace sccl::runtime
