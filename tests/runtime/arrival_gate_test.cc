// Which calls are reduced by the ranks that are there: decided by trials, where ranks come far apart.
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

// The ranks of a communicator, whose calls a test makes at times of its own choice. On several hosts they share their
// states all the same: news takes no time.
class World {
 public:
  enum class Hosts { one, one_for_each_rank };
  explicit World(Hosts hosts = Hosts::one) {
    for (Rank rank = 0; rank < kRanks; ++rank) states_.push_back(std::make_unique<SharedState>());
    for (Rank rank = 0; rank < kRanks; ++rank) {
      std::vector<Member> members(kRanks);
      std::vector<Peer> peers(kRanks);
      std::vector<std::uint64_t> hashes(kRanks, 0);
      for (Rank of = 0; of < kRanks; ++of) {
        members[static_cast<std::size_t>(of)].state = states_[static_cast<std::size_t>(of)].get();
        if (hosts == Hosts::one) continue;
        hashes[static_cast<std::size_t>(of)] = static_cast<std::uint64_t>(of);
        if (of != rank)
          members[static_cast<std::size_t>(of)].locality = peers[static_cast<std::size_t>(of)].locality =
              Locality::remote;
      }
      auto& membership = memberships_.emplace_back(std::make_unique<Membership>());
      membership->rank = rank;
      membership->ranks = kRanks;
      membership->peers = std::move(peers);
      membership->hosts = group_by_host(hashes, std::vector<std::string>(kRanks, "host"));
      membership->control = ControlPlane(rank, std::move(members));
      meters_.push_back(std::make_unique<ArrivalMeter>(membership->control, "test"));
      gates_.push_back(std::make_unique<ArrivalGate>(*membership, [] { return now_ns_; }));
    }
  }

  ArrivalGate& gate(Rank rank) { return *gates_[static_cast<std::size_t>(rank)]; }
  std::uint64_t calls() const { return calls_; }

  // What a call takes after the last arrival when it is reduced by the ranks that are there; else it takes 100 us.
  void set_tail(std::uint64_t ns) { tail_ns_ = ns; }
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
      for (Rank rank = 0; rank < kRanks; ++rank) REQUIRE(gate(rank).settle(signature));
      const bool by_arrival = is_open(calls_, collective);
      opened_ += by_arrival ? 1 : 0;
      const std::uint64_t last_ns = now_ns_ + late_ns;
      const std::uint64_t left_ns = last_ns + (by_arrival ? tail_ns_ : 100'000);
      for (Rank rank = 0; rank < kRanks; ++rank)
        gate(rank).note_left(
            {collective, kBytes, by_arrival, now_ns_ + (rank == kRanks - 1 ? late_ns : 0), last_ns, left_ns});
    }
  }
  // Of `times` calls: how many were reduced by the ranks that were there.
  int opened(int times, std::uint64_t late_ns) {
    opened_ = 0;
    call(times, late_ns);
    return opened_;
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
  static inline std::uint64_t now_ns_ = 0;
  std::uint64_t tail_ns_ = 50'000;
  int opened_ = 0;
};

constexpr std::uint64_t kFarNs = 5'000'000;
constexpr int kTrialCalls = 64 * 10;  // a trial has ended after so many

}  // namespace

TEST_CASE("the gate opens when ranks come far apart and closes when they come together") {
  World world;
  CHECK(world.opened(kTrialCalls, 0) == 0);
  world.call(kTrialCalls, kFarNs);
  CHECK(world.is_open(world.calls() + 1));
  CHECK_FALSE(world.gate(0).is_open(Collective::allreduce, 1024, world.calls() + 1));  // another range of sizes
  CHECK_FALSE(world.is_open(world.calls() + 1, Collective::reduce));
  CHECK_FALSE(world.is_open(world.calls() + 1, Collective::allgather));
  CHECK(world.opened(kTrialCalls, kFarNs) == kTrialCalls);
  world.call(130, 0);
  CHECK_FALSE(world.is_open(world.calls() + 1));
}

