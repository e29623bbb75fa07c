// Who is last how often: the measures of one call, the sums over many, and the rank that is named.
#include "runtime/control/arrivals.h"

#include <catch2/catch.hpp>
#include <memory>

using namespace sccl;
using namespace sccl::runtime;

namespace {

constexpr ArrivalKind kShort{Collective::allreduce, 7};
constexpr ArrivalKind kLong{Collective::allgather, 41};
constexpr std::size_t kLongBytes = ArrivalMeter::kLongBytes;

ArrivalSpread spread(std::vector<std::uint64_t> arrivals) {
  std::vector<std::uint64_t> scratch;
  return spread_of(arrivals, scratch);
}

// The ranks of a communicator, whose calls a test makes at times of its own choice.
class World {
 public:
  explicit World(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) states_.push_back(std::make_unique<SharedState>());
    for (Rank rank = 0; rank < ranks; ++rank) {
      std::vector<Member> members;
      for (const auto& state : states_) {
        members.emplace_back().state = state.get();
        members.back().host = "n2";
      }
      planes_.push_back(std::make_unique<ControlPlane>(rank, std::move(members)));
      meters_.push_back(std::make_unique<ArrivalMeter>(*planes_.back(), "test"));
    }
  }

  int ranks() const { return static_cast<int>(states_.size()); }
  // As the executor does.
  void enter(Rank rank, std::uint64_t call, const ArrivalKind& kind, std::size_t bytes, std::uint64_t at_ns) {
    ArrivalMeter& meter = *meters_[static_cast<std::size_t>(rank)];
    if (bytes >= kLongBytes || call >= meter.next()) meter.enter(call, kind, bytes, at_ns);
  }
  void call(std::uint64_t number, const ArrivalKind& kind, std::size_t bytes, const std::vector<std::uint64_t>& at_ns) {
    for (Rank rank = 0; rank < ranks(); ++rank) enter(rank, number, kind, bytes, at_ns[static_cast<std::size_t>(rank)]);
  }
  ArrivalReport report() const { return arrival_report(planes_.front()->members()); }

 private:
  std::vector<std::unique_ptr<SharedState>> states_;
  std::vector<std::unique_ptr<ControlPlane>> planes_;
  std::vector<std::unique_ptr<ArrivalMeter>> meters_;
};

}  // namespace

TEST_CASE("the spread of a call's arrivals is the paper's") {
  const ArrivalSpread four = spread({1000, 1040, 1000, 1200});
  CHECK(four.last == 3);
  CHECK(four.spread == 200);
  CHECK(four.behind_median == 200);   // of an even number the lower median
  CHECK(four.mean_difference == 70);  // from 1060: 60, 20, 60, 140
  const ArrivalSpread three = spread({500, 100, 400});
  CHECK(three.last == 0);
  CHECK(three.spread == 400);
  CHECK(three.behind_median == 100);
  const ArrivalSpread one = spread({7});
  CHECK((one.last == 0 && one.spread == 0 && one.behind_median == 0 && one.mean_difference == 0));
  CHECK(spread({5, 5, 5}).last == 0);
  const ArrivalSpread two = spread({5, 9});
  CHECK((two.last == 1 && two.spread == 4 && two.behind_median == 4 && two.mean_difference == 2));
}

TEST_CASE("a rank is named when it is last far more often than chance lets it") {
  using All = std::vector<LastArrivals>;
  CHECK(straggler_of(All{{1, 0}, {93, 0}, {3, 0}, {3, 0}}) == 1u);
  CHECK_FALSE(straggler_of(All{{50, 0}, {50, 0}}));
  CHECK_FALSE(straggler_of(All{{30, 0}, {70, 0}}));
  CHECK(straggler_of(All{{20, 0}, {80, 0}}) == 1u);
  CHECK_FALSE(straggler_of(All{{0, 0}, {19, 0}}));  // too few calls
  CHECK_FALSE(straggler_of(All{{100, 0}}));
  CHECK_FALSE(straggler_of(All{}));
  CHECK(straggler_text(5, {1116, 1116 * std::uint64_t{3100000}}, 1200) ==
        "rank 5 was last in 93 % of 1200 calls, 3.1 ms after the median");
}

TEST_CASE("each long call is measured and its last rank counted") {
  World world(4);
  constexpr std::uint64_t kCalls = 41;
  for (std::uint64_t call = 1; call <= kCalls; ++call)
    world.call(call, kLong, kLongBytes, {call * 1000, call * 1000 + 10, call * 1000 + 400, call * 1000 + 20});
  const ArrivalReport report = world.report();
  REQUIRE(report.hosts.size() == 1);
  // A call is looked at when the rank whose turn it is begins a later one.
  CHECK(report.hosts[0].calls == kCalls - 1);
  CHECK(report.hosts[0].straggler == 2);
  CHECK(report.hosts[0].last[2].behind_ns == (kCalls - 1) * 390);
  CHECK(report.text == "rank 2 was last in 100 % of 40 calls, 0.4 us after the median; host n2");
  REQUIRE(report.kinds.size() == 1);
  CHECK(report.kinds[0].kind == kLong);
  CHECK(report.kinds[0].calls == kCalls - 1);
  CHECK(report.kinds[0].spread_us == Approx(0.4));
}

