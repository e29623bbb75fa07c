#include "shortage.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace sccl_test {
namespace {

// How many allocations succeed before one fails; negative: all succeed. The values stand for themselves.
struct Account {
  std::atomic<long> left{-1};
  std::atomic<bool> lasts{false};
  std::atomic<bool> failed{false};

  // Whether this allocation fails.
  bool take() {
    long now = left.load(std::memory_order_relaxed);
    while (now > 0)
      if (left.compare_exchange_weak(now, now - 1, std::memory_order_relaxed)) return false;
    if (now < 0) return false;
    if (!lasts.load(std::memory_order_relaxed) && !left.compare_exchange_strong(now, -1, std::memory_order_relaxed))
      return false;
    failed.store(true, std::memory_order_relaxed);
    return true;
  }
};

constinit thread_local Account of_thread;
constinit Account of_process;

Account& account(Shortage::Of of) { return of == Shortage::Of::thread ? of_thread : of_process; }

void* allocate(std::size_t bytes, std::size_t alignment) {
  const bool fails = of_thread.take();
  if (of_process.take() || fails) throw std::bad_alloc();
  const std::size_t whole = (bytes == 0 ? alignment : bytes + alignment - 1) / alignment * alignment;
  void* const memory = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ ? std::malloc(bytes == 0 ? 1 : bytes)
                                                                     : std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

Shortage::Shortage(long allocations, Of of, Lasts lasts) : of_(of) {
  Account& mine = account(of);
  mine.failed.store(false, std::memory_order_relaxed);
  mine.lasts.store(lasts == Lasts::until_the_end, std::memory_order_relaxed);
  mine.left.store(allocations, std::memory_order_relaxed);
}

Shortage::~Shortage() { account(of_).left.store(-1, std::memory_order_relaxed); }

bool Shortage::was_felt() const { return account(of_).failed.load(std::memory_order_relaxed); }

}  // namespace sccl_test

// Of the whole program, the library included.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return sccl_test::allocate(bytes, 1); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return sccl_test::allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
