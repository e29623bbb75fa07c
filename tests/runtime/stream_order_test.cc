// Orders of streams: played by all ranks at once, each strictly in its own order, none gets stuck.
#include "runtime/gpu/stream/stream_order.h"

#include <catch2/catch.hpp>
#include <random>

#include "planners/planners.h"
#include "runtime/program/transfers.h"
#include "runtime/transport/stream/stream_log.h"
#include "schedule/lowering/prepare.h"
#include "topology/topology.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

constexpr int kSlots = 4;

// A message that a rank's stream sends or receives when its turn comes.
struct Step {
  bool sends;
  Rank peer;
};

// Whether all streams end when each runs its steps in order; steps of one turn need all of them to be possible at once.
bool all_end(const std::vector<std::vector<std::vector<Step>>>& streams) {
  const std::size_t ranks = streams.size();
  std::vector<std::size_t> at(ranks);
  std::vector<int> in_slots(ranks * ranks);
  const auto link = [&](std::size_t from, std::size_t to) -> int& { return in_slots[from * ranks + to]; };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (at[rank] == streams[rank].size()) continue;
      const auto& turn = streams[rank][at[rank]];
      const bool possible = std::all_of(turn.begin(), turn.end(), [&](const Step& step) {
        const auto peer = static_cast<std::size_t>(step.peer);
        return step.sends ? link(rank, peer) < kSlots : link(peer, rank) > 0;
      });
      if (!possible) continue;
      for (const Step& step : turn)
        step.sends ? ++link(rank, static_cast<std::size_t>(step.peer))
                   : --link(static_cast<std::size_t>(step.peer), rank);
      ++at[rank];
      moved = true;
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (at[rank] != streams[rank].size()) return false;
  return true;
}

std::vector<Step> steps_of(const schedule::RankProgram& program, const StreamTurn& turn) {
  std::vector<Step> steps;
  const schedule::Op& op = program.lanes[turn.lane].ops[turn.op];
  for (const auto& access : op.operands)
    if (access.via == schedule::Via::slot)
      steps.push_back({false, program.connections[static_cast<std::size_t>(access.connection)].peer});
  for (const auto& access : op.destinations)
    if (access.via == schedule::Via::slot)
      steps.push_back({true, program.connections[static_cast<std::size_t>(access.connection)].peer});
  return steps;
}

}  // namespace

TEST_CASE("orders of every planner's collectives end with any chunks left out") {
  std::mt19937 random(7);
  for (const char* name : {"ring", "one-hop", "all-pairs", "recursive", "binomial"})
    for (const int ranks : {2, 3, 4, 8})
      for (int kind = 0; kind < kCollectiveCount; ++kind) {
        const auto schedule = planners::find(name)->plan(topology::host(ranks), static_cast<Collective>(kind), 0);
        if (!schedule) continue;
        const schedule::Program program = schedule::prepare(*schedule, kSlots);
        for (const std::uint64_t slices : {1, 3, 16}) {
          INFO(name << " " << ranks << " ranks, collective " << kind << ", " << slices << " slices");
          // Chunks have different numbers of slices; what is beyond them moves nothing, at either end.
          std::vector<std::uint64_t> slices_of(static_cast<std::size_t>(schedule->chunks));
          for (auto& count : slices_of) count = random() % (slices + 1);
          std::vector<std::vector<std::vector<Step>>> whole, cut;
          for (Rank rank = 0; rank < ranks; ++rank) {
            whole.emplace_back();
            cut.emplace_back();
            std::size_t operations = 0;
            const auto& own = program.ranks[static_cast<std::size_t>(rank)];
            for (const auto& lane : own.lanes) operations += lane.ops.size();
            const auto order = order_collective(program, rank, slices, kSlots);
            CHECK(order.size() == operations * slices);
            for (const StreamTurn& turn : order) {
              whole.back().push_back(steps_of(own, turn));
              if (turn.slice < slices_of[static_cast<std::size_t>(own.lanes[turn.lane].ops[turn.op].chunk)])
                cut.back().push_back(steps_of(own, turn));
            }
          }
          CHECK(all_end(whole));
          CHECK(all_end(cut));
        }
      }
}

TEST_CASE("orders of transfers end whatever the sizes") {
  std::mt19937 random(11);
  constexpr std::uint64_t kSliceBytes = 1000;
  for (int round = 0; round < 50; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 4);
    std::vector<std::vector<PointToPointRequest>> batches(static_cast<std::size_t>(ranks));
    for (Rank from = 0; from < ranks; ++from)
      for (Rank to = 0; to < ranks; ++to)
        for (unsigned i = random() % 3; i > 0; --i) {
          const std::size_t bytes = random() % 3 == 0 ? random() % 3 : random() % 40000;
          batches[static_cast<std::size_t>(from)].push_back(
              {Direction::send, nullptr, bytes, DataType::int8, to, nullptr});
          batches[static_cast<std::size_t>(to)].push_back(
              {Direction::recv, nullptr, bytes, DataType::int8, from, nullptr});
        }
    std::vector<std::vector<std::vector<Step>>> streams;
    for (Rank rank = 0; rank < ranks; ++rank) {
      streams.emplace_back();
      TransferBatch batch;
      batch.lower(batches[static_cast<std::size_t>(rank)], rank, ranks, false);
      const device::Program program = batch.program().view();
      for (const StreamTurn& turn : order_transfers(program, batch.chunks().data(), kSliceBytes)) {
        const device::Op& op = program.ops[program.lanes[turn.lane].op_begin + turn.op];
        std::vector<Step> steps;
        for (unsigned i = 0; i < op.operand_count; ++i)
          if (const auto& access = program.operands[op.operand_begin + i]; access.via == device::Via::slot)
            steps.push_back({false, access.connection % ranks});
        for (unsigned i = 0; i < op.destination_count; ++i)
          if (const auto& access = program.destinations[op.destination_begin + i]; access.via == device::Via::slot)
            steps.push_back({true, access.connection % ranks});
        streams.back().push_back(std::move(steps));
      }
    }
    INFO("round " << round);
    CHECK(all_end(streams));
  }
}

TEST_CASE("the log of waits keeps captured calls and forgets what has finished") {
  StreamLog log;
  std::uint32_t word = 0;
  const std::uint32_t captured = log.begin(0, 0);
  log.append(captured, {&word, 7, 3});
  const std::uint32_t first = log.begin(1, 0);
  CHECK(log.append(first, {&word, 1, 1}) == 1);
  CHECK(log.append(first, {&word, 2, 2}) == 2);
  CHECK(log.find(first, 2)->value == 2);
  CHECK_FALSE(log.find(first, 0));
  CHECK_FALSE(log.find(first, 3));
  log.begin(2, 1);
  CHECK_FALSE(log.find(first, 1));
  CHECK(log.find(captured, 1)->peer == 3);
}
