#include "platform/host/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "platform/host/fences.h"

namespace sccl::host {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

// Not the private form of futex: the word lies in memory shared between processes.
void futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value, const timespec* limit) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation, value, limit, nullptr, 0);
}

}  // namespace

void Doorbell::wake() {
  // `sleeping` is cleared before the word changes (release). A sleeper that finds the word changed announces its next
  // sleep after this store. Otherwise this store could hide that announcement from other ringers.
  sleeping.store(0, std::memory_order_relaxed);
  // Pairs with the futex's own comparison in sleep(): a sleeper that does not wait yet finds the word changed.
  word.fetch_add(1, std::memory_order_release);
  futex(&word, FUTEX_WAKE, INT_MAX, nullptr);
}

std::uint32_t Doorbell::prepare_sleep() {
  const std::uint32_t seen = word.load(std::memory_order_acquire);
  sleeping.store(1, std::memory_order_relaxed);
  heavy_fence();  // pairs with the ringer's light fence
  return seen;
}

void Doorbell::sleep(std::uint32_t seen, std::chrono::microseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  timespec span{};
  span.tv_sec = seconds.count();
  span.tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(limit - seconds).count();
  futex(&word, FUTEX_WAIT, seen, &span);
  cancel_sleep();
}

}  // namespace sccl::host
