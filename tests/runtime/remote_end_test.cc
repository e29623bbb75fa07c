// A connection whose ends share no memory: each rank works on a ring of its own, and a transport moves published slots
// and tails between the two rings. So a transport to another host needs nothing from the interpreter.
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <map>
#include <random>

#include "kernels/host/target.h"
#include "kernels/program/flat_program.h"
#include "planners/planners.h"
#include "runtime/program/connections.h"
#include "runtime/transport/transport.h"
#include "schedule/layout.h"
#include "schedule/lowering/prepare.h"
#include "sum_call.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::runtime;
using device::u32;
using device::u64;
using device::u8;

namespace {

constexpr u64 kSlotBytes = 64;

// A ring with its slots, in one rank's private memory.
struct LocalRing {
  device::Ring ring{};
  std::vector<u8> slots = std::vector<u8>(device::kSlotCount * kSlotBytes);
};

// What lies between two hosts: by sender and receiver, the ring at either end.
class Wire {
 public:
  struct Way {
    LocalRing at_sender, at_receiver;
    u64 moved = 0;
  };
  Way& way(Rank sender, Rank receiver) { return ways_[{sender, receiver}]; }

  // One slot, or one tail, of one way. What a progress thread does all the time.
  void move(Rank sender, Rank receiver) {
    Way& one = way(sender, receiver);
    const u64 slot = one.moved % device::kSlotCount;
    const u64 header = one.moved % device::kMostDepth;
    const device::SlotHeader& from = one.at_sender.ring.headers[header];
    if (kernels::HostTarget::load_acquire(&from.flag) == one.moved + 1) {
      std::memcpy(one.at_receiver.slots.data() + slot * kSlotBytes, one.at_sender.slots.data() + slot * kSlotBytes,
                  kSlotBytes);
      device::SlotHeader& to = one.at_receiver.ring.headers[header];
      to.signature = from.signature;
      to.bytes = from.bytes;
      to.lent = 0;
      kernels::HostTarget::store_release(&to.flag, ++one.moved);
    }
    kernels::HostTarget::store_release(&one.at_sender.ring.tail.value,
                                       kernels::HostTarget::load_acquire(&one.at_receiver.ring.tail.value));
  }
  std::size_t ways() const { return ways_.size(); }

 private:
  std::map<std::pair<Rank, Rank>, Way> ways_;
};

class WireTransport final : public HostTransport {
 public:
  WireTransport(Wire& wire, Rank rank) : wire_(wire), rank_(rank) {}

  const char* name() const override { return "wire"; }
  bool reaches(Rank peer) const override { return peer != rank_; }
  EndTraits traits(const EndRequest&) const override { return {Locality::remote, kSlotBytes, false, false}; }
  void connect(const EndRequest& request, kernels::HostConnection& end) override {
    const bool sends = request.direction == schedule::Direction::outgoing;
    LocalRing& own = sends ? wire_.way(rank_, request.peer).at_sender : wire_.way(request.peer, rank_).at_receiver;
    end = {};
    end.ring = &own.ring;
    end.payload = own.slots.data();
    end.slot_bytes = kSlotBytes;
    end.depth = device::kSlotCount;
    end.peer = request.peer;
    end.peer_bell = &bell_;  // of whatever moves the slots
  }

 private:
  Wire& wire_;
  Rank rank_;
  host::Doorbell bell_;
};

class RemoteRank {
 public:
  RemoteRank(Rank rank, int ranks, Wire& wire) : rank_(rank), transport_(wire, rank) {
    ends_.resize(static_cast<std::size_t>(connection_count(1, ranks)));
    for (Rank peer = 0; peer < ranks; ++peer)
      for (const auto direction : {schedule::Direction::outgoing, schedule::Direction::incoming})
        if (transport_.reaches(peer))
          transport_.connect({direction, peer},
                             ends_[static_cast<std::size_t>(connection_index(0, direction, peer, ranks))]);
  }

  void begin(const schedule::Schedule& schedule, const schedule::Program& program, std::size_t count, u32 value) {
    schedule::RankProgram mine = program.ranks[static_cast<std::size_t>(rank_)];
    bind_connections(mine, 0, static_cast<int>(program.ranks.size()));
    flat_.assign(mine);
    input_.assign(count, value);
    output.assign(count, 0);
    call_ = sccl_test::sum_call(schedule, count, chunks_, input_.data(), output.data(), kSlotBytes);
    call_.signature = 77;
    scratch_.resize(kSlotBytes * static_cast<std::size_t>(flat_.scratch_slots()));
    call_.scratch = scratch_.data();
    target_.reserve(flat_.most_operands(), flat_.most_destinations(), 0);
    lanes_.assign(flat_.lane_count(), device::LaneState{0, 0, 0, -1});
  }

  // True when the rank's share of the call is done.
  bool turn() {
    const device::Program view = flat_.view();
    device::Interpreter<kernels::HostTarget> interpreter(view, call_, ends_.data(), lanes_.data(), target_);
    bool done = true;
    for (u32 lane = 0; lane < lanes_.size(); ++lane) {
      const device::Outcome outcome = interpreter.step(lane);
      if (outcome == device::Outcome::mismatch || outcome == device::Outcome::failed) FAIL("a lane ended early");
      done = done && outcome == device::Outcome::finished;
    }
    return done;
  }

  std::vector<u32> output;

 private:
  Rank rank_;
  WireTransport transport_;
  kernels::HostTarget target_;
  std::vector<kernels::HostConnection> ends_;
  kernels::FlatProgram flat_;
  device::Call call_{};
  std::vector<device::Chunk> chunks_;
  std::vector<device::LaneState> lanes_;
  std::vector<u32> input_;
  std::vector<u8> scratch_;
};

void all_reduce(const char* planner, int ranks, std::uint32_t seed) {
  INFO(planner << " of " << ranks << " ranks, seed " << seed);
  const auto schedule = planners::find(planner)->plan(topology::host(ranks), Collective::allreduce, 0);
  REQUIRE(schedule);
  const schedule::Program program = schedule::prepare(*schedule, device::kSlotCount);
  Wire wire;
  std::deque<RemoteRank> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.emplace_back(rank, ranks, wire);
  std::mt19937 random(seed);
  // Several calls, so that rings wrap and tails of one call serve the next.
  for (u32 call = 1; call <= 3; ++call) {
    u32 sum = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const u32 value = call * 100 + static_cast<u32>(rank);
      all[static_cast<std::size_t>(rank)].begin(*schedule, program, 333, value);
      sum += value;
    }
    std::size_t done = 0;
    std::vector<bool> is_done(static_cast<std::size_t>(ranks));
    for (int turns = 0; done < is_done.size(); ++turns) {
      if (turns == 1000000) FAIL("the ranks do not come to an end");
      const auto rank = static_cast<Rank>(random() % static_cast<unsigned>(ranks));
      const auto other = static_cast<Rank>(random() % static_cast<unsigned>(ranks));
      if (rank != other) wire.move(rank, other);
      if (is_done[static_cast<std::size_t>(rank)] || !all[static_cast<std::size_t>(rank)].turn()) continue;
      is_done[static_cast<std::size_t>(rank)] = true;
      ++done;
    }
    for (const RemoteRank& rank : all) CHECK(rank.output == std::vector<u32>(333, sum));
  }
}

}  // namespace

TEST_CASE("ranks without common memory reduce through a transport that moves slots and tails") {
  for (const char* planner : {"ring", "one-hop", "recursive"})
    for (const int ranks : {2, 4})
      for (std::uint32_t seed = 1; seed <= 3; ++seed) all_reduce(planner, ranks, seed);
}
