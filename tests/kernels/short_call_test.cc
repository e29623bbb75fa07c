// Short messages between ranks of one thread, by the interpreter and by programs made ready once.
#include "kernels/host/short_call.h"

#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <random>

#include "kernels/program/flat_program.h"
#include "schedule/layout.h"
#include "schedule/lowering/prepare.h"
#include "topology/presets.h"

using namespace sccl;
using device::Outcome;
using device::u32;
using device::u64;
using device::u8;
using kernels::HostTarget;
using Messages = kernels::InlineMessages<HostTarget>;

namespace {

constexpr std::size_t kSlotBytes = 8192;
constexpr u64 kAlmostAnew = ~u64{0} - 300;  // lines: positions pass 2^64 soon

void with_messages(kernels::HostConnection& connection) {
  static std::deque<std::vector<u64>> stale_lines;  // of all tests
  connection.inline_messages = connection.ring->inline_messages;
  connection.inline_lines = device::kInlineLines;
  connection.stale_lines = stale_lines.emplace_back(device::kInlineLines / 64).data();
}

bool has_begun(kernels::HostConnection& connection) {
  return Messages::sight(connection, HostTarget::load_polled(Messages::word(connection)), 9) == device::Sight::ours;
}

// Everyone adds what everyone has; or rank 0 gives its data to everyone.
schedule::Schedule all_pairs(int ranks) {
  std::vector<schedule::Send> sends;
  for (Rank to = 0; to < ranks; ++to)
    for (Rank from = 0; from < ranks; ++from)
      if (from != to) sends.push_back({0, from, to, 0, schedule::SendKind::reduce});
  return schedule::make_schedule("all-pairs", Collective::allreduce, 0, topology::host(ranks), 1, sends);
}
schedule::Schedule star(int ranks) {
  std::vector<schedule::Send> sends;
  for (Rank to = 1; to < ranks; ++to) sends.push_back({0, 0, to, 0, schedule::SendKind::copy});
  return schedule::make_schedule("star", Collective::broadcast, 0, topology::host(ranks), 1, sends);
}

using Carrier = kernels::ShortCall::Carrier;

struct TestRank {
  Carrier carrier = Carrier::lines;
  kernels::FlatProgram program;
  std::vector<kernels::HostConnection> connections;
  std::vector<device::LaneState> lanes;
  HostTarget target;
  kernels::ShortCall short_call;
  bool interprets = false;
  device::Call call{};
  std::vector<device::Chunk> chunks;
  std::vector<u32> input, output;
  u64 calls = 0;

  void begin(const schedule::Schedule& schedule, std::size_t count, u32 value) {
    input.assign(count, value);
    output.assign(count, 0);
    std::vector<schedule::ChunkPlace> places(static_cast<std::size_t>(schedule.chunks));
    schedule::place_chunks(schedule, count, 4, places);
    chunks.clear();
    for (const auto& place : places) chunks.push_back({place.input_offset, place.output_offset, place.elements, 0, 0});
    call = {};
    call.chunks = chunks.data();
    call.input = reinterpret_cast<const u8*>(input.data());
    call.output = reinterpret_cast<u8*>(output.data());
    call.type = DataType::uint32;
    call.kernel = ReduceKernel::sum;
    call.protocol = carrier == Carrier::lines ? device::Protocol::ll : device::Protocol::simple;
    call.divisor = 1;
    call.element_bytes = 4;
    call.slice_elements = kSlotBytes / 4;
    call.slice_count = 1;
    call.signature = static_cast<u32>(++calls * 77);
    lanes.assign(program.lane_count(), {0, 0, 0, -1});
    target.reserve(program.most_operands(), program.most_destinations(), 0);
    if (!interprets) REQUIRE(short_call.prepare(program.view(), call, connections, carrier));
  }

