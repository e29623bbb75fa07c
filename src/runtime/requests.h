// What a caller asks of a communicator: one collective, or one half of a point-to-point transfer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace sccl::runtime {

// A caller's stream handle. The host platform completes work before the call (or the outermost group) returns and
// accepts only NULL and the two handles that name the default streams.
using StreamHandle = void*;

// The reduction of a request with its operand resolved. `scalar` is read when the request is submitted, in the
// element type's bits (low bytes); with `scalar_pointer` it is read when the data is.
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  std::uint64_t scalar_bits = 0;
  const void* scalar_pointer = nullptr;
};

struct CollectiveRequest {
  Collective collective;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;  // elements, as the C call of this collective counts them
  DataType type = DataType::int8;
  Reduction reduction;
  Rank root = 0;
  StreamHandle stream = nullptr;
};

enum class Direction : std::uint8_t { send, recv };

struct PointToPointRequest {
  Direction direction;
  void* buffer = nullptr;  // read only when direction is send
  std::size_t count = 0;   // elements
  DataType type = DataType::int8;
  Rank peer = 0;
  StreamHandle stream = nullptr;
};

}  // namespace sccl::runtime
