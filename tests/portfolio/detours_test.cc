// Blocks of AlltoAll, Gather and Scatter take detours where shortest ways meet on one link, and only there.
#include "portfolio/flat/detours.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "compose/bounds/bound.h"
#include "planners/planners.h"
#include "portfolio/portfolio.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/cost.h"
#include "simulation_options.h"
#include "topology/presets.h"
#include "topology/symmetry/cluster.h"

using namespace sccl;

TEST_CASE("blocks between the sockets of a host go in part over the other host") {
  const topology::Topology machine = topology::preset("2*pcie8");
  const auto found = portfolio::detours(machine, Collective::alltoall);
  REQUIRE(found);
  CHECK_NOTHROW(schedule::verify(*found));
  const auto direct = planners::find("one-hop")->plan(machine, Collective::alltoall, 0);
  REQUIRE(direct);
  CHECK(schedule::busiest_us_per_byte(*found) < 0.85 * schedule::busiest_us_per_byte(*direct));
  const auto all = portfolio::candidates(machine, Collective::alltoall, 0);
  const auto options = sccl_test::moved_in_slices(64 << 20, 128 * 1024);
  CHECK(all[portfolio::predict(all, options).front().candidate].name == "detours");
}

TEST_CASE("detours relieve the busiest link of parts of machines, whatever joins their devices") {
  for (const char* name : {"2*dgx1v", "2*z52-full", "3*nvpairs4", "z52", "mi250x"})
    for (const Collective collective : {Collective::alltoall, Collective::gather, Collective::scatter}) {
      const topology::Topology machine = topology::preset(name);
      const Rank root = 2;
      const auto found = portfolio::detours(machine, collective, root);
      INFO(name << ", " << info(collective).name);
      if (!found) continue;
      CHECK_NOTHROW(schedule::verify(*found));
      const auto direct = planners::find("shortest")->plan(machine, collective, root);
      REQUIRE(direct);
      CHECK(schedule::busiest_us_per_byte(*found) < 0.98 * schedule::busiest_us_per_byte(*direct));
    }
}

TEST_CASE("pieces pass as many devices as it takes to reach the bound of the links") {
  // 16 dies, of which each is joined with a few others only.
  const topology::Topology machine = topology::preset("mi250x");
  const topology::Cluster cluster = topology::cluster_of(machine);
  for (const Collective collective : {Collective::alltoall, Collective::gather, Collective::scatter}) {
    const auto found = portfolio::detours(machine, collective, 5);
    INFO(info(collective).name);
    REQUIRE(found);
    CHECK_NOTHROW(schedule::verify(*found));
    const double bytes = 64 << 20;
    const double bound_us = compose::bounds(machine, cluster, collective, 5, bytes).front().us;
    CHECK(schedule::busiest_us_per_byte(*found) * bytes < 1.05 * bound_us);
    CHECK(found->steps > 2);
  }
}

TEST_CASE("where direct ways are even, for other collectives and unjoined devices there are no detours") {
  CHECK_FALSE(portfolio::detours(topology::preset("dgx2"), Collective::alltoall));
  CHECK_FALSE(portfolio::detours(topology::preset("2*dgx2"), Collective::alltoall));  // too many ranks
  CHECK_FALSE(portfolio::detours(topology::preset("2*pcie8"), Collective::allgather));
  topology::Topology apart = topology::preset("dgx1v");
  std::erase_if(apart.links, [](const topology::Link& link) { return link.src == 3 || link.dst == 3; });
  for (const Collective collective : {Collective::alltoall, Collective::gather, Collective::scatter})
    CHECK_FALSE(portfolio::detours(apart, collective));
}
