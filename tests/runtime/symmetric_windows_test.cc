// Which buffers lie in symmetric windows, and what ranks are told whose buffers do not lie in the same ones.
#include "runtime/gpu/resources/symmetric_windows.h"

#include <catch2/catch.hpp>

#include "runtime/call/signature.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

Window window_at(std::uint64_t begin, std::size_t bytes, std::uint32_t number) {
  Window window;
  window.base = reinterpret_cast<void*>(begin);
  window.bytes = bytes;
  window.number = number;
  window.shifts = 16 * number;
  return window;
}

CollectiveRequest request(Collective collective, std::uint64_t send, std::uint64_t recv, std::size_t count) {
  CollectiveRequest made{};
  made.collective = collective;
  made.send = reinterpret_cast<const void*>(send);
  made.recv = reinterpret_cast<void*>(recv);
  made.count = count;
  made.type = DataType::float32;
  return made;
}

}  // namespace

TEST_CASE("input and output must lie in windows as a whole") {
  SymmetricWindows windows;
  windows.add(window_at(0x10000, 400, 1));
  windows.add(window_at(0x20000, 1200, 4));
  constexpr int kRanks = 3;
  const auto both = [&](Collective collective, std::uint64_t send, std::uint64_t recv, std::size_t count) {
    return windows.find(request(collective, send, recv, count), kRanks).has_value();
  };
  CHECK(both(Collective::allreduce, 0x10000, 0x20000, 100));
  CHECK(!both(Collective::allreduce, 0x10000, 0x20000, 101));
  CHECK(!both(Collective::allreduce, 0x10004, 0x20000, 100));
  CHECK(!both(Collective::allreduce, 0xfffc, 0x20000, 10));
  CHECK(!both(Collective::allreduce, 0x10000, 0x30000, 10));
  CHECK(both(Collective::allgather, 0x10000, 0x20000, 100));
  CHECK(!both(Collective::allgather, 0x20000, 0x10000, 100));
  CHECK(both(Collective::reducescatter, 0x20000, 0x10000, 100));
  CHECK(!both(Collective::reducescatter, 0x10000, 0x20000, 100));
  CHECK(both(Collective::alltoall, 0x20000, 0x20000, 100));
  CHECK(!both(Collective::alltoall, 0x20000, 0x10000, 100));
  const auto found = windows.find(request(Collective::allreduce, 0x10000, 0x20000, 100), kRanks);
  REQUIRE(found.has_value());
  CHECK(found->input.number == 1);
  CHECK(found->output.number == 4);
  CHECK(found->output.shifts == 64);
}

TEST_CASE("what the root alone has is not looked for") {
  SymmetricWindows windows;
  windows.add(window_at(0x10000, 4000, 1));
  for (const Collective rooted : {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter})
    CHECK(!windows.find(request(rooted, 0x10000, 0x10000, 10), 2).has_value());
}

TEST_CASE("of several windows around a buffer the first one counts, whatever the order in which they are known") {
  SymmetricWindows windows;
  const Window inner = window_at(0x10000, 400, 2);
  windows.add(window_at(0x10000, 4000, 7));
  windows.add(inner);
  const auto number = [&] {
    return windows.find(request(Collective::allreduce, 0x10000, 0x10000, 10), 2)->input.number;
  };
  CHECK(number() == 2);
  windows.remove(inner);
  CHECK(number() == 7);
}

TEST_CASE("calls in other windows have another signature and a remedy of their own") {
  CallSignature mine{3, Collective::allreduce, 100, DataType::float32, ReduceOp::sum, 0};
  CallSignature theirs = mine;
  CHECK(mine.hash() == theirs.hash());
  theirs.input_window = 1;
  theirs.output_window = 2;
  CHECK(!(mine == theirs));
  CHECK(mine.hash() != theirs.hash());
  CallSignature swapped = theirs;
  std::swap(swapped.input_window, swapped.output_window);
  CHECK(swapped.hash() != theirs.hash());
  CHECK(mismatch_text("rank 0", mine, "rank 1", theirs) ==
        "rank 0 called AllReduce(count=100, float, sum) while rank 1 called AllReduce(count=100, float, sum) from "
        "window 1 to "
        "window 2 as call 3 of this communicator: buffers in windows with NCCL_WIN_COLL_SYMMETRIC must lie in the same "
        "windows "
        "on all ranks: give every rank's buffers their place there, or none's");
  theirs.count = 101;
  CHECK(mismatch_text("rank 0", mine, "rank 1", theirs).ends_with("make the ranks' calls equal, in the same order"));
}
