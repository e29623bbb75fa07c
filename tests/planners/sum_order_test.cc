// Which schedules add in the same order, and therefore give the same bits.
#include "schedule/lowering/sum_order.h"

#include <catch2/catch.hpp>

#include "planners/planners.h"
#include "topology/presets.h"

using namespace sccl;
using schedule::Stars;
using schedule::sum_order;

namespace {

schedule::Schedule plan(const char* planner, int ranks, Collective collective) {
  auto schedule = planners::find(planner)->plan(topology::host(ranks), collective, 0);
  REQUIRE(schedule);
  return *std::move(schedule);
}

}  // namespace

TEST_CASE("stars add in the order of ranks wherever they are centred, rings do not") {
  for (const int ranks : {3, 4, 8}) {
    CAPTURE(ranks);
    const auto star = sum_order(plan("one-hop", ranks, Collective::allreduce), Stars::by_step);
    CHECK(sum_order(plan("one-hop", ranks, Collective::allreduce), Stars::fused) == star);
    CHECK(sum_order(plan("all-pairs", ranks, Collective::allreduce), Stars::by_step) == star);
    CHECK(sum_order(plan("ring", ranks, Collective::allreduce), Stars::by_step) != star);
  }
  const auto star = sum_order(plan("one-hop", 4, Collective::allreduce), Stars::by_step);
  CHECK(sum_order(plan("recursive", 4, Collective::allreduce), Stars::by_step) != star);
}

TEST_CASE("two ranks have only one order, and copies none") {
  const auto star = sum_order(plan("one-hop", 2, Collective::allreduce), Stars::by_step);
  CHECK(sum_order(plan("ring", 2, Collective::allreduce), Stars::by_step) == star);
  CHECK(sum_order(plan("ring", 5, Collective::allgather), Stars::by_step) ==
        sum_order(plan("one-hop", 5, Collective::allgather), Stars::by_step));
}

TEST_CASE("another root of a binomial Reduce is another order") {
  const auto at = [](Rank root) {
    return sum_order(*planners::find("binomial")->plan(topology::host(4), Collective::reduce, root), Stars::by_step);
  };
  CHECK(at(0) != at(1));
}
