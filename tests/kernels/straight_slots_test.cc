// Messages in slots take the straight way of a block (kernels/gpu/straight_operation.h), and not the interpreter's:
// sums and copies, of several types, in several lanes and slices of uneven length, through slots that are used again
// and again.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/types.h"
#include "gpu/host_device.h"

using namespace sccl;
using namespace sccl::device;
using gpu::CallArguments;
using gpu::Control;
using gpu::HostWords;

namespace {

constexpr u32 kThreads = 8;
constexpr u32 kSliceElements = 16;
constexpr u32 kLanes = 3;
constexpr std::array<u32, kLanes> kElements = {kSliceElements, 3 * kSliceElements - 5, 1};  // of each lane's chunk
constexpr u32 kSlices = 3;
constexpr u32 kAll = kElements[0] + kElements[1] + kElements[2];
constexpr u32 kRanks = 3;
constexpr std::size_t kSlotBytes = kSliceElements * 8 * 4;  // a quarter holds a slice

// In each lane rank 0 sends to rank 1, which adds its own and sends the sum to rank 2; that adds its own, too, keeps
// the sum and sends it to rank 0, which copies it to its output. All that a launch waits for is there when it begins.
class Chain {
 public:
  Chain(DataType type, ReduceKernel kernel, u32 divisor) : type_(type), kernel_(kernel), divisor_(divisor) {
    for (Pair& pair : pairs_) pair.payload.resize(kSlotCount * kSlotBytes);
    for (u32 rank = 0; rank < kRanks; ++rank)
      for (const u32 receiver : {(rank + 1) % kRanks, rank})
        for (u32 lane = 0; lane < kLanes; ++lane) {
          Pair& pair = pairs_[receiver * kLanes + lane];
          gpu::DeviceConnection connection{};
          connection.ring = pair.ring.get();
          connection.payload = pair.payload.data();
          connection.slot_bytes = kSlotBytes;
          connection.peer = static_cast<int>(receiver == rank ? (rank + kRanks - 1) % kRanks : receiver);
          members_[rank].connections.push_back(connection);
        }
  }

  void run(u32 threads, u32 blocks, u32 seed, u32 slot_shift = 0) {
    slot_shift_ = slot_shift;
    std::mt19937 random(seed);
    for (Member& member : members_)
      for (u8& byte : member.input) byte = static_cast<u8>(random() & 0x3f);  // small numbers, no NaN
    ++calls_;
    for (const u32 rank : {0u, 1u, 2u, 0u}) {
      const bool keeps = rank == 2 || (rank == 0 && has_sent_);
      const bool sends = rank != 0 || !has_sent_;
      launch(rank, sends, keeps, threads, blocks);
      if (rank == 0) has_sent_ = !has_sent_;
    }
  }

  const std::vector<u8>& input(u32 rank) const { return members_[rank].input; }
  const std::vector<u8>& output(u32 rank) const { return members_[rank].output; }
  bool ended() const {
    return members_[0].words.finished == 2 * calls_ && members_[1].words.finished == calls_ &&
           members_[2].words.finished == calls_;
  }

 private:
  struct Pair {  // by receiver and lane
    std::unique_ptr<Ring> ring = std::make_unique<Ring>();
    std::vector<u8> payload;
  };
  struct Member {
    std::vector<gpu::DeviceConnection> connections;  // out, then in; each by lane
    std::vector<u8> input = std::vector<u8>(kAll * 8), output = std::vector<u8>(kAll * 8);
    LaneState lanes[kLanes]{};
    Control control{};
    HostWords words{};
  };

  void launch(u32 rank, bool sends, bool keeps, u32 threads, u32 blocks) {
    Member& mine = members_[rank];
    const bool receives = rank != 0 || keeps;
    const bool reduces = rank != 0;
    std::vector<Op> ops;
    std::vector<Access> operands, destinations;
    std::vector<Lane> lanes;
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const auto operand_begin = static_cast<u32>(operands.size());
      const auto destination_begin = static_cast<u32>(destinations.size());
      const auto out = static_cast<int>(lane), in = static_cast<int>(kLanes + lane);
      if (receives) operands.push_back({Via::slot, Buffer::none, in, 0});
      if (reduces || !receives) operands.push_back({Via::local, Buffer::input, -1, lane});
      if (sends) destinations.push_back({Via::slot, Buffer::none, out, 0});
      if (keeps) destinations.push_back({Via::local, Buffer::output, -1, lane});
      lanes.push_back({LaneOrder::slice_major, lane, 1});
      ops.push_back({OpKind::move, rank == 2, receives, sends, lane, operand_begin,
                     static_cast<u32>(operands.size()) - operand_begin, destination_begin,
                     static_cast<u32>(destinations.size()) - destination_begin, 0, 0});
    }
    CallArguments arguments{};
    arguments.program = {ops.data(), operands.data(), destinations.data(), nullptr, lanes.data(), kLanes, 0, nullptr,
                         0};
    Call& call = arguments.call;
    call.input = mine.input.data();
    call.output = mine.output.data();
    call.type = type_;
    call.kernel = kernel_;
    call.protocol = Protocol::simple;
    call.divisor = divisor_;
    call.element_bytes = static_cast<u32>(size_bytes(type_));
    call.slice_elements = kSliceElements;
    call.slice_count = kSlices;
    call.signature = static_cast<u32>(calls_);
    call.slot_shift = slot_shift_;
    arguments.split = {1, 1};
    arguments.channels = 1;
    arguments.blocks_per_channel = blocks;
    arguments.connections = mine.connections.data();
    for (LaneState& lane : mine.lanes) lane = {0, 0, 0, -1};
    arguments.lanes = mine.lanes;
    arguments.most_operands = arguments.most_destinations = 2;
    arguments.control = &mine.control;
    arguments.ranks = kRanks;
    arguments.rank = rank;
    arguments.host = &mine.words;
    for (u64 lane = 0, begin = 0; lane < kLanes; begin += kElements[lane++])
      arguments.chunks[arguments.chunk_count++] = {begin, begin, kElements[lane], 0, 0};
    gpu::launch_on_host(arguments, blocks, threads, gpu::shared_bytes(arguments));
  }

