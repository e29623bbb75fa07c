// Symbolic execution of an MSCCL algorithm: finds what every message carries, and whether every GPU ends with the right
// data.
#pragma once

#include <bit>
#include <vector>

#include "schedule/msccl/msccl_xml.h"
#include "schedule/schedule.h"

namespace sccl::schedule {

// The set of ranks whose contributions a value holds.
class Contributions {
 public:
  explicit Contributions(int ranks = 0) : words_(static_cast<std::size_t>(ranks + 63) / 64) {}
  void add(Rank rank) { words_[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64); }
  void add(const Contributions& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool intersects(const Contributions& other) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if ((words_[i] & other.words_[i]) != 0) return true;
    return false;
  }
  bool within(const Contributions& other) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if ((words_[i] & ~other.words_[i]) != 0) return false;
    return true;
  }
  // The lowest rank; -1 when empty.
  Rank first() const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (words_[i] != 0) return static_cast<Rank>(i * 64) + std::countr_zero(words_[i]);
    return -1;
  }
  bool operator==(const Contributions&) const = default;

 private:
  std::vector<std::uint64_t> words_;
};

// One chunk of one message.
struct MscclMessage {
  ChunkId chunk = 0;
  Rank src = 0;
  Rank dst = 0;
  int channel = 0;
  SendKind kind = SendKind::copy;  // reduce if the receiver adds it to another value, at once or later
  Contributions contributions{0};
};

struct MscclRun {
  Schedule frame;                      // collective, ranks, root, chunks; no sends
  std::vector<MscclMessage> messages;  // in the order of reception
};

// Executes the algorithm in place and out of place, where the algorithm claims to serve them, and in several orders of
// its thread blocks. Throws invalid_argument that names line and element when a step reads a place never written, a
// contribution is counted twice, the counts of a send and its reception differ, blocks wait for one another, or a GPU
// does not end with the collective's result.
MscclRun run_msccl(const MscclAlgo& algo);

}  // namespace sccl::schedule
