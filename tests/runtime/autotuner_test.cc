// The race among schedules: bounded, settled once, and won by who is fastest.
#include "runtime/choice/tuning/autotuner.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

using namespace sccl::runtime;

namespace {

struct Outcome {
  int calls = 0;
  int explored = 0;  // calls that another than the first entrant served
  int after = 0;     // of these, once it was settled and not by the winner
  Autotuner::Standing winner;
  Autotuner::Standing second;
};

// Each timed call's answer comes `late` calls later.
Outcome run(const std::vector<std::uint64_t>& ns, int late, double disturbance) {
  std::mt19937 random(7);
  std::exponential_distribution<double> added(1.0);
  Autotuner autotuner(std::vector<SliceRange>(ns.size()));
  std::deque<std::pair<int, std::uint64_t>> answers;
  Outcome outcome;
  for (int call = 0; call < 3000; ++call) {
    while (!answers.empty() && answers.front().first <= call) {
      autotuner.measured(answers.front().second);
      answers.pop_front();
    }
    const bool settled = autotuner.settled();
    const Autotuner::Turn turn = autotuner.next(Autotuner::Timing::possible);
    const auto index = static_cast<std::size_t>(turn.entrant);
    if (turn.timed)
      answers.emplace_back(
          call + late, static_cast<std::uint64_t>(static_cast<double>(ns[index]) * (1 + disturbance * added(random))));
    if (!settled) ++outcome.calls;
    if (!settled && turn.entrant != 0) ++outcome.explored;
    if (settled && (turn.timed || turn.entrant != autotuner.winner().entrant)) ++outcome.after;
  }
  REQUIRE(autotuner.settled());
  outcome.winner = autotuner.winner();
  outcome.second = autotuner.second();
  return outcome;
}

}  // namespace

TEST_CASE("at most 5% of calls explore, none once it is settled, and the fastest wins") {
  for (const int late : {1, 2, 7, 40})
    for (const double disturbance : {0.0, 0.1, 0.5}) {
      CAPTURE(late, disturbance);
      const Outcome outcome = run({1000, 1200, 700, 5000}, late, disturbance);
      CHECK(outcome.winner.entrant == 2);
      CHECK(outcome.second.entrant == 0);
      CHECK(outcome.explored * 20 <= outcome.calls);
      CHECK(outcome.after == 0);
    }
}

TEST_CASE("who is hopeless runs three times only") {
  CHECK(run({1000, 5000}, 2, 0).explored == 3);
  CHECK(run({1000, 990}, 2, 0).explored == 6);
}

TEST_CASE("a little faster is not enough to replace what was predicted") {
  CHECK(run({1000, 990}, 2, 0).winner.entrant == 0);
  CHECK(run({1000, 950}, 2, 0).winner.entrant == 1);
}

TEST_CASE("an entrant alone without slices needs no autotuner") {
  Autotuner autotuner({SliceRange{}});
  CHECK(autotuner.settled());
  CHECK_FALSE(autotuner.next(Autotuner::Timing::possible).timed);
}

TEST_CASE("where timing is impossible nothing is explored") {
  Autotuner autotuner({SliceRange{}, SliceRange{}});
  for (int call = 0; call < 200; ++call) {
    const Autotuner::Turn turn = autotuner.next(Autotuner::Timing::impossible);
    CHECK((turn.entrant == 0 && !turn.timed));
  }
}

TEST_CASE("slices of the first entrant are tuned on the first calls, those of others on theirs") {
  const SliceRange range{16 * 1024, 256 * 1024};
  Autotuner autotuner({range, range});
  int calls = 0;
  std::deque<std::uint64_t> answers;
  while (!autotuner.settled() && calls < 5000) {
    const Autotuner::Turn turn = autotuner.next(Autotuner::Timing::possible);
    ++calls;
    const std::uint64_t best = turn.entrant == 0 ? 64 * 1024 : 128 * 1024;
    const std::uint64_t away = turn.slice > best ? turn.slice / best : best / turn.slice;
    if (turn.timed) answers.push_back((turn.entrant == 0 ? 1000 : 800) * away);
    if (answers.size() > 1) {
      autotuner.measured(answers.front());
      answers.pop_front();
    }
  }
  REQUIRE(autotuner.settled());
  CHECK(autotuner.winner().entrant == 1);
  CHECK(autotuner.winner().slice == 128 * 1024);
  CHECK(autotuner.second().slice == 64 * 1024);
}