TEST_CASE("both forms take turns in a trial, and the one whose calls cost less stays") {
  World world;
  world.set_tail(110'000);
  const int opened = world.opened(kTrialCalls, kFarNs);
  CHECK(opened > kTrialCalls / 4);
  CHECK(opened < kTrialCalls * 3 / 4);
  CHECK_FALSE(world.is_open(world.calls() + 1));
}

TEST_CASE("a trial that saves less than chance leaves the usual form") {
  World world;
  world.set_tail(99'000);
  world.call(kTrialCalls, kFarNs);
  CHECK_FALSE(world.is_open(world.calls() + 1));
}

TEST_CASE("trials that do not pay become more seldom") {
  World world;
  world.set_tail(200'000);
  constexpr int kMany = 64 * 1000;
  const int first = world.opened(kMany, kFarNs);
  CHECK(first > 0);
  CHECK(first < kMany / 25);
  const int second = world.opened(kMany, kFarNs);
  CHECK(second < first);
}

TEST_CASE("ranks that come much further apart than at the last trial are tried at once") {
  World world;
  world.set_tail(200'000);
  world.call(2 * kTrialCalls, kFarNs / 10);
  CHECK_FALSE(world.is_open(world.calls() + 1));
  world.set_tail(50'000);
  world.call(kTrialCalls, kFarNs);
  CHECK(world.is_open(world.calls() + 1));
}

TEST_CASE("where the usual form has become the faster one, a later trial finds out") {
  World world;
  world.call(kTrialCalls, kFarNs);
  CHECK(world.is_open(world.calls() + 1));
  world.set_tail(200'000);
  constexpr int kMany = 64 * 300;
  world.call(kMany, kFarNs);
  CHECK(world.opened(kMany, kFarNs) < kMany / 10);
}

TEST_CASE("a rank that was without a core for long in one call does not decide alone") {
  World world;
  world.call(64 * 2, kFarNs);
  for (int i = 0; i < 10; ++i) {
    const bool open = world.is_open(world.calls() + 1);
    if (open) {  // in the turns of the form that saves half of the time
      world.set_tail(1'000'000'000);
      world.call(1, kFarNs);
      world.set_tail(50'000);
    }
    world.call(open ? 63 : 64, kFarNs);
  }
  CHECK(world.is_open(world.calls() + 1));
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
    CHECK(gate.has_news(decided));
    gate.note_begin(decided);
    CHECK(gate.has_news(decided + 1));
    gate.note_begin(decided + 1);
    CHECK_FALSE(gate.has_news(decided + 2));
  }
}

TEST_CASE("the gate does not move in calls that ranks may end without one another") {
  World world;
  world.call(100, kFarNs, Collective::reduce);
  CHECK_FALSE(world.is_open(world.calls() + 1, Collective::reduce));
  world.call(20, 0);                                            // which all ranks end together
  CHECK(world.is_open(world.calls() + 1, Collective::reduce));  // on trial
}

TEST_CASE("over hosts the gate opens where it pays, and closes when ranks come together") {
  World world(World::Hosts::one_for_each_rank);
  constexpr int kManyCalls = 128 * 12;
  CHECK(world.opened(kManyCalls, 0) == 0);
  world.call(kManyCalls, kFarNs);
  CHECK(world.is_open(world.calls() + 1));
  CHECK_FALSE(world.is_open(world.calls() + 1, Collective::reducescatter));
  CHECK(world.opened(kManyCalls, kFarNs) == kManyCalls);
  world.call(3 * 128, 0);
  CHECK_FALSE(world.is_open(world.calls() + 1));
}

TEST_CASE("over hosts a form that costs more does not stay") {
  World world(World::Hosts::one_for_each_rank);
  world.set_tail(110'000);
  constexpr int kManyCalls = 128 * 12;
  const int opened = world.opened(kManyCalls, kFarNs);
  CHECK(opened > kManyCalls / 4);
  CHECK(opened < kManyCalls * 3 / 4);
  CHECK_FALSE(world.is_open(world.calls() + 1));
}

TEST_CASE("over hosts a call that may be a point is never taken for a repetition") {
  World world(World::Hosts::one_for_each_rank);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    CHECK_FALSE(world.gate(rank).has_news(127));
    CHECK(world.gate(rank).has_news(128));
  }
  world.call(128, 0);
  for (Rank rank = 0; rank < kRanks; ++rank) CHECK_FALSE(world.gate(rank).has_news(129));
}
