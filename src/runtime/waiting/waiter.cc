#include "runtime/waiting/waiter.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/settings/env.h"

namespace sccl::runtime {
namespace {

// A poll of a few lanes and its pause take some 50 ns.
constexpr std::int64_t kPollsPerMicrosecond = 20;
constexpr std::int64_t kSpinUs = 50;
// With more ranks than cores, the awaited peer mostly has no core. So a rank gives up its own core at once.
constexpr std::int64_t kCrowdedSpinPolls = 1;
constexpr long kNapNs = 50000;
// A yield to nobody takes a fraction of a microsecond. A thread that waits for messages gives the core back after some
// microseconds, one that computes keeps it for its whole turn of the scheduler: no core is given to that one early.
constexpr std::chrono::microseconds kYieldToNobody{2};
constexpr std::chrono::microseconds kYieldToWaiting{200};

}  // namespace

// If this process may use a single core only, a launcher has probably given every rank a core of its own; then all
// cores of the host count.
int Waiter::cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int mine = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return mine > 1 ? mine : std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

Waiter::Waiter(int ranks_on_host) {
  const bool crowded = ranks_on_host > cores();
  const std::int64_t asked_us = env::number("SCCL_SPIN_US", -1, -1, 1000000);
  if (asked_us >= 0)
    memory_spin_polls_ = static_cast<int>(asked_us * kPollsPerMicrosecond) + 1;
  else
    memory_spin_polls_ = static_cast<int>(crowded ? kCrowdedSpinPolls : kSpinUs * kPollsPerMicrosecond);
  lone_spin_polls_ = spin_polls_ = memory_spin_polls_;
}

void Waiter::yield() { ::sched_yield(); }

void Waiter::yield_and_watch() {
  const Clock::time_point before = Clock::now();
  yield();
  const Clock::duration away = Clock::now() - before;
  shares_core_ = away > kYieldToNobody && away < kYieldToWaiting;
  spin_polls_ = shares_core_ ? 1 : lone_spin_polls_;
}

void Waiter::nap() {
  const timespec span{0, kNapNs};
  ::nanosleep(&span, nullptr);
}

}  // namespace sccl::runtime
