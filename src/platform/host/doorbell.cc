#include "platform/host/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#if defined(__SANITIZE_THREAD__)
#define SCCL_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SCCL_THREAD_SANITIZER 1
#endif
#endif

namespace sccl::host {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

// Not the private form: the word lies in memory shared between processes.
void futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value, const timespec* limit) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation, value, limit, nullptr, 0);
}

}  // namespace

void full_fence() {
#if defined(SCCL_THREAD_SANITIZER)
  // ThreadSanitizer knows no fences. A missed bell then only costs the time limit of one sleep.
  static thread_local std::atomic<int> line{0};
  line.exchange(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void Doorbell::wake() {
  // Pairs with the futex's own comparison in sleep(): a sleeper that has not begun to wait finds the word changed.
  word.fetch_add(1, std::memory_order_release);
  sleeping.store(0, std::memory_order_relaxed);
  futex(&word, FUTEX_WAKE, INT_MAX, nullptr);
}

std::uint32_t Doorbell::prepare_sleep() {
  const std::uint32_t seen = word.load(std::memory_order_acquire);
  sleeping.store(1, std::memory_order_relaxed);
  full_fence();  // pairs with the ringer's fence
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
