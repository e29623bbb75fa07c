// Payloads that several ranks read from one slot, by ranks of one thread that take turns at random.
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <random>

#include "kernels/host/target.h"
#include "kernels/program/flat_program.h"
#include "schedule/layout.h"
#include "schedule/lowering/prepare.h"
#include "sum_call.h"
#include "topology/presets.h"

using namespace sccl;
using device::Outcome;
using device::u32;
using device::u64;
using device::u8;
using kernels::FlatProgram;
using kernels::HostTarget;

namespace {

constexpr int kRanks = 3;
constexpr u64 kSlotBytes = 64;

using Sends = std::vector<schedule::Send>;

schedule::Schedule schedule_of(Collective collective, int chunks_per_rank, const Sends& sends) {
  return schedule::make_schedule("test", collective, 0, topology::host(kRanks), chunks_per_rank, sends);
}
// Everyone writes the same to all others.
schedule::Schedule all_pairs() {
  Sends sends;
  for (Rank to = 0; to < kRanks; ++to)
    for (Rank from = 0; from < kRanks; ++from)
      if (from != to) sends.push_back({0, from, to, 0, schedule::SendKind::reduce});
  return schedule_of(Collective::allreduce, 1, sends);
}
// Something else to each, then the same to all.
schedule::Schedule one_hop() {
  Sends sends;
  for (Rank owner = 0; owner < kRanks; ++owner)
    for (Rank rank = 0; rank < kRanks; ++rank)
      if (rank != owner) {
        sends.push_back({owner, rank, owner, 0, schedule::SendKind::reduce});
        sends.push_back({owner, owner, rank, 1, schedule::SendKind::copy});
      }
  return schedule_of(Collective::allreduce, kRanks, sends);
}
// Only to the next.
schedule::Schedule ring() {
  Sends sends;
  for (Rank first = 0; first < kRanks; ++first)
    for (int step = 0; step < 2 * (kRanks - 1); ++step)
      sends.push_back({first, (first + step) % kRanks, (first + step + 1) % kRanks, step,
                       step < kRanks - 1 ? schedule::SendKind::reduce : schedule::SendKind::copy});
  return schedule_of(Collective::allreduce, kRanks, sends);
}

// From rank 0 to all at once, and from one to the next: there rank 0 needs nobody but rank 1.
schedule::Schedule star() {
  return schedule_of(Collective::broadcast, 1,
                     {{0, 0, 1, 0, schedule::SendKind::copy}, {0, 0, 2, 0, schedule::SendKind::copy}});
}
schedule::Schedule chain() {
  return schedule_of(Collective::broadcast, 1,
                     {{0, 0, 1, 0, schedule::SendKind::copy}, {0, 1, 2, 1, schedule::SendKind::copy}});
}

struct Program {
  explicit Program(schedule::Schedule of)
      : schedule(std::move(of)), lowered(schedule::prepare(schedule, device::kSlotCount)) {}
  schedule::Schedule schedule;
  schedule::Program lowered;
};

// The slots that a rank receives through lie one after the other, by sender.
struct Memory {
  std::vector<u8> slots = std::vector<u8>(kRanks * device::kSlotCount * kSlotBytes);
  std::deque<device::Ring> rings = std::deque<device::Ring>(kRanks);
  host::Doorbell bell;
};

class TestRank {
 public:
  TestRank(Rank rank, std::deque<Memory>& all) : rank_(rank), shared_slots_(kRanks), connections_(2 * kRanks) {
    std::vector<u8*> bases;
    for (Memory& memory : all) bases.push_back(memory.slots.data());
    target_.set_shared_memory(bases);
    for (Rank peer = 0; peer < kRanks; ++peer)
      for (const bool sends : {true, false}) {
        const auto source = static_cast<std::size_t>(sends ? rank : peer);
        Memory& owner = all[static_cast<std::size_t>(sends ? peer : rank)];
        kernels::HostConnection& connection = connections_[static_cast<std::size_t>(sends ? peer : kRanks + peer)];
        connection = {};
        connection.ring = &owner.rings[source];
        connection.payload = owner.slots.data() + source * device::kSlotCount * kSlotBytes;
        connection.slot_bytes = kSlotBytes;
        connection.depth = device::kSlotCount;
        connection.peer = peer;
        connection.peer_bell = &all[static_cast<std::size_t>(peer)].bell;
        if (sends) connection.shared_slots = &shared_slots_[static_cast<std::size_t>(peer)];
      }
  }

  void begin(const Program& program, std::size_t count, u32 value) {
    schedule::RankProgram mine = program.lowered.ranks[static_cast<std::size_t>(rank_)];
    const auto bind = [&](std::vector<schedule::Access>& accesses) {
      for (schedule::Access& access : accesses) {
        if (access.connection < 0) continue;
        const schedule::Connection& end = mine.connections[static_cast<std::size_t>(access.connection)];
        access.connection = (end.direction == schedule::Direction::outgoing ? 0 : kRanks) + end.peer;
      }
    };
    for (schedule::Lane& lane : mine.lanes)
      for (schedule::Op& op : lane.ops) {
        bind(op.operands);
        bind(op.destinations);
      }
    flat_.assign(mine);
    input.assign(count, value);
    output.assign(count, 0);
    call_ = sccl_test::sum_call(program.schedule, count, chunks_, input.data(), output.data(), kSlotBytes);
    scratch_.resize(static_cast<std::size_t>(flat_.scratch_slots()) * kSlotBytes);
    call_.scratch = scratch_.data();
    call_.lends_slots = flat_.may_lend();
    call_.signature = static_cast<u32>(++calls_);
    lanes_.assign(flat_.lane_count(), {0, 0, 0, -1});
    target_.reserve(flat_.most_operands(), flat_.most_destinations(), 0);
  }

