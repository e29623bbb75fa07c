// The straight way of a block through operations (kernels/gpu/straight_operation.h), on a device that
// the host plays: that it is taken, that its results have the bits of the interpreter's, and that it waits for all it
// needs.
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/types.h"
#include "gpu/host_device.h"

using namespace sccl;
using namespace sccl::device;
using gpu::CallArguments;
using gpu::Control;
using gpu::HostWords;
using gpu::StopReason;

namespace {

constexpr u32 kThreads = 8;
constexpr std::size_t kBytes = 64;  // of each buffer: two words a thread

// What a rank's program does in one launch.
enum class Part { sends, sends_and_drains, receives, both };

struct Shape {
  DataType type = DataType::uint32;
  ReduceKernel kernel = ReduceKernel::sum;
  u32 ranks = 3;
  u32 elements = 4;
  u32 offset = 0;  // bytes from the beginning of the buffers
  bool in_place = false;
  Protocol protocol = Protocol::ll;
};

// Every rank sends its input to all others in one lane, and combines what comes from all with its own in the other. The
// second lane comes first in the program and waits for the first: in place it writes what the first one reads.
class Exchange {
 public:
  explicit Exchange(const Shape& shape) : shape_(shape), members_(shape.ranks) {
    std::mt19937 random(7);
    for (u32 receiver = 0; receiver < shape.ranks; ++receiver)
      for (u32 sender = 0; sender < shape.ranks; ++sender) {
        members_[receiver].rings.push_back(std::make_unique<Ring>());
        members_[receiver].payloads.emplace_back(kSlotCount * kBytes);
      }
    for (u32 rank = 0; rank < shape.ranks; ++rank) {
      Member& mine = members_[rank];
      for (u8& byte : mine.input.bytes) byte = static_cast<u8>(random() & 0xbf);  // no NaN: its bits may differ
      for (const bool sends : {true, false})
        for (u32 peer = 0; peer < shape.ranks; ++peer) {
          if (peer == rank) continue;
          gpu::DeviceConnection connection{};
          connection.ring = members_[sends ? peer : rank].rings[sends ? rank : peer].get();
          connection.payload = members_[sends ? peer : rank].payloads[sends ? rank : peer].data();
          connection.slot_bytes = kBytes;
          connection.peer = static_cast<int>(peer);
          mine.connections.push_back(connection);
        }
      mine.bounce.assign(2 * (shape.ranks + 1) * kLlPayloadBytes, 0xa5);
      controls_.push_back(&mine.control);
    }
  }

  void launch(u32 rank, Part part, u32 threads = kThreads, u32 blocks = 1, u32 signature = 1) {
    Member& mine = members_[rank];
    const u32 peers = shape_.ranks - 1;
    std::vector<Access> operands{{Via::local, Buffer::input, -1, 0}};
    std::vector<Access> destinations;
    for (u32 i = 0; i < peers; ++i) destinations.push_back({Via::slot, Buffer::none, static_cast<int>(i), 0});
    for (u32 i = 0; i <= peers; ++i)  // in the order of ranks
      operands.push_back(i == rank ? Access{Via::local, Buffer::input, -1, 0}
                                   : Access{Via::slot, Buffer::none, static_cast<int>(peers + i - (i > rank)), 0});
    destinations.push_back({Via::local, Buffer::output, -1, 0});
    const Dependency sent{1, 0, 0};
    const Op ops[] = {{OpKind::move, true, true, false, 0, 1, shape_.ranks, peers, 1, 0, part == Part::both ? 1u : 0u},
                      {OpKind::move, false, false, true, 0, 0, 1, 0, peers, 0, 0},
                      {OpKind::drain, false, false, false, 0, 0, 0, 0, 1, 0, 0}};
    const bool starts_with_send = part == Part::sends || part == Part::sends_and_drains;
    const Lane lanes[] = {
        {LaneOrder::slice_major, starts_with_send ? 1u : 0u, part == Part::sends_and_drains ? 2u : 1u},
        {LaneOrder::slice_major, 1, 1}};
    CallArguments arguments{};
    const u32 lane_count = part == Part::both ? 2 : 1;
    arguments.program = {ops, operands.data(), destinations.data(), &sent, lanes, lane_count, 0, nullptr, 0};
    Call& call = arguments.call;
    call.input = mine.input.bytes + shape_.offset;
    call.output = output(rank);
    call.type = shape_.type;
    call.kernel = shape_.kernel;
    call.protocol = shape_.protocol;
    call.divisor = 1;
    call.element_bytes = static_cast<u32>(size_bytes(shape_.type));
    call.slice_elements = shape_.elements;
    call.slice_count = 1;
    call.signature = signature;
    arguments.staging.lanes = lane_count;
    arguments.split = {1, 1};
    arguments.channels = 1;
    arguments.blocks_per_channel = blocks;
    arguments.connections = mine.connections.data();
    arguments.lanes = mine.lanes;
    arguments.bounce = mine.bounce.data();
    arguments.bounce_bytes = kLlPayloadBytes;
    arguments.bounce_buffers = shape_.ranks + 1;
    arguments.most_operands = shape_.ranks;
    arguments.most_destinations = peers;
    arguments.control = &mine.control;
    arguments.peer_controls = controls_.data();
    arguments.ranks = shape_.ranks;
    arguments.rank = rank;
    arguments.host = &mine.words;
    arguments.chunk_count = 1;
    arguments.chunks[0] = {0, 0, shape_.elements, 0, 0};
    gpu::launch_on_host(arguments, blocks, threads, gpu::shared_bytes(arguments));
  }

