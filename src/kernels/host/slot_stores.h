// Whether a rank writes a peer's slots through its caches or past them, found out while it does.
//
// Where the two cores share a cache, the reader finds what was written there, and writing past it would send the data
// through memory. Where they do not (two parts of one processor, two sockets), a written line has to be taken from the
// other core's cache and handed over again, which costs more than memory does: 64 KiB between two such cores of an EPYC
// take 24 us in AllReduce of two ranks instead of 9. Systems move processes, so the answer changes while a program
// runs. The writer's own time tells the two apart (one line taken costs as much as one handed over), and no peer need
// know.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sccl::kernels {

class SlotStores {
 public:
  // Shorter messages are written before a difference can be seen.
  static constexpr std::uint64_t kLeastBytes = 4096;

  struct Turn {
    bool streamed = false;
    bool timed = false;  // the caller reports what it took
  };

  // How the next slot is written. `comparable`: a copy of kLeastBytes or more, in which no other slot is compared.
  Turn next(bool comparable) {
    if (!comparable) return {streamed_, false};
    if (writes_until_pair_ > 1) {
      --writes_until_pair_;
      return {streamed_, false};
    }
    // A pair: first the way in force, then the other, one right after the other so that both meet the same peer.
    return {writes_until_pair_ == 1 ? streamed_ : !streamed_, true};
  }

  // Of the last turn that was to be timed, a copy to so many places.
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
    // One interrupted copy proves nothing.
    votes_for_change_ = far != streamed_ ? votes_for_change_ + 1 : 0;
    writes_between_ = far != streamed_ ? kLeastBetween : std::min(2 * writes_between_, kMostBetween);
    writes_until_pair_ = writes_between_;
    if (votes_for_change_ < kVotes) return;
    streamed_ = far;
    votes_for_change_ = 0;
  }

 private:
  static constexpr std::uint32_t kFirstWrites = 8;  // to slots whose pages may not be there yet
  // Pairs come often while they change something. The way that is not in force may take several times as long.
  static constexpr std::uint32_t kLeastBetween = 24;
  static constexpr std::uint32_t kMostBetween = 96;
  static constexpr int kVotes = 2;
  // What a copy to one place takes through the caches by what it takes past them: between cores that share a cache 0.4
  // to 2.1 for 8 KiB and 0.6 to 1.1 for 64 KiB; between others 5.2 to 6.6, and 2.0 to 5.2.
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
