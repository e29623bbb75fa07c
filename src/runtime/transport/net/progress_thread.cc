#include "runtime/transport/net/progress_thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/os/thread.h"

namespace sccl::runtime {
namespace {

// While calls follow one another: this thread's looks take the processor from the rank's thread, so they become rare.
constexpr int kLeastLookMs = 1;
constexpr int kMostLookMs = 8;
constexpr int kUnderWayMs = 10;  // with an engine that tells of news
constexpr int kSettledMs = 200;
constexpr int kMostBackOffMs = 5;  // with one that does not
constexpr int kShortPasses = 64;   // before it backs off

}  // namespace

ProgressThread::ProgressThread(Work work) : work_(std::move(work)), kicks_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!kicks_.valid()) fail_errno(errno, "making an event descriptor", "raise the limit on open files (ulimit -n)");
  thread_ = start_thread([this] { run(); });
}

ProgressThread::~ProgressThread() {
  stop_.store(true, std::memory_order_release);  // pairs with run()
  kick();
  thread_.join();
}

// The word comes first: this thread looks at it before it takes the lock again.
void ProgressThread::enter() {
  // A hint, which pairs with run(). One thread at a time makes calls: it need not be counted in one step.
  entries_.store(entries_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  taken_.store(true, std::memory_order_release);  // pairs with run()
  engine_.lock();
}

void ProgressThread::leave(Left left) {
  taken_.store(false, std::memory_order_release);  // pairs with run()
  engine_.unlock();
  if (left == Left::nothing) return;
  urgent_.store(true, std::memory_order_release);  // pairs with run()
  kick();
}

void ProgressThread::sleep() { leave(Left::work); }

void ProgressThread::wake() {
  taken_.store(true, std::memory_order_release);  // pairs with run()
  engine_.lock();
}

void ProgressThread::kick() {
  const std::uint64_t one = 1;
  while (::write(kicks_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void ProgressThread::nap(int milliseconds, bool with_engine) {
  std::array<pollfd, 2> descriptors{{{kicks_.get(), POLLIN, 0}, {work_.descriptor, POLLIN, 0}}};
  const nfds_t count = with_engine && work_.descriptor >= 0 ? 2 : 1;
  if (::poll(descriptors.data(), count, milliseconds) > 0 && descriptors[0].revents != 0) {
    std::uint64_t kicks = 0;
    while (::read(kicks_.get(), &kicks, sizeof kicks) < 0 && errno == EINTR) {
    }
  }
}

void ProgressThread::run() {
  if (work_.begin) work_.begin();
  std::uint64_t seen = ~std::uint64_t{0};
  int idle = 0;
  int look_ms = kLeastLookMs;
  while (!stop_.load(std::memory_order_acquire)) {  // pairs with the destructor
    const std::uint64_t entries = entries_.load(std::memory_order_relaxed);
    const bool recent = std::exchange(seen, entries) != entries;
    const bool urgent = urgent_.exchange(false, std::memory_order_acq_rel);  // pairs with leave()
    if (taken_.load(std::memory_order_acquire) || (recent && !urgent)) {     // pairs with enter(), wake()
      nap(look_ms, false);
      look_ms = recent ? std::min(2 * look_ms, kMostLookMs) : kLeastLookMs;
      continue;
    }
    look_ms = kLeastLookMs;
    Pass pass = Pass::settled;
    bool sleeps = false;
    {
      const std::lock_guard lock(engine_);
      if (taken_.load(std::memory_order_acquire)) continue;  // pairs with enter(), wake()
      pass = work_.pass();
      sleeps = pass != Pass::moved && work_.descriptor >= 0 && !work_.busy && work_.may_sleep();
    }
    if (pass == Pass::moved) {
      work_.wake();
      idle = 0;
    } else if (work_.busy && work_.busy()) {
      std::this_thread::yield();
    } else if (work_.descriptor >= 0 && !work_.busy) {
      if (sleeps) nap(pass == Pass::waits ? kUnderWayMs : kSettledMs, true);
    } else if (++idle < kShortPasses && pass == Pass::waits) {
      std::this_thread::yield();
    } else {
      nap(std::min(1 + idle / kShortPasses, kMostBackOffMs), false);
    }
  }
}

}  // namespace sccl::runtime