  // True when it is through.
  bool step() {
    if (!interprets) {
      const kernels::ShortCall::Turn turn = short_call.run(lanes, call, target);
      REQUIRE_FALSE(turn.mismatch);
      return turn.unfinished == 0;
    }
    bool finished = true;
    const device::Program view = program.view();
    device::Interpreter<HostTarget> interpreter(view, call, connections.data(), lanes.data(), target);
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      Outcome outcome = Outcome::progressed;
      while (outcome == Outcome::progressed) outcome = interpreter.step(static_cast<u32>(lane));
      REQUIRE((outcome == Outcome::finished || outcome == Outcome::blocked));
      finished = finished && outcome == Outcome::finished;
    }
    return finished;
  }
};

class World {
 public:
  // Bit r of `interpreting`: rank r interprets.
  World(const schedule::Schedule& schedule, u32 interpreting, u64 position, Carrier carrier = Carrier::lines)
      : schedule_(schedule), ranks_(static_cast<std::size_t>(schedule.ranks)) {
    const schedule::Program program = schedule::prepare(schedule, device::kSlotCount);
    for (int pair = 0; pair < schedule.ranks * schedule.ranks; ++pair) {
      rings_.push_back(std::make_unique<device::Ring>());
      rings_.back()->ll_tail.value = rings_.back()->tail.value = position;
      payloads_.emplace_back(device::kSlotCount * kSlotBytes);
    }
    bells_.resize(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      TestRank& mine = ranks_[rank];
      mine.interprets = (interpreting >> rank & 1) != 0;
      mine.carrier = carrier;
      mine.program.assign(program.ranks[rank]);
      for (const schedule::Connection& end : program.ranks[rank].connections) {
        const auto peer = static_cast<std::size_t>(end.peer);
        const bool sends = end.direction == schedule::Direction::outgoing;
        kernels::HostConnection connection{};
        const std::size_t at = sends ? peer * ranks_.size() + rank : rank * ranks_.size() + peer;
        connection.ring = rings_[at].get();
        with_messages(connection);
        connection.payload = payloads_[at].data();
        connection.slot_bytes = kSlotBytes;
        connection.depth = device::kSlotCount;
        connection.position = connection.seen_tail = position;
        connection.peer_bell = &bells_[peer];
        connection.peer = end.peer;
        connection.ll_position = connection.ll_seen_tail = position;
        mine.connections.push_back(connection);
      }
    }
  }

  // Each rank begins its next call when it is through with the one before, up to `calls` of the sizes given.
  void run(const std::vector<std::size_t>& counts, std::mt19937& random) {
    std::vector<std::size_t> done(ranks_.size(), 0);
    std::vector<bool> running(ranks_.size(), false);
    std::size_t left = ranks_.size();
    for (std::size_t turn = 0; left > 0; ++turn) {
      REQUIRE(turn < counts.size() * ranks_.size() * 1000);
      const std::size_t rank = random() % ranks_.size();
      if (done[rank] == counts.size()) continue;
      const std::size_t count = counts[done[rank]];
      if (!running[rank]) ranks_[rank].begin(schedule_, count, value(done[rank], rank));
      running[rank] = !ranks_[rank].step();
      if (running[rank]) continue;
      const std::vector<u32> expected(count, result(done[rank]));
      REQUIRE(ranks_[rank].output ==
              (schedule_.collective == Collective::broadcast && rank == 0 ? ranks_[0].input : expected));
      if (++done[rank] == counts.size()) --left;
    }
  }

 private:
  static u32 value(std::size_t call, std::size_t rank) { return static_cast<u32>(call * 1000 + rank); }
  u32 result(std::size_t call) const {
    if (schedule_.collective == Collective::broadcast) return value(call, 0);
    u32 sum = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) sum += value(call, rank);
    return sum;
  }

  const schedule::Schedule schedule_;
  std::vector<std::unique_ptr<device::Ring>> rings_;  // by receiver, then sender
  std::vector<std::vector<u8>> payloads_;             // likewise
  std::deque<host::Doorbell> bells_;
  std::vector<TestRank> ranks_;
};

