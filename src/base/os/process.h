// Distinguishes what this process made from what it inherited by fork. A child starts with copies of its parent's
// objects, but the shared memory, threads and peers behind them belong to the parent: the child may drop such objects
// but not use them.
//
// The mark of a process lies in a page that the kernel zeroes in a child. So a test costs two loads, and no fork goes
// unnoticed.
#pragma once

#include <atomic>
#include <cstdint>

namespace sccl {

namespace detail {
// Where the mark lies; stored before the first mark is given out, so every holder of a mark can rely on it.
extern std::atomic<const std::atomic<std::uint64_t>*> process_mark;
}  // namespace detail

class ProcessMark {
 public:
  static ProcessMark of_this_process();

  bool is_this_process() const {
    const auto* const mark = detail::process_mark.load(std::memory_order_relaxed);
    return mark != nullptr && value_ == mark->load(std::memory_order_relaxed);
  }

 private:
  std::uint64_t value_ = ~std::uint64_t{0};  // no process has this mark
};

}  // namespace sccl
