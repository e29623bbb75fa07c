// Rings are the cycles that NCCL would find, as many as fit, and they reach the packing's rate where all links lie on
// them.
#include "treegen/packing/rings.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "machines.h"
#include "schedule/lowering/prepare.h"
#include "schedule/simulation/simulate.h"
#include "treegen/packing/pack.h"

using namespace sccl;
using namespace sccl::treegen;

namespace {

double simulated_us(const schedule::Schedule& schedule) {
  schedule::SimulationOptions options;
  options.bytes = 500e6;
  options.detail = schedule::Detail::totals;
  return schedule::simulate(schedule, options).time_us;
}

}  // namespace

TEST_CASE("the number of disjoint cycles is what the lanes allow") {
  const auto number = [](const topology::Topology& topology) {
    const DisjointCycles found = disjoint_cycles(topology);
    CHECK(found.most_proved);
    return found.cycles.size();
  };
  CHECK(number(topology::preset("dgx1v")) == 3);
  CHECK(number(topology::preset("dgx1p")) == 2);
  CHECK(number(topology::preset("z52")) == 1);
  CHECK(number(topology::preset("mi300x")) == 3);
  CHECK(number(topology::subset(topology::preset("dgx1v"), std::vector{0, 1, 4})) == 0);
}

TEST_CASE("machines that rings do not suit have none") {
  for (const char* name : {"dgx-a100", "z52-full", "host:2", "2*dgx1v"}) {
    INFO(name);
    CHECK(disjoint_cycles(topology::preset(name)).cycles.empty());
    CHECK(!rings(topology::preset(name), Collective::allreduce, 0));
  }
}

TEST_CASE("rings of every packed collective are right and run") {
  const auto topology = topology::preset("dgx1v");
  for (const Collective collective : {Collective::broadcast, Collective::reduce, Collective::allreduce,
                                      Collective::allgather, Collective::reducescatter})
    for (const Rank root : {0, 5}) {
      if (root > 0 && !info(collective).rooted) continue;
      INFO(info(collective).name << " root " << root);
      const auto schedule = rings(topology, collective, root);
      REQUIRE(schedule);
      CHECK_NOTHROW(schedule::prepare(*schedule, 4));
    }
  CHECK(!rings(topology, Collective::alltoall, 0));
  CHECK_THROWS_AS(rings_along({}, topology, Collective::allreduce, 0), Error);
}

TEST_CASE("where all links lie on cycles, rings take the packing's time") {
  for (const char* name : {"dgx1p", "dgx1v"})
    for (const Collective collective : {Collective::broadcast, Collective::allreduce}) {
      INFO(name << " " << info(collective).name);
      const auto topology = topology::preset(name);
      const double lane_gbytes_per_s = topology.links.front().gbytes_per_s / topology.links.front().lanes;
      const double bound_us = 500e6 / (to_double(pack(topology, collective, 0).rate) * lane_gbytes_per_s * 1e3);
      const double ring_us = simulated_us(*rings(topology, collective, 0));
      CHECK(ring_us >= bound_us);
      if (collective == Collective::allreduce) CHECK(ring_us < 1.01 * bound_us);
    }
}
