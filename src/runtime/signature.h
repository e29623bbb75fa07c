// What all ranks of a communicator must agree on for one call, and how a disagreement is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/types.h"

namespace sccl::runtime {

struct CallSignature {
  std::uint64_t sequence = 0;  // number of the call on its communicator, from 1
  Collective collective = Collective::allreduce;
  std::uint64_t count = 0;
  DataType type = DataType::int8;
  ReduceOp op = ReduceOp::sum;
  Rank root = 0;
  // Of buffers that peers use in place where processes share windows (gpu/symmetric_windows.h): their numbers, else 0.
  std::uint32_t input_window = 0;
  std::uint32_t output_window = 0;

  bool operator==(const CallSignature&) const = default;
  std::uint32_t hash() const;
  // "AllReduce(count=4096, float, sum)", and the windows if there are any
  std::string text() const;
};

// Both ends of a point-to-point transfer must agree on its size only.
std::uint32_t transfer_hash(std::uint64_t bytes);

// The error of rule 4: names both calls and the remedy.
std::string mismatch_text(Rank mine, const CallSignature& my_call, Rank theirs, const CallSignature& their_call);

}  // namespace sccl::runtime
