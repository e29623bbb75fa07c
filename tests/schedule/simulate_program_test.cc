// Programs on cores that ranks share: the arithmetic of passes over memory, latency, and turns.
#include "schedule/simulation/simulate_program.h"

#include <catch2/catch.hpp>
#include <limits>

#include "base/error.h"
#include "schedule/lowering/lower.h"
#include "schedule/lowering/prepare.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::schedule;

namespace {

Schedule on_host(const char* name, Collective collective, int ranks, int chunks_per_rank, std::vector<Send> sends) {
  return make_schedule(name, collective, 0, topology::host(ranks), chunks_per_rank, std::move(sends));
}

// Both send what they have and add what comes: recursive doubling of two.
Schedule exchange_and_add() {
  return on_host("exchange", Collective::allreduce, 2, 1,
                 {{0, 0, 1, 0, SendKind::reduce}, {0, 1, 0, 0, SendKind::reduce}});
}

// Each of two ranks adds a half and hands it back.
Schedule halves() {
  return on_host("halves", Collective::allreduce, 2, 2,
                 {{0, 1, 0, 0, SendKind::reduce},
                  {1, 0, 1, 0, SendKind::reduce},
                  {0, 0, 1, 1, SendKind::copy},
                  {1, 1, 0, 1, SendKind::copy}});
}

double time_us(const Schedule& schedule, const CoreModel& model, const ProgramRun& run) {
  return simulate_program(schedule, prepare(schedule, run.slots), model, run).time_us;
}

}  // namespace

TEST_CASE("a rank's time is that of its passes over memory") {
  CoreModel model{.cores = 2, .alpha_us = 3};
  const ProgramRun run{.bytes = 1000, .slice_bytes = 1000};
  CHECK(time_us(exchange_and_add(), model, run) == Approx(3));  // nothing takes time but the way
  model.read_own = 1;                                           // once to send, once to add
  model.write_own = 10;                                         // the result
  model.read_slot = 100;
  model.write_slot = 1000;
  CHECK(time_us(exchange_and_add(), model, run) == Approx(3 + (2 * 1 + 10 + 100 + 1000)));
  // Of each half: sent, or added, stored and handed back in one pass; then the other half is stored.
  CHECK(time_us(halves(), model, run) == Approx(2 * 3 + 0.5 * (2 * 1 + 2 * 10 + 2 * 100 + 2 * 1000)));
  model.op_us = 7;
  CHECK(time_us(exchange_and_add(), model, run) == Approx(3 + 2 * 7 + 1112));
}

TEST_CASE("a star's operands are added in one pass") {
  const Schedule star =
      on_host("star", Collective::reduce, 4, 1,
              {{0, 1, 0, 0, SendKind::reduce}, {0, 2, 0, 0, SendKind::reduce}, {0, 3, 0, 0, SendKind::reduce}});
  const CoreModel model{.cores = 4, .write_own = 1, .read_slot = 10};
  CHECK(time_us(star, model, {.bytes = 1000, .slice_bytes = 1000}) == Approx(3 * 10 + 1));
}

TEST_CASE("slices overlap as far as there are slots") {
  const Schedule one_way = on_host("one way", Collective::broadcast, 2, 1, {{0, 0, 1, 0, SendKind::copy}});
  const CoreModel model{.cores = 2, .read_slot = 1, .write_slot = 1};
  CHECK(time_us(one_way, model, {.bytes = 8000, .slice_bytes = 1000, .slots = 4}) == Approx(9));
  CHECK(time_us(one_way, model, {.bytes = 8000, .slice_bytes = 1000, .slots = 1}) == Approx(16));
}

TEST_CASE("ranks of one core take turns, and yielding costs") {
  CoreModel model{.cores = 1, .alpha_us = 1000, .switch_us = 5, .read_slot = 1, .write_slot = 1};
  const ProgramRun run{.bytes = 1000, .slice_bytes = 1000};
  const Schedule schedule = exchange_and_add();
  const ProgramSimulation alone = simulate_program(schedule, prepare(schedule, 4), model, run);
  // 0 fills, 1 fills and adds, 0 adds; what stays on a core does not travel.
  CHECK(alone.switches == 2);
  CHECK(alone.operations == 4);
  CHECK(alone.time_us == Approx(4 + 2 * 5));
}

TEST_CASE("every planner's program ends, with one slot and with more cores than ranks") {
  for (const int cores : {1, 2, 64})
    for (const int slots : {1, 4}) {
      const ProgramSimulation result =
          simulate_program(halves(), prepare(halves(), slots), {.cores = cores, .read_slot = 1},
                           {.bytes = 1e6, .slice_bytes = 4096, .slots = slots});
      CHECK(result.time_us > 0);
      // Two fills, two sums and two stores of 123 slices each, the last a short one; with one slot one of the two sums
      // is stored before it is handed back.
      CHECK(result.operations == (slots == 1 ? 7 : 6) * 123);
    }
}

TEST_CASE("what cannot be simulated is refused") {
  const Schedule schedule = exchange_and_add();
  const Program program = prepare(schedule, 4);
  const auto refused = [&](const CoreModel& model, const ProgramRun& run) {
    CHECK_THROWS_AS(simulate_program(schedule, program, model, run), Error);
  };
  refused({.cores = 0}, {.bytes = 1});
  refused({.alpha_us = -1}, {.bytes = 1});
  refused({}, {.bytes = std::numeric_limits<double>::infinity()});
  refused({}, {.bytes = 1, .slice_bytes = 0});
  refused({}, {.bytes = 1e12, .slice_bytes = 1});
  const auto direct = lower_direct(halves());
  REQUIRE(direct);
  CHECK_THROWS_WITH(simulate_program(halves(), *direct, {}, {.bytes = 1}), Catch::Contains("peers' buffers"));
}