std::vector<std::size_t> sizes(std::size_t calls, std::mt19937& random) {
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < calls; ++i)
    counts.push_back(i % 50 == 7 ? device::kInlineMessageBytes / 4 : 1 + random() % (i % 9 == 0 ? 1000 : 40));
  return counts;
}

}  // namespace

TEST_CASE("ranks that interpret and ranks whose program was made ready understand one another") {
  std::mt19937 random(5);
  for (const auto& schedule : {all_pairs(2), all_pairs(3), star(2), star(3)})
    for (u32 interpreting = 0; interpreting < 1u << schedule.ranks; ++interpreting)
      for (const u64 position : {u64{0}, kAlmostAnew}) {
        INFO(schedule.name << " of " << schedule.ranks << ", interpreting " << interpreting << ", from line "
                           << position);
        World(schedule, interpreting, position).run(sizes(400, random), random);
      }
}

TEST_CASE("messages in slots are understood alike by ranks that interpret and by short calls") {
  std::mt19937 random(6);
  for (const auto& schedule : {all_pairs(2), all_pairs(3), star(2), star(3)})
    for (u32 interpreting = 0; interpreting < 1u << schedule.ranks; ++interpreting)
      for (const u64 position : {u64{0}, u64{12345}}) {
        INFO(schedule.name << " of " << schedule.ranks << ", interpreting " << interpreting << ", from message "
                           << position);
        World(schedule, interpreting, position, Carrier::slots).run(sizes(400, random), random);
      }
}

// As of a group of Send and Recv whose messages alone are as before. A header may say of an earlier message that its
// payload was elsewhere.
TEST_CASE("a short call goes on with buffers that lie elsewhere") {
  kernels::FlatProgram sends;
  kernels::FlatProgram receives;
  const schedule::Program program = schedule::prepare(star(2), device::kSlotCount);
  sends.assign(program.ranks[0]);
  receives.assign(program.ranks[1]);
  device::Ring ring{};
  ring.headers[1].lent = 77;
  std::vector<u8> payload(device::kSlotCount * kSlotBytes);
  host::Doorbell bell;
  kernels::HostConnection end{};
  end.ring = &ring;
  end.payload = payload.data();
  end.slot_bytes = kSlotBytes;
  end.depth = device::kSlotCount;
  end.peer_bell = &bell;
  std::vector<kernels::HostConnection> out{end};
  std::vector<kernels::HostConnection> in{end};
  u32 from[2] = {11, 22};
  u32 to[2] = {0, 0};
  device::Chunk sent{};
  device::Chunk received{};
  sent.elements = received.elements = sizeof(u32);
  device::Call call{};
  call.element_bytes = 1;
  call.slice_elements = kSlotBytes;
  call.slice_count = 1;
  call.divisor = 1;
  call.protocol = device::Protocol::simple;
  HostTarget target;
  kernels::ShortCall of_sender;
  kernels::ShortCall of_receiver;
  for (int i = 0; i < 2; ++i) {
    sent.input_offset = sent.output_offset = reinterpret_cast<u64>(&from[i]);
    received.output_offset = reinterpret_cast<u64>(&to[i]);
    const auto run = [&](kernels::ShortCall& one, const kernels::FlatProgram& of, const device::Chunk& chunk,
                         std::vector<kernels::HostConnection>& connections) {
      call.chunks = &chunk;
      if (i == 0)
        REQUIRE(one.prepare(of.view(), call, connections, Carrier::slots));
      else
        one.take_places(call);
      std::vector<device::LaneState> lanes(of.lane_count(), {0, 0, 0, -1});
      target.reserve(of.most_operands(), of.most_destinations(), 0);
      REQUIRE(one.run(lanes, call, target).unfinished == 0);
    };
    run(of_sender, sends, sent, out);
    CHECK(ring.headers[i].lent == 0);
    run(of_receiver, receives, received, in);
    CHECK(to[i] == from[i]);
  }
  CHECK(to[0] == from[0]);
}

