// What an operation waits for, the room that it needs and when it is done are said in src/base/lane_order.h and in the
// protocols. Five places act on it: the interpreter, short calls, the order on streams, the symbolic check and the
// simulation of programs. Here all of them run every program of every planner, and must agree.
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <numeric>
#include <set>

#include "kernels/host/messages/messages_in_flight.h"
#include "kernels/host/short_call.h"
#include "kernels/program/flat_program.h"
#include "planners/planners.h"
#include "runtime/gpu/stream/stream_order.h"
#include "schedule/lowering/prepare.h"
#include "schedule/proof/check_program.h"
#include "schedule/simulation/cost.h"
#include "schedule/simulation/simulate_program.h"
#include "sum_call.h"
#include "topology/presets.h"

using namespace sccl;
using device::Outcome;
using device::u32;
using device::u64;
using device::u8;
using kernels::HostTarget;

namespace {

constexpr std::size_t kSliceBytes = 64;  // chunks are cut at multiples of it
constexpr std::size_t kSlices = 3;       // of each chunk, where a call has several slices
constexpr int kMostRanks = 8;

using OneSlots = device::Interpreter<HostTarget, device::OneProtocol<device::Slots<HostTarget>>>;
using OneInline = device::Interpreter<HostTarget, device::OneProtocol<HostTarget::Ll>>;
using Any = device::Interpreter<HostTarget>;

// An end of the connection between two ranks; both ends use one ring.
struct Wire {
  device::Ring ring{};
  std::vector<u8> payload;
  std::vector<u64> stale_lines = std::vector<u64>(device::kInlineLines / 64);
};

struct TestRank {
  kernels::FlatProgram program;
  std::vector<kernels::HostConnection> connections;
  std::vector<device::LaneState> lanes;
  std::vector<device::Chunk> chunks;
  std::vector<u32> input, output;
  std::vector<u8> scratch;
  device::Call call{};
  HostTarget target;
  kernels::ShortCall short_call;
  std::size_t moved = 0;  // operations that moved data

  u64 finished() const {
    return std::accumulate(lanes.begin(), lanes.end(), u64{0},
                           [](u64 sum, const device::LaneState& lane) { return sum + lane.finished; });
  }
};

// All ranks of one call, on one thread.
class World {
 public:
  // The longest chunk has `slices` slices of `slice_bytes`.
  World(const schedule::Schedule& schedule, const schedule::Program& program, device::Protocol protocol,
        std::size_t slices, std::size_t slice_bytes = kSliceBytes)
      : schedule_(schedule),
        program_(program),
        slices_(slices),
        wanted_bytes_(slices * slice_bytes),
        ranks_(program.ranks.size()) {
    place_chunks();
    wires_.resize(ranks_.size() * ranks_.size());
    for (Wire& wire : wires_) wire.payload.resize(device::kSlotCount * slice_bytes_);
    bells_.resize(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin(rank, protocol);
  }

  // Steps every lane of every rank with an interpreter until nothing moves any more.
  template <class Interpreter>
  void interpret() {
    for (bool moved = true; moved;) {
      moved = false;
      for (TestRank& rank : ranks_)
        for (u32 lane = 0; lane < rank.lanes.size(); ++lane) moved = step<Interpreter>(rank, lane) || moved;
    }
  }

  // Every rank takes its operations in the order in which its stream would.
  void interpret_as_streams() {
    std::vector<std::vector<runtime::StreamTurn>> orders;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      orders.push_back(
          runtime::order_collective(program_, static_cast<Rank>(rank), slices_, static_cast<int>(device::kSlotCount)));
    std::vector<std::size_t> done(ranks_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (done[rank] < orders[rank].size() && follow(ranks_[rank], orders[rank][done[rank]])) {
          ++done[rank];
          moved = true;
        }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) CHECK(done[rank] == orders[rank].size());
  }

  void run_short() {
    for (TestRank& rank : ranks_) REQUIRE(rank.short_call.prepare(rank.program.view(), rank.call, rank.connections));
    std::size_t unfinished = 1;
    for (bool moved = true; moved && unfinished > 0;) {
      moved = false;
      unfinished = 0;
      for (TestRank& rank : ranks_) {
        const kernels::ShortCall::Turn turn = rank.short_call.run(rank.lanes, rank.call, rank.target);
        REQUIRE_FALSE(turn.mismatch);
        moved = moved || turn.operations > 0;
        unfinished += turn.unfinished;
      }
    }
  }

  // Every lane is through, and every rank has the collective's result.
  void check_end() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const TestRank& mine = ranks_[rank];
      u64 operations = 0;
      for (const schedule::Lane& lane : program_.ranks[rank].lanes) operations += lane.ops.size() * slices_;
      CHECK(mine.finished() == operations);
      CHECK((mine.output == expected(rank)));
    }
  }
  std::size_t moved() const {
    std::size_t sum = 0;
    for (const TestRank& rank : ranks_) sum += rank.moved;
    return sum;
  }

