// Tells what this process made from what it was forked with. A child starts with copies of its parent's objects, but
// the shared memory, threads and peers behind them are the parent's: the child may drop such objects, not use them.
//
// The mark of a process lies in a page that the kernel gives to a child zeroed, so that asking costs two loads and no
// fork goes unnoticed.
#pragma once

#include <atomic>
#include <cstdint>

namespace sccl {

namespace detail {
// Where the mark lies; stored before the first mark is given out. Whoever holds a mark got it after that.
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
  std::uint64_t value_ = ~std::uint64_t{0};  // nobody's
};

}  // namespace sccl
