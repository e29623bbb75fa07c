// Decides whether a rank writes a peer's slots through its caches or past them, by measuring while it writes.
//
// If the two cores share a cache, the reader finds the data in the cache, and stores past the caches would send the
// data through memory. If they do not (two parts of one processor, two sockets), a written line must be taken from the
// other core's cache and handed over again, which costs more than memory does: for 64 KiB between two such cores of an
// EPYC, AllReduce of two ranks takes 24 us instead of 9. Systems migrate processes, so the answer changes while a
// program runs. The writer's own time tells the two cases apart (taking a line costs as much as handing it over), so
// the peer is not involved.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sccl::kernels {

class SlotStores {
 public:
  // Shorter messages take too little time to show a difference.
  static constexpr std::uint64_t kLeastBytes = 4096;

  struct Turn {
    bool streamed = false;
    bool timed = false;  // the caller reports the time by took()
  };

  // How the next slot is written. `comparable`: the move is a copy of at least kLeastBytes and times only this slot.
  Turn next(bool comparable) {
    if (!comparable) return {streamed_, false};
    if (writes_until_pair_ > 1) {
      --writes_until_pair_;
      return {streamed_, false};
    }
    // A pair: first the current way, then the other, one right after the other so that both meet the same state of the
    // peer.
    return {writes_until_pair_ == 1 ? streamed_ : !streamed_, true};
  }

  // Time of the last turn that had `timed` set: a copy to `destinations` places.
  void took(std::uint64_t ns, std::uint64_t bytes, int destinations) {
    const double ns_per_byte = static_cast<double>(ns) / static_cast<double>(bytes);
    if (writes_until_pair_ == 1) {
      first_ns_per_byte_ = ns_per_byte;
      writes_until_pair_ = 0;
      return;
    }
    const double cached = streamed_ ? ns_per_byte : first_ns_per_byte_;
    const double past = streamed_ ? first_ns_per_byte_ : ns_per_byte;
    const double factor = bytes < kLongBytes ? kFarShort : kFarLong;
    const bool far = cached - past > (factor - 1) * past / destinations;
    // One interrupted copy must not decide.
    votes_for_change_ = far != streamed_ ? votes_for_change_ + 1 : 0;
    writes_between_ = far != streamed_ ? kLeastBetween : std::min(2 * writes_between_, kMostBetween);
    writes_until_pair_ = writes_between_;
    if (votes_for_change_ < kVotes) return;
    streamed_ = far;
    votes_for_change_ = 0;
  }

 private:
  static constexpr std::uint32_t kFirstWrites = 8;  // the pages of the slots may not be there yet
  // Pairs are frequent while they change the decision. The other way may take several times as long.
  static constexpr std::uint32_t kLeastBetween = 24;
  static constexpr std::uint32_t kMostBetween = 96;
  static constexpr int kVotes = 2;
  // Time through the caches divided by time past them, for a copy to one place. Between cores that share a cache: 0.4
  // to 2.1 for 8 KiB, 0.6 to 1.1 for 64 KiB. Between other cores: 5.2 to 6.6, and 2.0 to 5.2.
  static constexpr std::uint64_t kLongBytes = 32 * 1024;
  static constexpr double kFarShort = 3.3;
  static constexpr double kFarLong = 1.5;

  std::uint32_t writes_until_pair_ = kFirstWrites;  // 1: the first of a pair is next, 0: the second
  std::uint32_t writes_between_ = kLeastBetween;
  int votes_for_change_ = 0;
  bool streamed_ = false;
  double first_ns_per_byte_ = 0;
};

}  // namespace sccl::kernels