  // One step of a lane; true when all are through.
  bool step(std::mt19937& random) {
    const device::Program view = flat_.view();
    device::Interpreter<HostTarget> interpreter(view, call_, connections_.data(), lanes_.data(), target_);
    const Outcome outcome = interpreter.step(static_cast<u32>(random() % lanes_.size()));
    REQUIRE(outcome != Outcome::mismatch);
    if (outcome != Outcome::finished) return false;
    for (u32 lane = 0; lane < lanes_.size(); ++lane)
      if (interpreter.step(lane) != Outcome::finished) return false;
    return true;
  }

  std::vector<u32> input, output;

 private:
  Rank rank_;
  FlatProgram flat_;
  std::vector<kernels::SharedSlots> shared_slots_;
  std::vector<kernels::HostConnection> connections_;  // outgoing by peer, then incoming
  std::vector<device::LaneState> lanes_;
  std::vector<device::Chunk> chunks_;
  std::vector<u8> scratch_;
  HostTarget target_;
  device::Call call_{};
  u64 calls_ = 0;
};

}  // namespace

TEST_CASE("ranks read what is lent to them, whatever comes before and after") {
  const Program programs[] = {Program(all_pairs()), Program(one_hop()), Program(ring()), Program(star()),
                              Program(chain())};
  for (const unsigned seed : {1u, 2u, 3u, 4u}) {
    std::mt19937 random(seed);
    std::deque<Memory> memory(kRanks);
    std::deque<TestRank> ranks;
    for (Rank rank = 0; rank < kRanks; ++rank) ranks.emplace_back(rank, memory);
    struct Planned {
      const Program* program;
      std::size_t count;
    };
    std::vector<Planned> calls;
    for (int i = 0; i < 300; ++i) calls.push_back({&programs[random() % std::size(programs)], 1 + random() % 400});
    std::vector<std::size_t> at(kRanks, 0);
    std::vector<bool> running(kRanks, false);
    for (std::size_t turn = 0; std::any_of(at.begin(), at.end(), [&](std::size_t done) { return done < calls.size(); });
         ++turn) {
      REQUIRE(turn < 5'000'000);
      const std::size_t rank = random() % kRanks;
      if (at[rank] == calls.size()) continue;
      const Planned& call = calls[at[rank]];
      const auto value = static_cast<u32>(at[rank] * 10);
      if (!running[rank]) ranks[rank].begin(*call.program, call.count, value + static_cast<u32>(rank));
      running[rank] = !ranks[rank].step(random);
      if (running[rank]) continue;
      const bool broadcast = call.program->schedule.collective == Collective::broadcast;
      REQUIRE(ranks[rank].output == std::vector<u32>(call.count, broadcast ? value : 3 * value + 3));
      ++at[rank];
    }
  }
}

TEST_CASE("a slot that somebody still reads is not written") {
  for (const u32 depth : {device::kSlotCount, device::kMostDepth}) {
    device::Ring ring{};
    kernels::SharedSlots shared_slots;
    kernels::HostConnection lender{}, borrower{};
    lender.depth = depth;
    borrower.ring = &ring;
    borrower.peer = 7;
    borrower.position = 5;
    shared_slots.lend(lender, borrower);
    const auto reader_of = [&](u64 position) {
      lender.position = position;
      return shared_slots.reader<HostTarget>(lender);
    };
    CHECK(reader_of(1) == nullptr);
    REQUIRE(reader_of(depth) == &borrower);
    ring.tail.value = 5;  // up to the message before
    CHECK(reader_of(depth) == &borrower);
    ring.tail.value = 6;
    CHECK(reader_of(depth) == nullptr);
    CHECK(reader_of(depth) == nullptr);
  }
}

TEST_CASE("programs lend where no connection carries more messages in a slice than it has slots") {
  const auto lends = [](const schedule::Schedule& schedule) {
    FlatProgram flat(schedule::prepare(schedule, device::kSlotCount).ranks[0]);
    return flat.may_lend();
  };
  CHECK(lends(all_pairs()));
  CHECK(lends(one_hop()));
  CHECK(lends(star()));
  CHECK_FALSE(lends(ring()));
  CHECK_FALSE(lends(chain()));
  // The same as often as slots, and once more.
  Sends sends;
  for (const int chunks : {4, 5}) {
    sends.clear();
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (Rank to = 1; to < kRanks; ++to) sends.push_back({chunk, 0, to, 0, schedule::SendKind::copy});
    CHECK(lends(schedule_of(Collective::broadcast, chunks, sends)) == (chunks == 4));
  }
}
