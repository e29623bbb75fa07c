// Which calls are reduced by the ranks that are there, decided by how far apart ranks come.
#include "runtime/host/choosing/arrival_gate.h"

#include <catch2/catch.hpp>
#include <memory>

#include "runtime/choice/tuning/size_class.h"
#include "runtime/control/arrivals.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

constexpr int kRanks = 3;
constexpr std::size_t kBytes = 65536;

// The ranks of a communicator, whose calls a test makes at times of its own choice.
class World {
 public:
  World() {
    for (Rank rank = 0; rank < kRanks; ++rank) states_.push_back(std::make_unique<SharedState>());
    for (Rank rank = 0; rank < kRanks; ++rank) {
      std::vector<Member> members(kRanks);
      for (Rank of = 0; of < kRanks; ++of)
        members[static_cast<std::size_t>(of)].state = states_[static_cast<std::size_t>(of)].get();
      auto& membership = memberships_.emplace_back(std::make_unique<Membership>());
      membership->rank = rank;
      membership->ranks = kRanks;
      membership->control = ControlPlane(rank, std::move(members));
      meters_.push_back(std::make_unique<ArrivalMeter>(membership->control, "test"));
      gates_.push_back(std::make_unique<ArrivalGate>(*membership));
    }
  }

  ArrivalGate& gate(Rank rank) { return *gates_[static_cast<std::size_t>(rank)]; }
  std::uint64_t calls() const { return calls_; }

  // Calls whose last rank comes so long after the others.
  void call(int times, std::uint64_t late_ns, Collective collective = Collective::allreduce) {
    for (int i = 0; i < times; ++i) {
      now_ns_ += 10'000'000;
      const CallSignature signature{++calls_, collective, kBytes, DataType::int8, ReduceOp::sum, 0};
      for (Rank rank = 0; rank < kRanks; ++rank) {
        meters_[static_cast<std::size_t>(rank)]->enter(calls_, {collective, SizeClass::of(kBytes).number}, kBytes,
                                                       now_ns_ + (rank == kRanks - 1 ? late_ns : 0));
        gate(rank).decide(signature);
      }
    }
  }
  bool is_open(std::uint64_t sequence, Collective collective = Collective::allreduce) {
    const bool open = gate(0).is_open(collective, kBytes, sequence);
    for (Rank rank = 1; rank < kRanks; ++rank) REQUIRE(gate(rank).is_open(collective, kBytes, sequence) == open);
    return open;
  }

 private:
  std::vector<std::unique_ptr<SharedState>> states_;
  std::vector<std::unique_ptr<Membership>> memberships_;
  std::vector<std::unique_ptr<ArrivalMeter>> meters_;
  std::vector<std::unique_ptr<ArrivalGate>> gates_;
  std::uint64_t calls_ = 0;
  std::uint64_t now_ns_ = 0;
};

constexpr std::uint64_t kFarNs = 5'000'000;

}  // namespace

TEST_CASE("the gate opens when ranks come far apart and closes when they come together") {
  World world;
  world.call(130, 0);
  CHECK_FALSE(world.is_open(world.calls() + 1));
  world.call(130, kFarNs);
  CHECK(world.is_open(world.calls() + 1));
  CHECK_FALSE(world.gate(0).is_open(Collective::allreduce, 1024, world.calls() + 1));  // another range of sizes
  CHECK_FALSE(world.is_open(world.calls() + 1, Collective::reduce));
  CHECK_FALSE(world.is_open(world.calls() + 1, Collective::allgather));
  world.call(130, 0);
  CHECK_FALSE(world.is_open(world.calls() + 1));
}

TEST_CASE("a decision holds for later calls only, and is news until one of them begins") {
  World world;
  std::uint64_t decided = 0;
  while (decided == 0 && world.calls() < 100) {
    world.call(1, kFarNs);
    if (world.is_open(world.calls() + 1)) decided = world.calls();
  }
  REQUIRE(decided != 0);
  CHECK_FALSE(world.is_open(decided));
  CHECK_FALSE(world.is_open(1));
  for (Rank rank = 0; rank < kRanks; ++rank) {
    ArrivalGate& gate = world.gate(rank);
    CHECK(gate.has_news());
    gate.note_begin(decided);
    CHECK(gate.has_news());
    gate.note_begin(decided + 1);
    CHECK_FALSE(gate.has_news());
  }
}

TEST_CASE("the gate does not move in calls that ranks may end without one another") {
  World world;
  world.call(100, kFarNs, Collective::reduce);
  CHECK_FALSE(world.is_open(world.calls() + 1, Collective::reduce));
  world.call(20, 0);  // which all ranks end together
  CHECK(world.is_open(world.calls() + 1, Collective::reduce));
}
