// The point-to-point transfers of one group as a program: one lane for each peer and direction, in the order of the
// calls.
#pragma once

#include <span>
#include <vector>

#include "kernels/program/flat_program.h"
#include "runtime/call/requests.h"
#include "schedule/program.h"

namespace sccl::runtime {

// lower() is called for each group and reuses the memory of the previous group. A group that differs from the previous
// one in its buffers only has the same program: then only the addresses are new.
class TransferBatch {
 public:
  // `direct`: the receiver reads large transfers from the sender's buffer. Throws invalid_usage when a transfer to self
  // has no counterpart of the same size in the batch. False: the program is that of the last batch.
  bool lower(std::span<const PointToPointRequest> batch, Rank rank, int ranks, bool direct);

  const kernels::FlatProgram& program() const { return flat_; }
  // One chunk per transfer; offsets in bytes from address 0, so each offset is the buffer's address.
  std::span<const device::Chunk> chunks() const { return chunks_; }
  std::size_t most_bytes() const { return most_bytes_; }
  std::size_t all_bytes() const { return all_bytes_; }
  // Whether a byte is sent and received in this batch.
  bool overlaps() const;

 private:
  // What determines the program.
  struct Transfer {
    Direction direction;
    Rank peer;
    std::size_t bytes;
    bool operator==(const Transfer&) const = default;
  };
  struct Lowered {
    std::vector<Transfer> transfers;  // empty: lower them again
    Rank rank = -1;
    int ranks = 0;
    bool direct = false;
  };

  bool repeats(std::span<const PointToPointRequest> batch, Rank rank, int ranks, bool direct) const;
  void note_lowered(std::span<const PointToPointRequest> batch, Rank rank, int ranks, bool direct);
  schedule::Lane& lane_of(schedule::Direction direction, Rank peer);
  void append(const PointToPointRequest& request, bool direct);
  void append_sending(schedule::Lane& lane, schedule::ChunkId chunk, bool direct);
  void append_receiving(schedule::Lane& lane, schedule::ChunkId chunk, bool direct);
  void pair_own(std::span<const PointToPointRequest> batch, Rank rank);

  Lowered lowered_;
  schedule::RankProgram transfers_;
  kernels::FlatProgram flat_;
  std::vector<device::Chunk> chunks_;
  std::size_t most_bytes_ = 0;  // of a transfer
  std::size_t all_bytes_ = 0;   // sent and received
};

}  // namespace sccl::runtime
