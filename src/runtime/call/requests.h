// The requests of a caller to a communicator: one collective, or one half of a point-to-point transfer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace sccl::runtime {

// A caller's stream handle. The host platform accepts only NULL and the two handles that name the default streams.
// There, work is complete when the call (or the outermost group) returns.
using StreamHandle = void*;

// The reduction of a request. `scalar_bits` holds the scalar as it was at submission, in the element type's bits (low
// bytes). If `scalar_pointer` is set, the scalar is read from there, at the time when the data is read.
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  std::uint64_t scalar_bits = 0;
  const void* scalar_pointer = nullptr;
};

struct CollectiveRequest {
  Collective collective;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;  // elements, counted as in the C call of this collective
  DataType type = DataType::int8;
  Reduction reduction;
  Rank root = 0;
  StreamHandle stream = nullptr;
};

// The sizes of the buffers that a rank passes; 0 if the call does not use that buffer of this rank.
struct BufferBytes {
  std::size_t input = 0;
  std::size_t output = 0;
};
inline BufferBytes buffer_bytes(const CollectiveRequest& request, Rank rank, int ranks) {
  const std::size_t block = request.count * size_bytes(request.type);
  const std::size_t all = block * static_cast<std::size_t>(ranks);
  const bool at_root = rank == request.root;
  switch (request.collective) {
    case Collective::allgather:
      return {block, all};
    case Collective::reducescatter:
      return {all, block};
    case Collective::alltoall:
      return {all, all};
    case Collective::broadcast:
      return {at_root ? block : 0, block};
    case Collective::reduce:
      return {block, at_root ? block : 0};
    case Collective::gather:
      return {block, at_root ? all : 0};
    case Collective::scatter:
      return {at_root ? all : 0, block};
    case Collective::allreduce:
    case Collective::sendrecv:
      break;
  }
  return {block, block};
}

enum class Direction : std::uint8_t { send, recv };

struct PointToPointRequest {
  Direction direction;
  void* buffer = nullptr;  // read only when direction is send
  std::size_t count = 0;   // elements
  DataType type = DataType::int8;
  Rank peer = 0;
  StreamHandle stream = nullptr;
};

// What a call exchanges with a rank of another host, in one direction.
struct RemoteTraffic {
  Rank peer = 0;
  Direction direction = Direction::send;
  std::uint64_t messages = 0;
  std::uint64_t message_bytes = 0;  // of the longest message
};

}  // namespace sccl::runtime
