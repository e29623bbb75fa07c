#include "platform/host/doorbell.h"

#include <errno.h>
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

#if !defined(SYS_futex_waitv)
#define SYS_futex_waitv 449  // on all machines
#endif

// As struct futex_waitv of linux/futex.h, which older headers lack.
struct AwaitedWord {
  std::uint64_t value;
  std::uint64_t address;
  std::uint32_t flags = 2;  // a word of 32 bits
  std::uint32_t reserved = 0;
};

// Whether the system waits for two words; nobody has asked it yet, so it is tried.
std::atomic<bool> waits_for_two{true};

std::uint64_t address_of(std::atomic<std::uint32_t>& word) { return reinterpret_cast<std::uintptr_t>(&word); }

timespec span_of(std::chrono::nanoseconds span) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(span);
  timespec result{};
  result.tv_sec = seconds.count();
  result.tv_nsec = (span - seconds).count();
  return result;
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
  sleeping.store(kAlone, std::memory_order_relaxed);
  heavy_fence();  // pairs with the ringer's light fence
  return seen;
}

void Doorbell::sleep(std::uint32_t seen, std::chrono::microseconds limit) {
  const timespec span = span_of(limit);
  futex(&word, FUTEX_WAIT, seen, &span);
  cancel_sleep();
}

SleepingPlace::SleepingPlace(Doorbell* own_bell, Doorbell* shared_bell)
    : own(own_bell),
      // Relaxed: a thread that does not know it yet tries once more.
      shared(waits_for_two.load(std::memory_order_relaxed) ? shared_bell : nullptr) {}

SleepingPlace::Seen SleepingPlace::prepare_sleep() const {
  if (shared == nullptr) return {own->prepare_sleep(), 0};
  const Seen seen{own->word.load(std::memory_order_acquire), shared->word.load(std::memory_order_acquire)};
  own->sleeping.store(Doorbell::kBesideShared, std::memory_order_relaxed);
  shared->sleeping.store(Doorbell::kAlone, std::memory_order_relaxed);
  heavy_fence();  // pairs with the ringer's light fence
  return seen;
}

void SleepingPlace::sleep(Seen seen, std::chrono::microseconds limit) const {
  if (shared == nullptr) {
    own->sleep(seen.own, limit);
    return;
  }
  const AwaitedWord words[] = {{seen.own, address_of(own->word)}, {seen.shared, address_of(shared->word)}};
  const timespec end = span_of(std::chrono::steady_clock::now().time_since_epoch() + limit);
  if (::syscall(SYS_futex_waitv, words, 2, 0, &end, CLOCK_MONOTONIC) < 0 && errno != EAGAIN && errno != ETIMEDOUT &&
      errno != EINTR)
    waits_for_two.store(false, std::memory_order_relaxed);  // pairs with the constructor
  cancel_sleep();
}

}  // namespace sccl::host