  // All sends come before all receives, so nothing is waited for.
  void run_in_turn(u32 threads) {
    for (const Part part : {Part::sends, Part::receives})
      for (u32 rank = 0; rank < shape_.ranks; ++rank) launch(rank, part, threads);
  }
  void run_at_once(u32 threads, u32 blocks) {
    std::vector<std::thread> running;
    for (u32 rank = 0; rank < shape_.ranks; ++rank)
      running.emplace_back([=, this] { launch(rank, Part::both, threads, blocks); });
    for (std::thread& thread : running) thread.join();
  }

  u8* input(u32 rank) { return members_[rank].input.bytes + shape_.offset; }
  u8* output(u32 rank) {
    return (shape_.in_place ? members_[rank].input : members_[rank].output).bytes + shape_.offset;
  }
  std::size_t bytes() const { return shape_.elements * size_bytes(shape_.type); }
  // The interpreter puts words that have come there.
  bool has_bounced() const {
    for (const Member& member : members_)
      for (const u8 byte : member.bounce)
        if (byte != 0xa5) return true;
    return false;
  }
  // The result's buffer, with what lies before and behind the result.
  const u8* around(u32 rank) const { return (shape_.in_place ? members_[rank].input : members_[rank].output).bytes; }
  Ring& ring(u32 receiver, u32 sender) { return *members_[receiver].rings[sender]; }
  const HostWords& words(u32 rank) const { return members_[rank].words; }

 private:
  struct Buffer16 {
    alignas(16) u8 bytes[kBytes + 32] = {};
  };
  struct Member {
    std::vector<std::unique_ptr<Ring>> rings;  // by sender
    std::vector<std::vector<u8>> payloads;
    std::vector<gpu::DeviceConnection> connections;  // out, then in
    Buffer16 input, output;
    std::vector<u8> bounce;
    LaneState lanes[2] = {{0, 0, 0, -1}, {0, 0, 0, -1}};
    Control control{};
    HostWords words{};
  };

  Shape shape_;
  std::vector<Member> members_;
  std::vector<Control*> controls_;
};

bool same_results(Exchange& one, Exchange& other, u32 ranks) {
  for (u32 rank = 0; rank < ranks; ++rank)
    if (std::memcmp(one.around(rank), other.around(rank), kBytes + 32) != 0) return false;
  return true;
}

}  // namespace

TEST_CASE("flagged words that are there are combined in registers, with the bits of the interpreter") {
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int kernel = 0; kernel < kReduceKernelCount; ++kernel)
      for (const u32 words : {1u, 2u, 3u, 16u})
        for (const u32 offset : {0u, 4u}) {
          const auto data_type = static_cast<DataType>(type);
          const u32 size = static_cast<u32>(size_bytes(data_type));
          if (words * 4 % size != 0 || offset % size != 0) continue;
          const Shape shape{data_type, static_cast<ReduceKernel>(kernel), 5, words * 4 / size, offset, false};
          INFO("type " << type << " kernel " << kernel << " words " << words << " offset " << offset);
          Exchange straight(shape), interpreted(shape);
          straight.run_in_turn(kThreads);
          CHECK_FALSE(straight.has_bounced());
          interpreted.run_in_turn(1);  // one thread has no word for each operand
          CHECK(interpreted.has_bounced());
          CHECK(same_results(straight, interpreted, shape.ranks));
        }
}

TEST_CASE("messages in slots are moved straight with the bits of the interpreter") {
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int kernel = 0; kernel < kReduceKernelCount; ++kernel)
      for (const u32 elements : {1u, 7u}) {
        const Shape shape{
            static_cast<DataType>(type), static_cast<ReduceKernel>(kernel), 5, elements, 0, false, Protocol::simple};
        INFO("type " << type << " kernel " << kernel << " elements " << elements);
        Exchange straight(shape), interpreted(shape);
        straight.run_in_turn(kThreads);
        interpreted.run_in_turn(1);  // one thread sees to one operand
        CHECK(same_results(straight, interpreted, shape.ranks));
      }
}

