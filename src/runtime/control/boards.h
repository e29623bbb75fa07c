// Small messages that a rank shows to all peers outside of calls, one for each board at a time. A message stays until
// the rank posts the next one on the same board; who posts makes sure that nobody still reads the last one then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/control/members.h"

namespace sccl::runtime {

class Boards {
 public:
  static constexpr std::size_t kBytes = Notice::kBytes;

  explicit Boards(const Members& members) : members_(members) {}

  void post(Board board, std::uint64_t tag, std::span<const std::byte> bytes) {
    members_.own().notice(board).post(tag, bytes);
  }
  // Whether the rank's message there has this tag; then read() gives its bytes.
  bool shows(Rank rank, Board board, std::uint64_t tag) const {
    return members_.state(rank).notice(board).tag.load(std::memory_order_acquire) == tag;  // pairs with Notice::post
  }
  std::array<std::byte, kBytes> read(Rank rank, Board board) const { return members_.state(rank).notice(board).read(); }

  // Records of the control all-gather that this rank has shown.
  std::uint64_t next_record() { return ++members_.own().records_shown; }
  std::uint64_t records_shown() const { return members_.own().records_shown; }
  // The record for which a rank waits in a control all-gather, 0 when it does not. Stored after the calls that the rank
  // has entered and loaded before them by ranks in a call: until they show that record, too, that rank makes no call.
  void gathers(std::uint64_t record) { members_.own().gathering.store(record, std::memory_order_release); }
  std::uint64_t gathering(Rank rank) const {
    return members_.state(rank).gathering.load(std::memory_order_acquire);  // pairs with gathers()
  }

 private:
  const Members& members_;
};

}  // namespace sccl::runtime