 private:
  void begin(std::size_t rank, device::Protocol protocol) {
    TestRank& mine = ranks_[rank];
    mine.program.assign(program_.ranks[rank]);
    for (const schedule::Connection& end : program_.ranks[rank].connections) {
      const auto peer = static_cast<std::size_t>(end.peer);
      const bool sends = end.direction == schedule::Direction::outgoing;
      Wire& wire = wires_[sends ? rank * ranks_.size() + peer : peer * ranks_.size() + rank];
      kernels::HostConnection connection{};
      connection.ring = &wire.ring;
      connection.payload = wire.payload.data();
      connection.slot_bytes = slice_bytes_;
      connection.depth = device::kSlotCount;
      connection.inline_messages = wire.ring.inline_messages;
      connection.inline_lines = device::kInlineLines;
      connection.stale_lines = wire.stale_lines.data();
      connection.peer = end.peer;
      connection.peer_bell = &bells_[peer];
      mine.connections.push_back(connection);
    }
    mine.input.resize(elements_);
    std::iota(mine.input.begin(), mine.input.end(), static_cast<u32>(rank * 1000003));
    mine.output.assign(elements_, 0);
    mine.call =
        sccl_test::sum_call(schedule_, count_, mine.chunks, mine.input.data(), mine.output.data(), slice_bytes_);
    mine.call.protocol = protocol;
    mine.call.signature = 77;
    REQUIRE(mine.call.slice_count == slices_);
    mine.scratch.resize(static_cast<std::size_t>(mine.program.scratch_slots()) * slice_bytes_);
    mine.call.scratch = mine.scratch.data();
    mine.lanes.assign(mine.program.lane_count(), {0, 0, 0, -1});
    mine.target.reserve(mine.program.most_operands(), mine.program.most_destinations(), 0);
  }

  void place_chunks() {
    const auto blocks = static_cast<std::size_t>(schedule_.chunks);
    std::vector<schedule::ChunkPlace> places(blocks);
    const auto place = [&](std::size_t count) {
      count_ = count;
      schedule::place_chunks(schedule_, count_, sizeof(u32), places);
      std::size_t longest = 1;
      for (const schedule::ChunkPlace& one : places) longest = std::max(longest, one.elements);
      return longest * sizeof(u32);
    };
    const std::size_t most = blocks * wanted_bytes_ / sizeof(u32);
    const std::size_t longest = place(most);  // more than wanted where a block is cut into fewer chunks
    slice_bytes_ = (place(most * wanted_bytes_ / longest) + slices_ - 1) / slices_;
    for (const schedule::ChunkPlace& one : places)
      elements_ = std::max({elements_, one.input_offset + one.elements, one.output_offset + one.elements});
  }

  template <class Interpreter>
  bool step(TestRank& rank, u32 lane) {
    const device::Program view = rank.program.view();
    Interpreter interpreter(view, rank.call, rank.connections.data(), rank.lanes.data(), rank.target);
    const u64 before = rank.lanes[lane].finished;
    const device::LaneState at = rank.lanes[lane];
    const Outcome outcome = interpreter.step(lane);
    REQUIRE((outcome == Outcome::progressed || outcome == Outcome::blocked || outcome == Outcome::finished));
    if (rank.lanes[lane].finished == before) return false;
    const device::Op& op = view.ops[view.lanes[lane].op_begin + at.op];
    if (rank.call.chunks[op.chunk].elements > at.slice * rank.call.slice_elements) ++rank.moved;
    return true;
  }

  bool follow(TestRank& rank, const runtime::StreamTurn& turn) {
    const device::LaneState& at = rank.lanes[turn.lane];
    CHECK(at.op == turn.op);
    CHECK(at.slice == turn.slice);
    return step<OneSlots>(rank, turn.lane);
  }

