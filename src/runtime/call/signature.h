// The values on which all ranks of a communicator must agree for one call, and the error message if they disagree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/splitmix.h"
#include "base/types.h"

namespace sccl::runtime {

struct CallSignature {
  std::uint64_t sequence = 0;  // number of the call on its communicator, from 1
  Collective collective = Collective::allreduce;
  std::uint64_t count = 0;
  DataType type = DataType::int8;
  ReduceOp op = ReduceOp::sum;
  Rank root = 0;
  // Of buffers that peers use in place where processes share windows (gpu/resources/symmetric_windows.h): their
  // numbers, else 0.
  std::uint16_t input_window = 0;
  std::uint16_t output_window = 0;
  // CallOptions::digest(); 0: the call has none. These three lie together, so that they are published by one store.
  std::uint32_t options = 0;

  bool operator==(const CallSignature&) const = default;
  // The signature in the call's messages. call_hash() covers every value except the sequence number.
  std::uint32_t hash() const { return hash(sequence, call_hash()); }
  std::uint64_t call_hash() const;
  static std::uint32_t hash(std::uint64_t sequence, std::uint64_t call_hash) {
    return static_cast<std::uint32_t>(mix(call_hash ^ sequence));
  }
  // For example "AllReduce(count=4096, float, sum)"; windows follow if there are any.
  std::string text() const;
  std::uint64_t extras() const {
    return input_window | static_cast<std::uint64_t>(output_window) << 16 | static_cast<std::uint64_t>(options) << 32;
  }
  void set_extras(std::uint64_t bits) {
    input_window = static_cast<std::uint16_t>(bits);
    output_window = static_cast<std::uint16_t>(bits >> 16);
    options = static_cast<std::uint32_t>(bits >> 32);
  }
};

// The signature of a point-to-point transfer: both ends must agree only on its size.
std::uint32_t transfer_hash(std::uint64_t bytes);

// The error of a mismatch: names both ranks, both calls and the remedy.
std::string mismatch_text(const std::string& mine, const CallSignature& my_call, const std::string& theirs,
                          const CallSignature& their_call);

}  // namespace sccl::runtime
