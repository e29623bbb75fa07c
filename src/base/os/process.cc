#include "base/os/process.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace sccl {

std::atomic<const std::atomic<std::uint64_t>*> detail::process_mark{nullptr};

namespace {

using Mark = std::atomic<std::uint64_t>;

// Kernels before 4.14 cannot wipe pages at a fork; there a handler of fork() wipes the mark, but not after a bare
// clone().
Mark* make_place() {
  static Mark fallback{0};
  const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED && ::madvise(page, bytes, MADV_WIPEONFORK) == 0) return new (page) Mark(0);
  if (page != MAP_FAILED) ::munmap(page, bytes);
  ::pthread_atfork(nullptr, nullptr, [] { fallback.store(0, std::memory_order_relaxed); });
  return &fallback;
}

}  // namespace

ProcessMark ProcessMark::of_this_process() {
  static Mark* const place = [] {
    Mark* const made = make_place();
    detail::process_mark.store(made, std::memory_order_relaxed);
    return made;
  }();
  // Copied at a fork: a child continues the count, so its mark differs from the marks of all its ancestors.
  static Mark last{0};
  ProcessMark mine;
  mine.value_ = place->load(std::memory_order_relaxed);
  if (mine.value_ != 0) return mine;
  const std::uint64_t fresh = last.fetch_add(1, std::memory_order_relaxed) + 1;
  // Another thread may have stored its mark first.
  if (place->compare_exchange_strong(mine.value_, fresh, std::memory_order_relaxed)) mine.value_ = fresh;
  return mine;
}

}  // namespace sccl
