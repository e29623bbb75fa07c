// Where payloads of other hosts are stored before the operation that awaits them runs.
#include "kernels/host/messages/landing.h"

#include <catch2/catch.hpp>
#include <vector>

#include "kernels/host/messages/connection.h"
#include "kernels/program/flat_program.h"
#include "schedule/program.h"

using namespace sccl;
using device::u32;
using device::u64;
using device::u8;
using kernels::Landing;
using schedule::Buffer;
using schedule::Via;

namespace {

constexpr u64 kSlice = 2 * Landing::kLeastBytes;
constexpr u64 kBrief = Landing::kLeastBytes - 1;
constexpr u32 kSignature = 77;
constexpr int kFrom = 0;  // connections
constexpr int kOther = 1;

schedule::Access slot(int connection) { return {Via::slot, connection, {}}; }
schedule::Access result(int chunk) { return {Via::local, -1, {Buffer::output, chunk}}; }

schedule::Op move(std::vector<schedule::Access> operands, std::vector<schedule::Access> destinations, int chunk) {
  schedule::Op op;
  op.chunk = chunk;
  for (const auto& access : operands) op.operands.push_back(access);
  for (const auto& access : destinations) op.destinations.push_back(access);
  return op;
}

// A call of one lane. Chunk n lies at chunks[n].output_offset of the result.
struct Call {
  Call(schedule::LaneOrder order, const std::vector<schedule::Op>& ops, const std::vector<u64>& bytes) {
    schedule::RankProgram mine;
    mine.connections = {{schedule::Direction::incoming, 1}, {schedule::Direction::outgoing, 2}};
    mine.lanes.push_back({order, ops});
    flat.assign(mine);
    program = flat.view();
    u64 end = 0;
    for (const u64 each : bytes) {
      chunks.push_back({0, end, each, 0, 0});
      end += each;
      call.slice_count = std::max(call.slice_count, (each + kSlice - 1) / kSlice);
    }
    memory.resize(end);
    call.chunks = chunks.data();
    call.output = memory.data();
    call.element_bytes = 1;
    call.divisor = 1;
    call.slice_elements = kSlice;
    call.signature = kSignature;
    ends[kFrom].landing = &landing;
    ends[kFrom].position = first;
  }

  std::vector<Landing*> begin() { return kernels::begin_landings(program, call, ends, Landing::Stores::usual); }
  // The offset in the result where message `number` of the call is stored; -1: in its slot.
  long place(u64 number, u64 bytes = kSlice, u32 signature = kSignature) {
    const std::vector<std::byte> payload(bytes, static_cast<std::byte>(number + 1));
    const u8* const at = landing.store({first + number, signature, bytes, 0, payload});
    if (at == nullptr) return -1;
    CHECK(at[0] == number + 1);
    CHECK(at[bytes - 1] == number + 1);
    return at - memory.data();
  }

  static constexpr u64 first = 1000;  // messages came before
  kernels::FlatProgram flat;
  device::Program program{};
  device::Call call{};
  std::vector<device::Chunk> chunks;
  std::vector<u8> memory;
  Landing landing;
  std::vector<kernels::HostConnection> ends = std::vector<kernels::HostConnection>(2);
};

using schedule::LaneOrder;

}  // namespace

TEST_CASE("messages of a lane that receives chunk after chunk have their places in this order") {
  Call call(LaneOrder::op_major, {move({slot(kFrom)}, {result(1)}, 1), move({slot(kFrom)}, {result(0)}, 0)},
            {kSlice, 2 * kSlice + 20000});
  REQUIRE(call.begin().size() == 1);
  CHECK(call.place(0) == kSlice);
  CHECK(call.place(1) == 2 * kSlice);
  CHECK(call.place(2, 20000) == 3 * kSlice);
  CHECK(call.place(3) == 0);
  CHECK(call.place(4) == -1);  // of a later call
}

TEST_CASE("messages of a lane that goes slice by slice have their places in this order, and short ones none") {
  Call call(LaneOrder::slice_major,
            {move({slot(kFrom)}, {result(0)}, 0), move({{Via::local, -1, {Buffer::input, 1}}}, {result(1)}, 1),
             move({slot(kFrom)}, {result(1)}, 1)},
            {kSlice, 2 * kSlice, 10});
  call.begin();
  CHECK(call.place(0) == 0);
  CHECK(call.place(1) == kSlice);
  CHECK(call.place(2) == 2 * kSlice);

  Call brief(LaneOrder::op_major, {move({slot(kFrom)}, {result(0)}, 0), move({slot(kFrom)}, {result(1)}, 1)},
             {kBrief, kSlice});
  brief.begin();
  CHECK(brief.place(0, kBrief) == -1);
  CHECK(brief.place(1) == kBrief);
}

TEST_CASE("what came before the call began leaves the places of what comes later as they are") {
  Call call(LaneOrder::slice_major, {move({slot(kFrom)}, {result(0)}, 0)}, {4 * kSlice});
  CHECK(call.place(0) == -1);
  CHECK(call.place(1) == -1);
  call.begin();
  CHECK(call.place(2) == 2 * kSlice);
}

TEST_CASE("a message that is not only copied to the result belongs into its slot") {
  const std::vector<schedule::Op> others = {
      move({slot(kFrom), {Via::local, -1, {Buffer::input, 0}}}, {result(0)}, 0),  // a sum
      move({slot(kFrom)}, {slot(kOther)}, 0), move({slot(kFrom)}, {result(0), slot(kOther)}, 0),
      move({slot(kFrom)}, {{Via::local, -1, {Buffer::scratch, 0}}}, 0)};
  for (const schedule::Op& op : others) {
    Call call(LaneOrder::slice_major, {op, move({slot(kFrom)}, {result(1)}, 1)}, {kSlice, kSlice});
    call.begin();
    CHECK(call.place(0) == -1);
    CHECK(call.place(1) == kSlice);
  }
}

TEST_CASE("a message of another call or of another length belongs into its slot") {
  Call call(LaneOrder::slice_major, {move({slot(kFrom)}, {result(0)}, 0)}, {3 * kSlice});
  call.begin();
  CHECK(call.place(0, kSlice, kSignature + 1) == -1);
  CHECK(call.place(1, kSlice - 1) == -1);
  CHECK(call.place(2) == 2 * kSlice);
}

TEST_CASE("nothing is stored in the result after the end, also of a message that has begun to come") {
  Call call(LaneOrder::slice_major, {move({slot(kFrom)}, {result(0)}, 0)}, {2 * kSlice});
  call.begin();
  const std::vector<std::byte> half(kSlice / 2, std::byte{1});
  CHECK(call.landing.store({Call::first, kSignature, kSlice, 0, half}) == call.memory.data());
  call.landing.end();
  CHECK(call.landing.store({Call::first, kSignature, kSlice, kSlice / 2, half}) == nullptr);
  CHECK(call.place(1) == -1);
  CHECK(call.memory[kSlice / 2 - 1] == 1);
  CHECK(call.memory[kSlice / 2] == 0);
}