TEST_CASE("words of data that are no whole words, or too many, are left to the interpreter") {
  for (const Shape& shape :
       {Shape{DataType::uint8, ReduceKernel::sum, 3, 7}, Shape{DataType::uint8, ReduceKernel::sum, 3, 8, 2},
        Shape{DataType::float16, ReduceKernel::sum, 3, 3}}) {
    Exchange some(shape), other(shape);
    some.run_in_turn(kThreads);
    CHECK(some.has_bounced());
    other.run_in_turn(2);
    CHECK(same_results(some, other, shape.ranks));
  }
  Exchange many({DataType::uint32, ReduceKernel::sum, 3, 16});
  many.run_in_turn(kThreads - 1);
  CHECK(many.has_bounced());
}

TEST_CASE("in place the sum is stored after the input was sent, whatever the order of the lanes") {
  for (const Protocol protocol : {Protocol::ll, Protocol::simple})
    for (const u32 blocks : {1u, 2u}) {
      const Shape shape{DataType::uint32, ReduceKernel::sum, 3, 4, 0, true, protocol};
      Exchange words(shape);
      for (int call = 0; call < 30; ++call) {
        std::vector<u32> expected(shape.elements, 0);
        for (u32 rank = 0; rank < shape.ranks; ++rank)
          for (u32 i = 0; i < shape.elements; ++i) expected[i] += reinterpret_cast<u32*>(words.input(rank))[i];
        words.run_at_once(kThreads, blocks);
        for (u32 rank = 0; rank < shape.ranks; ++rank)
          CHECK(std::memcmp(words.output(rank), expected.data(), words.bytes()) == 0);
      }
    }
}

TEST_CASE("no message replaces one that is not read, and the place of one that is read is free") {
  for (const Protocol protocol : {Protocol::ll, Protocol::simple}) {
    Exchange words({DataType::uint32, ReduceKernel::sum, 2, 2, 0, false, protocol});
    const u32 places = protocol == Protocol::ll ? kLlSlotCount : kSlotCount;
    auto& sent = *reinterpret_cast<u32*>(words.input(0));
    const auto receive = [&] {
      std::memset(words.input(1), 0, words.bytes());
      words.launch(1, Part::receives);
      return *reinterpret_cast<u32*>(words.output(1));
    };
    for (sent = 1; sent <= places; ++sent) words.launch(0, Part::sends);
    std::thread late([&] { words.launch(0, Part::sends); });  // waits for the first message to be read
    while (__atomic_load_n(&words.words(0).awaited, __ATOMIC_ACQUIRE) != 2) ::sched_yield();  // rank 1, plus one
    CHECK(receive() == 1);
    late.join();
    for (u32 next = 2; next <= places + 1; ++next) CHECK(receive() == next);
    const Ring& ring = words.ring(1, 0);
    CHECK((protocol == Protocol::ll ? ring.ll_tail : ring.tail).value == places + 1);
  }
}

TEST_CASE("a message of which some words come late is waited for") {
  for (const u32 late : {0u, 1u, 2u, 16u, 99u}) {
    const bool words_late = late != 99;  // else the flag of a slot
    const Shape shape{
        DataType::uint32, ReduceKernel::sum, 2, 16, 0, false, words_late ? Protocol::ll : Protocol::simple};
    Exchange words(shape);
    words.launch(0, Part::sends);
    u64& word = words_late ? words.ring(1, 0).ll[0][late] : words.ring(1, 0).headers[0].flag;
    const u64 whole = word;
    __atomic_store_n(&word, 0, __ATOMIC_RELEASE);
    std::thread receiver([&] { words.launch(1, Part::receives); });
    while (__atomic_load_n(&words.words(1).awaited, __ATOMIC_ACQUIRE) != 1) ::sched_yield();  // rank 0, plus one
    __atomic_store_n(&word, whole, __ATOMIC_RELEASE);
    receiver.join();
    for (u32 i = 0; i < shape.elements; ++i) {
      const auto at = [&](const u8* data) { return reinterpret_cast<const u32*>(data)[i]; };
      CHECK(at(words.output(1)) == at(words.input(0)) + at(words.input(1)));
    }
  }
}

TEST_CASE("a word of another call stops the kernel before the result is stored") {
  for (const Protocol protocol : {Protocol::ll, Protocol::simple}) {
    Exchange words({DataType::uint32, ReduceKernel::sum, 2, 4, 0, false, protocol});
    words.launch(0, Part::sends, kThreads, 1, 5);
    words.launch(1, Part::receives, kThreads, 1, 6);
    CHECK(static_cast<StopReason>(words.words(1).stopped) == StopReason::mismatch);
    CHECK(words.words(1).peer == 0);
    const u8 nothing[kBytes + 32] = {};
    CHECK(std::memcmp(words.around(1), nothing, sizeof nothing) == 0);
  }
}

// A thread that looks at the lane later than the leader advances it would leave the others at a barrier.
TEST_CASE("in place of an operation without data the threads of a block go on together") {
  Exchange words({DataType::uint32, ReduceKernel::sum, 2, 4});
  for (int call = 0; call < 300; ++call) {
    words.launch(0, Part::sends_and_drains);
    words.launch(1, Part::receives);
  }
  CHECK(words.words(0).finished == 300);
}
