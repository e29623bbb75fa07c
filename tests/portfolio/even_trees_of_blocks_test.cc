// AllGather and ReduceScatter over even trees of all ranks, where few devices of a host have a NIC.
#include <algorithm>
#include <catch2/catch.hpp>

#include "compose/bounds/bound.h"
#include "compose/clusters.h"
#include "compose/lowering/expand.h"
#include "portfolio/portfolio.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/simulate.h"
#include "simulation_options.h"

using namespace sccl;

namespace {

constexpr double kResultBytes = 64 << 20;

double buffer(const topology::Topology& machine, Collective collective) {
  return kResultBytes / (collective == Collective::allgather ? machine.ranks : 1);
}

}  // namespace

TEST_CASE("of hosts with NICs at some devices AllGather and ReduceScatter are near the bound") {
  const std::vector<std::vector<Rank>> second(4, {0, 2, 4, 6});
  const std::vector<std::vector<Rank>> fourth(4, {0, 4});
  for (const topology::Topology& machine :
       {with_nics(topology::preset("dgx1p"), second, 25), with_nics(topology::preset("pcie8"), fourth, 25),
        with_nics(topology::preset("z52"), fourth, 25), topology::preset("2*z52-full")})
    for (const Collective collective : {Collective::allgather, Collective::reducescatter}) {
      const double bytes = buffer(machine, collective);
      const auto all = portfolio::candidates(machine, collective, 0);
      const auto block = static_cast<std::size_t>(kResultBytes / machine.ranks);  // a call's count, of both
      const auto best = portfolio::predict(all, block, 1, {}).front();
      const double bound = compose::bounds(machine, topology::cluster_of(machine), collective, 0, bytes).front().us;
      INFO(all[best.candidate].name << " for " << info(collective).name << " on " << machine.name << ": "
                                    << best.time_us << " us, bound " << bound << " us");
      // Levels are as fast there.
      if (!machine.name.starts_with("pcie8")) CHECK(portfolio::answers_to(all[best.candidate], "even-trees"));
      CHECK(best.time_us < 1.11 * bound);
      CHECK(best.time_us > 0.999 * bound);
      CHECK_NOTHROW(schedule::verify(*all[best.candidate].schedule));
    }
}

// Each with few peers they form long chains over these hosts' switches, whose links wait a fifth of the time.
TEST_CASE("where trees of few peers leave links waiting, trees of any peers are there") {
  const topology::Topology machine =
      topology::subset(topology::preset("2*pcie8"), std::vector<int>{0, 1, 2, 3, 4, 8, 10, 11, 12, 13, 15});
  for (const Collective collective : {Collective::allgather, Collective::reducescatter}) {
    const auto all = portfolio::candidates(machine, collective, 0);
    const auto block = static_cast<std::size_t>(kResultBytes / machine.ranks);
    const auto best = portfolio::predict(all, block, 1, {}).front();
    const double bound =
        compose::bounds(machine, topology::cluster_of(machine), collective, 0, buffer(machine, collective)).front().us;
    INFO(all[best.candidate].name << " for " << info(collective).name << ": " << best.time_us << " us, bound "
                                  << bound);
    CHECK(all[best.candidate].name.find("of-any-peers") != std::string::npos);
    CHECK(best.time_us < 1.05 * bound);
    CHECK_NOTHROW(schedule::verify(*all[best.candidate].schedule));
  }
}

TEST_CASE("the closed form of even trees of blocks is near a simulation of every size") {
  const topology::Topology machine = far_from_nics();
  for (const Collective collective : {Collective::allgather, Collective::reducescatter}) {
    portfolio::CompositePlanner planner(machine);
    const auto all = planner.candidates(collective, 0);
    const auto found =
        std::find_if(all.begin(), all.end(), [](const auto& one) { return one.composite->hosts.size() == 1; });
    REQUIRE(found != all.end());
    const schedule::Schedule flat = compose::expand(*found->composite);
    for (const double times : {0.25, 1.0, 4.0}) {
      const double bytes = times * buffer(machine, collective);
      const auto options = sccl_test::moved_in_lanes(bytes, found->cost.good_slice(bytes, 128 * 1024));
      const double simulated = schedule::simulate(flat, options).time_us;
      const double closed = found->cost.time_us(options.bytes, options.slice_bytes);
      INFO(info(collective).name << " of " << options.bytes << " bytes: " << simulated << " us simulated");
      CHECK(closed > 0.85 * simulated);
      CHECK(closed < 1.3 * simulated);
    }
  }
}
