// The puts of this rank to one rank of another host: data are cut into pieces, each a record in a frame of the link.
// The last piece raises the signal. The target's side is window_table.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/transport/net/wire/frame.h"
#include "runtime/transport/shm/memory_layout.h"

namespace sccl::runtime {

// Signals of one source are numbered through its signals and contexts.
inline constexpr std::uint32_t kSignalNumbers = MemoryLayout::kSignals * MemoryLayout::kContexts;
inline std::uint32_t signal_number(int signal, int context) {
  return static_cast<std::uint32_t>(signal * MemoryLayout::kContexts + context);
}

struct Put {
  std::span<const std::byte> data;
  std::uint32_t window = 0;  // number of the window; without data it is not used
  std::uint64_t offset = 0;  // in the window
  std::uint32_t signal = 0;  // signal_number()
};

// One put at a time. Used by the thread that has the link.
class OutgoingPuts {
 public:
  // The data must not change while has_news(), unless give_up() is called.
  void begin(const Put& put);
  bool has_news() const { return is_begun_; }
  // The put is not completed. The target has a part of it, so the link is of no use any more: append() throws.
  void give_up();
  // False if not all had room.
  bool append(FrameWriter& frame);
  bool has_sent() const { return has_sent_; }

 private:
  Put put_;
  std::size_t sent_bytes_ = 0;  // of the put
  bool is_begun_ = false;
  bool is_given_up_ = false;
  bool has_sent_ = false;
};

}  // namespace sccl::runtime
