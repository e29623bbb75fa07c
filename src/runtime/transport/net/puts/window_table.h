// The windows of one rank into which ranks of other hosts may write. Puts come as records of a link (net/wire/frame.h);
// the thread that drives the link at that moment writes them into the window, so the target need not be in any call.
//
// Why the data of a put are visible before its signal:
//
//   source                          thread that drives the target's link        target, in WaitSignal
//   appends the pieces in order     copies each piece into the window
//   the last piece has the signal   signal += 1 (release)  ------------------>  loads the signal (acquire)
//                                                                               reads the window
//
// The link keeps the order of records, so all pieces are copied before the signal. Two threads may copy the pieces of
// one put, the rank's own and the progress thread: one hands the link to the other by a lock (net/progress_thread.h),
// which orders the copies of the first before what the second does. The counter is stored after all of that, with
// release. Puts of one source travel through one link, so signals of one source rise in the order of its calls.
//
// What comes is not believed: a piece that does not fit into its window throws remote_error, which ends the link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

#include "base/types.h"
#include "runtime/transport/net/wire/frame.h"
#include "runtime/transport/shm/memory_layout.h"

namespace sccl::runtime {

// All functions may be called by any thread.
class WindowTable {
 public:
  // `own_memory`: this rank's shared memory, which holds the counters of signals. Both must outlive this object.
  WindowTable(const MemoryLayout& layout, std::byte* own_memory) : layout_(layout), own_memory_(own_memory) {}
  WindowTable(const WindowTable&) = delete;
  WindowTable& operator=(const WindowTable&) = delete;

  // `number`: not 0; of the window, the same at all ranks. Called before any rank may write.
  void open(std::uint32_t number, void* base, std::size_t bytes);
  // When these return, nothing writes into the window, or into any window, any more.
  void close(std::uint32_t number);
  void close_all();

  // A piece of a put has come from `source`.
  void take(Rank source, const RecordHead& head, std::span<const std::byte> payload);

 private:
  struct Place {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
  };

  const MemoryLayout& layout_;
  std::byte* const own_memory_;
  std::mutex mutex_;  // guards the members below, and is held while a piece is copied
  std::map<std::uint64_t, Place> windows_;
  bool are_given_back_ = false;
};

}  // namespace sccl::runtime