TEST_CASE("of short calls all ranks measure the same ones, one in about 24") {
  World world(3);
  constexpr std::uint64_t kCalls = 16000;
  for (std::uint64_t call = 1; call <= kCalls; ++call)
    world.call(call, kShort, 8, {call * 100, call * 100 + call % 3, call * 100 + 1});
  const std::uint64_t measured = world.report().hosts[0].calls;
  CHECK(measured > kCalls / 30);
  CHECK(measured < kCalls / 19);
}

TEST_CASE("short calls between long ones are measured as seldom as others") {
  World world(2);
  constexpr std::uint64_t kCalls = 8000;
  for (std::uint64_t call = 1; call <= kCalls; ++call)
    world.call(call, call % 2 == 0 ? kShort : kLong, call % 2 == 0 ? 8 : kLongBytes, {call * 100, call * 100 + 1});
  const ArrivalReport report = world.report();
  REQUIRE(report.kinds.size() == 2);
  CHECK(report.kinds[0].kind == kShort);
  CHECK(report.kinds[0].calls < kCalls / 2 / 8);
  CHECK(report.kinds[0].calls > kCalls / 2 / 50);
  CHECK(report.kinds[1].calls >= kCalls / 2 - 1);
}

TEST_CASE("calls that repeat in a rhythm are all met") {
  World world(2);
  constexpr std::uint64_t kRhythm = 16;
  for (std::uint64_t call = 1; call <= 8000; ++call)
    world.call(call, {Collective::allreduce, static_cast<int>(call % kRhythm)}, 8, {call * 100, call * 100 + 1});
  CHECK(world.report().kinds.size() == kRhythm);
}

TEST_CASE("a rank that runs ahead of the others leaves no call out while their records are kept") {
  World world(3);
  constexpr std::uint64_t kAhead = 40;
  for (std::uint64_t call = 1; call <= kAhead; ++call) world.enter(0, call, kLong, kLongBytes, call);
  CHECK(world.report().hosts[0].calls == 0);
  for (std::uint64_t call = 1; call <= kAhead; ++call)
    for (const Rank rank : {1, 2})
      world.enter(rank, call, kLong, kLongBytes, 1000 * call + static_cast<unsigned>(rank));
  world.enter(0, kAhead + 1, kLong, kLongBytes, 100000);
  CHECK(world.report().hosts[0].calls >= kAhead - 1);
  CHECK(world.report().hosts[0].straggler == 2);
}

TEST_CASE("of a rank that is too far ahead calls are left out, and counting goes on") {
  World world(2);
  constexpr std::uint64_t kAhead = 200;
  for (std::uint64_t call = 1; call <= kAhead; ++call) world.enter(0, call, kLong, kLongBytes, call);
  for (std::uint64_t call = 1; call <= kAhead; ++call) world.enter(1, call, kLong, kLongBytes, 1000 + call);
  const std::uint64_t before = world.report().hosts[0].calls;
  CHECK(before < kAhead);
  for (std::uint64_t call = kAhead + 1; call <= kAhead + 50; ++call)
    world.call(call, kLong, kLongBytes, {call * 1000, call * 1000 + 1});
  CHECK(world.report().hosts[0].calls >= before + 49);
  CHECK(world.report().hosts[0].straggler == 1);
}

TEST_CASE("over hosts the rank is named that waits for the shortest time, if it is last on its host") {
  const auto report_of = [](const std::vector<std::uint64_t>& in_call_ns, std::uint64_t last_of_three) {
    std::vector<std::unique_ptr<SharedState>> states;
    std::vector<Member> members;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      SharedState& state = *states.emplace_back(std::make_unique<SharedState>());
      state.arrival.sums.calls = 100;
      state.arrival.sums.in_calls_ns = 100 * in_call_ns[rank];
      members.emplace_back().state = &state;
      members.back().host = rank < 2 ? "n1" : "n2";
      members.back().locality = rank < 2 ? Locality::host : Locality::remote;
    }
    states[3]->arrival.sums.last = last_of_three;
    states[2]->arrival.sums.last = 100 - last_of_three;
    return arrival_report(Members(0, std::move(members)));
  };
  const ArrivalReport late = report_of({9000, 9000, 9000, 1000}, 95);
  CHECK(late.straggler == 3);
  CHECK(late.text ==
        "rank 3 was last in 95 % of 100 calls, 0.0 us after the median; host n2; it waits 8.0 us less in a call than "
        "the median of all hosts' ranks");
  CHECK(report_of({9000, 9000, 9000, 1000}, 50).straggler == -1);  // its host's ranks take turns
  CHECK(report_of({9000, 9000, 9000, 8000}, 95).straggler == -1);  // all wait for something else
  CHECK(report_of({9000, 9000, 9000, 8000}, 95).hosts[1].straggler == 3);
}

TEST_CASE("more kinds of calls than there is room for are summed by rank all the same") {
  World world(2);
  for (std::uint64_t call = 1; call <= 101; ++call)
    world.call(call, {Collective::allreduce, static_cast<int>(call)}, kLongBytes, {call * 1000, call * 1000 + 1});
  CHECK(world.report().hosts[0].calls == 100);
  CHECK(world.report().kinds.size() == ArrivalSums::kKinds);
}
