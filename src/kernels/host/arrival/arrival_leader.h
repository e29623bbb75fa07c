// A reduction by the rank that comes first (Alizadeh et al., EuroMPI 2022, Algorithm 1). The ranks bind their roles
// with one fetch-add each: place 0 leads. Every other rank copies its data into its own area, in memory that all ranks
// share, and says how many slices are there. The leader adds whatever is there, with all ready operands of a slice in
// one pass, and stores the result for all.
//
//   rank of place k > 0                     leader (place 0)
//   slice -> own area                       sees ready[rank] (acquire): adds the slice to its partial sum
//   ready[rank] = slices (release)          all ranks' data are in: result, then done[slice] = call (release)
//   sees done[slice] == call (acquire):     all slices done: ended = call (release)
//   copies the result
//
// The paper resets its flags after each call. Here no word is reset: `arrivals` and `ready` count on through all calls
// (the slices of earlier calls are the same at all ranks), and `done` and `ended` hold the number of a call. A rank
// binds its role in call c when it has seen ended == c - 1. So the first of the arrivals c * ranks .. leads, no area is
// written while a leader reads it, and ranks that want nothing of a result may leave when their data are there. A
// result is overwritten when all ranks have contributed to that slice of the next call; a rank that wants the result
// has copied it by then. tests/models/arrival_leader.pml proves
// this; schedule/proof/roles.h has the leader as a schedule.
//
// The order of additions is that of arrival: sums of floats may round differently from run to run. All ranks get the
// same bits, as each result is made once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/host/arrival/arrival_reduction.h"

namespace sccl::kernels {

// What the ranks share, in memory that reads as zeros at first; addresses are this process's.
struct ArrivalLeaderMemory {
  std::vector<std::byte*> areas;  // by rank; of the leader: its partial sums
  std::byte* result = nullptr;
  std::atomic<std::uint64_t>* arrivals{};
  std::atomic<std::uint64_t>* leader{};  // ranks * call + rank
  std::atomic<std::uint64_t>* ended{};
  std::atomic<std::uint64_t>* done{};   // by slice
  std::atomic<std::uint64_t>* ready{};  // by rank, kReadyStride words apart
};

class ArrivalLeader final : public ArrivalReduction {
 public:
  static constexpr std::size_t kReadyStride = 8;  // a cache line for each rank's word

  ArrivalLeader(ArrivalLeaderMemory memory, int rank, int ranks);

  void begin(const ArrivalCall& call) override;
  // Waits for the last call's leader, for ranks that have not come (the leader), or for results (all others).
  Step step() override;

  bool has_sum(std::size_t slice) const override;
  std::byte* sum_of(std::size_t slice) const override { return memory_.result + offset_of(slice); }

  // The place in the order of arrival; -1: not yet bound.
  int place() const { return place_; }

 private:
  std::atomic<std::uint64_t>& ready(int rank) const {
    return memory_.ready[static_cast<std::size_t>(rank) * kReadyStride];
  }
  std::size_t offset_of(std::size_t slice) const { return bytes_of(range_of(slice).begin); }
  Step bind();
  Step lead();
  Step show_next();
  Step take_next();
  void look();
  void merge(std::size_t slice);
  void end_slice(std::size_t slice);
  void tell_leader();

  ArrivalLeaderMemory memory_;
  int rank_;
  int ranks_;
  std::uint64_t number_ = 0;  // of the call
  int place_ = -1;
  std::size_t shown_ = 0;  // slices in the own area
  std::size_t taken_ = 0;  // the next slice to take
  std::size_t take_end_ = 0;
  // Of the leader.
  std::vector<std::size_t> there_;   // by rank: slices in its area, as seen last
  std::vector<std::size_t> merged_;  // by rank: slices that are in the sums
  std::vector<int> holds_;           // by slice: ranks whose data are in the sum; 0: not even the leader's
  std::vector<Operand> operands_;
};

}  // namespace sccl::kernels
