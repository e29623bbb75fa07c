// Which buffers of a call payloads leave to other hosts without a copy.
#include "runtime/host/lanes/shown_buffers.h"

#include <catch2/catch.hpp>
#include <vector>

#include "runtime/program/transfers.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

constexpr std::size_t kBytes = 1000;

kernels::HostTarget::Shown shown(Collective collective, std::ptrdiff_t output_after_input, std::size_t output_bytes) {
  static const std::vector<std::byte> memory(8 * kBytes);
  const std::byte* const input = memory.data() + 4 * kBytes;
  return ShownBuffers::of(info(collective), kBytes, output_bytes).of_call(input, input + output_after_input);
}

bool overlap(const std::vector<PointToPointRequest>& batch) {
  TransferBatch transfers;
  transfers.lower(batch, 0, 4, false);
  return transfers.overlaps();
}

}  // namespace

TEST_CASE("payloads leave from the input of a call that computes only if the result lies elsewhere") {
  constexpr auto kSum = Collective::allreduce;
  for (const std::ptrdiff_t apart : {1000, 3000, -1000, -2000}) {
    CHECK(shown(kSum, apart, kBytes).input);
    CHECK_FALSE(shown(kSum, apart, kBytes).output);
  }
  for (const std::ptrdiff_t meeting : {0, 999, -999, 1}) CHECK_FALSE(shown(kSum, meeting, kBytes).input);
  CHECK_FALSE(shown(Collective::reducescatter, 0, kBytes / 4).input);
  CHECK_FALSE(shown(Collective::reducescatter, 750, kBytes / 4).input);
}

TEST_CASE("payloads leave from both buffers of a call that only moves data, also in place") {
  for (const Collective collective : {Collective::allgather, Collective::broadcast, Collective::gather})
    for (const std::ptrdiff_t place : {0, -1000, 1000}) {
      CHECK(shown(collective, place, 2 * kBytes).input);
      CHECK(shown(collective, place, 2 * kBytes).output);
    }
  CHECK(shown(Collective::alltoall, 1000, kBytes).input);
  CHECK_FALSE(shown(Collective::alltoall, 1000, kBytes).output);
  CHECK_FALSE(shown(Collective::alltoall, 0, kBytes).input);
}

TEST_CASE("payloads are stored early in results that the call writes once, not in those of sums") {
  const auto lands = [](Collective collective, std::ptrdiff_t output_after_input) {
    static const std::vector<std::byte> memory(8 * kBytes);
    const std::byte* const input = memory.data() + 4 * kBytes;
    return ShownBuffers::of(info(collective), kBytes, kBytes).lands_in_call(input, input + output_after_input);
  };
  for (const Collective collective : {Collective::allgather, Collective::broadcast, Collective::gather})
    for (const std::ptrdiff_t place : {0, -1000, 1000}) CHECK(lands(collective, place));
  CHECK(lands(Collective::alltoall, 1000));
  CHECK_FALSE(lands(Collective::alltoall, 999));
  for (const Collective collective : {Collective::allreduce, Collective::reducescatter, Collective::reduce})
    CHECK_FALSE(lands(collective, 3000));
}

TEST_CASE("transfers of a group that send and receive the same byte are noticed") {
  std::vector<float> memory(400);
  const auto part = [&](Direction direction, std::size_t first, Rank peer) {
    PointToPointRequest request;
    request.direction = direction;
    request.buffer = memory.data() + first;
    request.count = 100;
    request.type = DataType::float32;
    request.peer = peer;
    return request;
  };
  CHECK_FALSE(overlap({part(Direction::send, 0, 1), part(Direction::recv, 100, 1)}));
  // One between the other ones.
  CHECK_FALSE(overlap({part(Direction::send, 0, 1), part(Direction::recv, 100, 1), part(Direction::send, 200, 2)}));
  CHECK(overlap({part(Direction::send, 0, 1), part(Direction::recv, 0, 1)}));
  CHECK(overlap({part(Direction::send, 0, 1), part(Direction::recv, 200, 2), part(Direction::recv, 99, 1)}));
  CHECK_FALSE(overlap({part(Direction::send, 0, 1), part(Direction::send, 0, 2)}));
  CHECK_FALSE(overlap({part(Direction::recv, 0, 1)}));
}