  DataType type_;
  ReduceKernel kernel_;
  u32 divisor_;
  u64 calls_ = 0;
  u32 slot_shift_ = 0;
  bool has_sent_ = false;  // rank 0 in this call
  Pair pairs_[kRanks * kLanes];
  std::array<Member, kRanks> members_;
};

constexpr int kCalls = 6;  // of up to three messages a connection: slots are used four times

void check_sums(const Chain& chain, u32 divisor) {
  for (u32 i = 0; i < kAll; ++i) {
    const auto at = [&](const std::vector<u8>& data) {
      u32 value = 0;
      std::memcpy(&value, data.data() + 4 * i, 4);
      return value;
    };
    const u32 sum = (at(chain.input(0)) + at(chain.input(1)) + at(chain.input(2))) / divisor;
    for (const u32 rank : {0u, 2u})
      if (at(chain.output(rank)) != sum) FAIL("element " << i << " of rank " << rank);
  }
  for (const u32 rank : {0u, 2u})
    for (std::size_t i = 4 * kAll; i < chain.output(rank).size(); ++i)
      if (chain.output(rank)[i] != 0) FAIL("byte " << i << " of rank " << rank << ", behind its output, was written");
}

}  // namespace

TEST_CASE("sums and copies in slots go straight, in every lane and slice, however often slots are used") {
  for (const u32 blocks : {1u, 2u, kLanes})
    for (const u32 divisor : {1u, 3u}) {
      INFO(blocks << " blocks, divisor " << divisor);
      Chain chain(DataType::uint32, ReduceKernel::sum, divisor);
      gpu::interpreter_moved = false;
      for (int call = 0; call < kCalls; ++call) {
        chain.run(kThreads, blocks, static_cast<u32>(call));
        check_sums(chain, divisor);
      }
      CHECK_FALSE(gpu::interpreter_moved);
      CHECK(chain.ended());
    }
}

TEST_CASE("calls divide the slots of a connection as they like, one after the other") {
  for (const u32 threads : {kThreads, 1u}) {
    Chain chain(DataType::uint32, ReduceKernel::sum, 1);
    const std::array<u32, 8> shifts{0, 2, 2, 1, 0, 1, 2, 0};
    for (u32 call = 0; call < shifts.size(); ++call) {
      INFO(threads << " threads, call " << call);
      chain.run(threads, 1, call, shifts[call]);
      check_sums(chain, 1);
    }
    CHECK(chain.ended());
  }
}

TEST_CASE("a message into slots of another number waits until the receiver has emptied those before") {
  Ring ring{};
  std::vector<u8> payload(kSlotCount * kSlotBytes);
  gpu::DeviceConnection connection{};
  connection.ring = &ring;
  connection.payload = payload.data();
  connection.slot_bytes = kSlotBytes;
  const auto memory = std::make_unique<gpu::BlockMemory>();
  gpu::place.block_memory = memory.get();
  using Simple = Slots<gpu::Block>;
  u32& shift = gpu::block_memory().call.slot_shift;
  const auto send = [&](u32 slots) {
    for (u32 message = 0; message < slots; ++message) {
      REQUIRE(Simple::has_room(connection));
      CHECK(Simple::payload(connection) == payload.data() + connection.position % slots * payload.size() / slots);
      Simple::publish(connection, 0, kSlotBytes >> shift);
    }
    CHECK_FALSE(Simple::has_room(connection));
  };
  shift = 0;
  send(kSlotCount);
  shift = 2;
  ring.tail.value = connection.position - 1;
  CHECK_FALSE(Simple::has_room(connection));
  ring.tail.value = connection.position;
  send(kShortSlotCount);
  shift = 1;
  ring.tail.value = connection.position - 1;
  CHECK_FALSE(Simple::has_room(connection));
  shift = 2;  // as many as before: one is free
  CHECK(Simple::has_room(connection));
  // A proxy between hosts knows of no calls.
  connection.travels = 1;
  connection.slot_shift = 0;
  ring.tail.value = connection.position;
  for (u32 message = 0; message < kSlotCount; ++message) {
    REQUIRE(Simple::has_room(connection));
    Simple::publish(connection, 0, 1);
  }
  CHECK_FALSE(Simple::has_room(connection));
  gpu::place.block_memory = nullptr;
}

TEST_CASE("sums in slots have the interpreter's bits in every type, in lanes and slices of uneven length") {
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int kernel = 0; kernel < kReduceKernelCount; ++kernel) {
      INFO("type " << type << " kernel " << kernel);
      Chain straight(static_cast<DataType>(type), static_cast<ReduceKernel>(kernel), 1);
      Chain interpreted(static_cast<DataType>(type), static_cast<ReduceKernel>(kernel), 1);
      gpu::interpreter_moved = false;
      for (u32 call = 0; call < 2; ++call) straight.run(kThreads, 1, call);
      CHECK_FALSE(gpu::interpreter_moved);
      for (u32 call = 0; call < 2; ++call) interpreted.run(1, 1, call);  // one thread sees to one operand
      CHECK(gpu::interpreter_moved);
      for (const u32 rank : {0u, 2u}) CHECK(straight.output(rank) == interpreted.output(rank));
    }
}