  std::vector<u32> expected(std::size_t rank) const {
    std::vector<u32> output(ranks_[rank].output.size(), 0);
    for (schedule::ChunkId chunk = 0; chunk < schedule_.chunks; ++chunk) {
      const schedule::ChunkEnds ends = schedule::ends(schedule_, chunk);
      if (!ends.receives(static_cast<Rank>(rank))) continue;
      const device::Chunk& place = ranks_[rank].chunks[static_cast<std::size_t>(chunk)];
      for (std::size_t source = 0; source < ranks_.size(); ++source)
        for (std::size_t i = 0; i < place.elements && ends.contributes(static_cast<Rank>(source)); ++i)
          output[place.output_offset + i] += ranks_[source].input[place.input_offset + i];
    }
    return output;
  }

  const schedule::Schedule& schedule_;
  const schedule::Program& program_;
  const std::size_t slices_;
  const std::size_t wanted_bytes_;  // of the longest chunk
  std::size_t count_ = 0;
  std::size_t elements_ = 0;  // of a buffer
  std::size_t slice_bytes_ = 0;
  std::deque<Wire> wires_;  // by sender, then receiver
  std::deque<host::Doorbell> bells_;
  std::deque<TestRank> ranks_;
};

void check_agreement(const schedule::Schedule& schedule) {
  const schedule::Program program = schedule::prepare(schedule, kernels::kMessagesInFlight);
  CHECK_NOTHROW(schedule::check_program(
      schedule, program, {device::kSlotCount, static_cast<int>(kSlices), schedule::Placement::out_of_place, 1}));

  World slots(schedule, program, device::Protocol::simple, kSlices);
  slots.interpret<OneSlots>();
  slots.check_end();
  World any(schedule, program, device::Protocol::simple, kSlices);
  any.interpret<Any>();
  any.check_end();
  World streams(schedule, program, device::Protocol::simple, kSlices);
  streams.interpret_as_streams();
  streams.check_end();

  const std::vector<double> fractions = schedule::chunk_fractions(schedule);
  const double longest = *std::max_element(fractions.begin(), fractions.end());
  schedule::CoreModel cores;
  cores.cores = schedule.ranks;
  cores.alpha_us = 1;
  cores.op_us = 1;
  const auto simulated = schedule::simulate_program(
      schedule, program, cores,
      {static_cast<double>(kSlices * kSliceBytes) / longest, kSliceBytes, static_cast<int>(device::kSlotCount)});
  CHECK(static_cast<std::size_t>(simulated.operations) == slots.moved());

  World words(schedule, program, device::Protocol::ll, 1);
  words.interpret<OneInline>();
  words.check_end();
  World short_calls(schedule, program, device::Protocol::ll, 1);
  short_calls.run_short();
  short_calls.check_end();
}

// Machines whose links differ, so that programs differ; by name, once for each number of ranks and kind of links.
std::vector<topology::Topology> machines() {
  std::vector<topology::Topology> found;
  for (const int ranks : {2, 3, 4, 5, 8}) found.push_back(topology::host(ranks));
  for (const topology::Preset& preset : topology::presets())
    if (topology::Topology machine = preset.make(); machine.ranks <= kMostRanks) found.push_back(std::move(machine));
  return found;
}

template <typename Check>
std::size_t for_every_schedule(Check&& check) {
  std::size_t schedules = 0;
  for (const topology::Topology& machine : machines())
    for (const planners::Planner& planner : planners::table())
      for (int kind = 0; kind < kCollectiveCount; ++kind)
        for (const Rank root : {0, machine.ranks - 1}) {
          const auto collective = static_cast<Collective>(kind);
          if (root != 0 && !info(collective).rooted) continue;
          const auto schedule = planner.plan(machine, collective, root);
          if (!schedule) continue;
          INFO(planner.name << " " << info(collective).name << " ranks " << schedule->ranks << " root " << root);
          check(*schedule);
          ++schedules;
        }
  return schedules;
}

}  // namespace

TEST_CASE("all that run or play programs agree on what operations wait for and when they are done") {
  CHECK(for_every_schedule(check_agreement) > 300);
}

// Of its longest messages the host's ring for short ones holds fewer than there are slots.
TEST_CASE("no program needs more of the longest short messages in flight than a ring holds") {
  for_every_schedule([](const schedule::Schedule& schedule) {
    const schedule::Program program = schedule::prepare(schedule, kernels::kMessagesInFlight);
    World interpreted(schedule, program, device::Protocol::ll, 1, device::kInlineMessageBytes);
    interpreted.interpret<OneInline>();
    interpreted.check_end();
    World short_calls(schedule, program, device::Protocol::ll, 1, device::kInlineMessageBytes);
    short_calls.run_short();
    short_calls.check_end();
  });
}
