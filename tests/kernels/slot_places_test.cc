// Slots for short messages beside those for long ones, as connections over the network have them.
#include "kernels/host/messages/slot_places.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/host/target.h"
#include "kernels/program/flat_program.h"
#include "schedule/lowering/prepare.h"
#include "topology/presets.h"

namespace {

using namespace sccl;
using device::u32;
using device::u64;
using device::u8;
using kernels::HostConnection;
using Slots = device::Slots<kernels::HostTarget>;

constexpr u32 kShortBytes = 256;
constexpr u64 kSlotBytes = 4 * kShortBytes;
constexpr u32 kDepth = 4;

// Both ends of a connection, in one memory.
struct Pair {
  Pair() : ring(std::make_unique<device::Ring>()) {
    for (HostConnection* const end : {&sender, &receiver}) {
      end->ring = ring.get();
      end->slot_bytes = kSlotBytes;
      end->depth = kDepth;
      end->short_bytes = kShortBytes;
    }
    memory.resize(kernels::slots_bytes(sender));
    sender.payload = receiver.payload = memory.data();
  }

  bool send(u64 bytes) {
    if (!Slots::has_room(sender, bytes)) return false;
    u8* const payload = Slots::payload(sender, bytes);
    if (payload < memory.data() || payload + bytes > memory.data() + memory.size()) throw std::out_of_range("a slot");
    std::memset(payload, static_cast<int>(sender.position % 251), bytes);
    Slots::publish(sender, 0, bytes);
    under_way.push_back(bytes);
    return true;
  }

  // Whether the oldest message is as it was sent.
  bool receive() {
    const u64 bytes = under_way.front();
    under_way.pop_front();
    const auto sent = static_cast<u8>(receiver.position % 251);
    const u8* const payload = Slots::payload(receiver, bytes);
    bool whole = true;
    for (u64 i = 0; i < bytes; ++i) whole = whole && payload[i] == sent;
    Slots::consume(receiver, bytes);
    return whole;
  }

  std::unique_ptr<device::Ring> ring;
  std::vector<u8> memory;
  HostConnection sender{}, receiver{};
  std::deque<u64> under_way;  // their lengths
};

// Keeps where a lane that waits for a message expects the message's data.
struct Expecting : kernels::HostTarget {
  void awaits(const u64*, u32, u64, const void* data) { expected = data; }
  const void* expected = nullptr;
};

}  // namespace

TEST_CASE("a connection over the network holds many short messages, and few long ones") {
  Pair pair;
  for (u32 count = 0; count < device::kShortSlotCount; ++count) CHECK(pair.send(kShortBytes));
  CHECK_FALSE(pair.send(1));
  CHECK_FALSE(pair.send(kSlotBytes));
  // A long message takes a slot that a long one before it may have, however many short ones are between them.
  while (pair.under_way.size() >= kDepth) {
    CHECK_FALSE(pair.send(kShortBytes + 1));
    CHECK(pair.receive());
  }
  CHECK(pair.send(kShortBytes + 1));
  CHECK_FALSE(pair.send(kSlotBytes));
  CHECK(pair.send(kShortBytes));
}

TEST_CASE("messages of all lengths lie apart while they are under way") {
  std::mt19937 random(GENERATE(1u, 2u, 3u));
  Pair pair;
  for (int turn = 0; turn < 20000; ++turn) {
    const u64 bytes = random() % 3 == 0 ? random() % (kSlotBytes + 1) : random() % (kShortBytes + 1);
    if (random() % 2 == 0 && pair.send(bytes)) continue;
    if (!pair.under_way.empty()) REQUIRE(pair.receive());
  }
  while (!pair.under_way.empty()) REQUIRE(pair.receive());
}

TEST_CASE("a receiver expects the data of a message where a message of its length lies") {
  const u64 bytes = GENERATE(u64{4}, u64{kShortBytes}, u64{kShortBytes + 4}, kSlotBytes);
  const std::vector<schedule::Send> sends{{0, 0, 1, 0, schedule::SendKind::copy}};
  const auto broadcast = schedule::make_schedule("one", Collective::broadcast, 0, topology::host(2), 1, sends);
  kernels::FlatProgram receives;
  receives.assign(schedule::prepare(broadcast, kDepth).ranks[1]);
  Pair pair;
  for (u32 message = 0; message < 6; ++message) {
    pair.send(kShortBytes);
    pair.receive();
  }
  const device::Chunk chunk{0, 0, bytes, 0, 0};
  device::Call call{};
  call.chunks = &chunk;
  call.element_bytes = 1;
  call.slice_elements = kSlotBytes;
  call.slice_count = 1;
  std::vector<device::LaneState> lanes(receives.lane_count(), {0, 0, 0, -1, 0});
  Expecting target;
  const device::Program program = receives.view();
  using Interpreter = device::Interpreter<Expecting, device::OneProtocol<device::Slots<Expecting>>>;
  Interpreter interpreter(program, call, &pair.receiver, lanes.data(), target);
  CHECK(interpreter.step(0) == device::Outcome::blocked);
  CHECK(target.expected == Slots::payload(pair.receiver, bytes));
}