TEST_CASE("a sender is stopped by a full ring and goes on where it was read") {
  device::Ring ring{};
  kernels::HostConnection out{}, in{};
  out.ring = in.ring = &ring;
  for (kernels::HostConnection* end : {&out, &in}) with_messages(*end);
  for (int lap = 0; lap < 5; ++lap) {
    int sent = 0;
    while (Messages::has_room(out, 4)) {
      Messages::publish(out, 9, 4);
      ++sent;
    }
    // One line is the next header's, and less than an eighth of the ring is free without having been told.
    CHECK(sent < static_cast<int>(device::kInlineLines));
    CHECK(sent >= static_cast<int>(device::kInlineLines - device::kInlineLines / 8));
    for (int i = 0; i < sent; ++i) {
      REQUIRE(has_begun(in));
      Messages::consume(in, 4);
    }
    CHECK_FALSE(has_begun(in));
  }
}

TEST_CASE("a payload that looks like a header to come is not taken for one") {
  device::Ring ring{};
  kernels::HostConnection out{}, in{};
  out.ring = in.ring = &ring;
  for (kernels::HostConnection* end : {&out, &in}) with_messages(*end);
  std::mt19937 random(7);
  const u64 sizes[] = {4, 4, 60, 120, 700, 2000, device::kInlineMessageBytes};
  for (int message = 0; message < 20000; ++message) {
    const u64 bytes = sizes[random() % std::size(sizes)];
    REQUIRE(Messages::has_room(out, bytes));
    // What stands at the beginning of each of its lines is the flag of whatever message could begin there one lap
    // later.
    for (u64 line = 1; line * 64 < bytes; ++line) {
      kernels::HostConnection later = out;
      later.ll_position = out.ll_position + line + device::kInlineLines;
      const u64 header = Messages::flag(later) << Messages::kFlagShift | 9;
      std::memcpy(reinterpret_cast<u8*>(Messages::word(out)) + line * 64, &header, 8);
    }
    Messages::publish(out, 9, bytes);
    REQUIRE(has_begun(in));
    Messages::consume(in, bytes);
    REQUIRE_FALSE(has_begun(in));
  }
}

TEST_CASE("what the interpreter alone can run is left to it") {
  World world(star(2), 0, 0);
  kernels::FlatProgram program;
  program.assign(schedule::prepare(star(2), device::kSlotCount).ranks[0]);
  std::vector<kernels::HostConnection> connections(4);
  const device::Chunk chunk{0, 0, 4, 0, 0};
  device::Call call{};
  call.chunks = &chunk;
  call.protocol = device::Protocol::ll;
  call.element_bytes = 4;
  call.slice_count = 1;
  kernels::ShortCall short_call;
  CHECK(short_call.prepare(program.view(), call, connections));
  const auto refuses = [&](auto&& change) {
    device::Call other = call;
    change(other);
    CHECK_FALSE(short_call.prepare(program.view(), other, connections));
    CHECK_FALSE(short_call.ready());
  };
  refuses([](device::Call& other) { other.protocol = device::Protocol::simple; });
  refuses([](device::Call& other) { other.slice_count = 2; });
  refuses([](device::Call& other) { other.scaled = true; });
  refuses([](device::Call& other) { other.divisor = 2; });

  const auto takes_from_slots = [&](u64 elements, auto&& change) {
    const device::Chunk sized{0, 0, elements, 0, 0};
    device::Call other = call;
    other.chunks = &sized;
    other.protocol = device::Protocol::simple;
    change(other);
    return short_call.prepare(program.view(), other, connections, Carrier::slots);
  };
  const u64 longest = (HostTarget::kLeastShownBytes - 1) / call.element_bytes;
  CHECK(takes_from_slots(longest, [](device::Call&) {}));
  CHECK_FALSE(takes_from_slots(longest + 1, [](device::Call&) {}));
  CHECK_FALSE(takes_from_slots(4, [](device::Call& other) { other.lends_slots = true; }));
  CHECK_FALSE(takes_from_slots(4, [](device::Call& other) { other.protocol = device::Protocol::ll; }));
}
