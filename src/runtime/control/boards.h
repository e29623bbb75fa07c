// Small messages that a rank shows to all peers outside of calls. Each board holds one message at a time. A message
// stays until the rank posts the next one on the same board. The posting code must make sure that no peer still reads
// the old message then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
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
  // Of the rank's message on the board; 0: there is none, or it is being replaced.
  std::uint64_t tag(Rank rank, Board board) const {
    return members_.state(rank).notice(board).tag.load(std::memory_order_acquire);  // pairs with Notice::post
  }
  // Whether the rank's message on the board has this tag. If so, read() returns the message's bytes.
  bool shows(Rank rank, Board board, std::uint64_t tag) const { return this->tag(rank, board) == tag; }
  std::array<std::byte, kBytes> read(Rank rank, Board board) const { return members_.state(rank).notice(board).read(); }
  // The bytes of the message with this tag, where the rank may replace it; nothing if it has.
  std::optional<std::array<std::byte, kBytes>> read(Rank rank, Board board, std::uint64_t tag) const {
    if (!shows(rank, board, tag)) return std::nullopt;
    const auto bytes = read(rank, board);
    return shows(rank, board, tag) ? std::optional(bytes) : std::nullopt;
  }

  // Counts the records of the control all-gather that this rank has shown. One thread at a time counts; another thread
  // of the rank, which is in a call meanwhile, may read the number. Relaxed: it says nothing about the record itself.
  std::uint64_t next_record() {
    const std::uint64_t next = records_shown() + 1;
    members_.own().records_shown.store(next, std::memory_order_relaxed);
    return next;
  }
  std::uint64_t records_shown() const { return members_.own().records_shown.load(std::memory_order_relaxed); }
  // The record for which a rank waits in a control all-gather; 0: it does not wait. The rank stores this after the
  // number of the calls that it has entered. Ranks in a call load this first and that number second. Until these ranks
  // show the record, too, the waiting rank enters no call.
  void gathers(std::uint64_t record) { members_.own().gathering.store(record, std::memory_order_release); }
  std::uint64_t gathering(Rank rank) const {
    return members_.state(rank).gathering.load(std::memory_order_acquire);  // pairs with gathers()
  }

 private:
  const Members& members_;
};

}  // namespace sccl::runtime
