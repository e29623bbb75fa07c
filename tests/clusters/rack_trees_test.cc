// Composites whose hosts pass data on by trees of racks, and planning on two cores.
#include "compose/form/rack_trees.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "compose/clusters.h"
#include "compose/lowering/expand.h"
#include "portfolio/composites/composites.h"
#include "portfolio/portfolio.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/simulate.h"
#include "topology/presets.h"

namespace sccl {
namespace {

bool by_rack_trees(const portfolio::CompositeCandidate& one) {
  return one.composite->name.find("rack-trees") != std::string::npos;
}

TEST_CASE("trees of racks serve any root, and racks of unlike size") {
  const topology::Topology whole = racks(3, 4, 2, {60, 30, 90});
  std::vector<Rank> some(20);
  std::iota(some.begin(), some.end(), 4);  // 2, 4 and 4 hosts
  const topology::Topology machine = topology::subset(whole, some);
  portfolio::CompositePlanner planner(machine);
  for (const Collective collective : {Collective::broadcast, Collective::reduce})
    for (const Rank root : {0, 3, 9, 19}) {
      int found = 0;
      for (const portfolio::CompositeCandidate& one : planner.candidates(collective, root)) {
        if (!by_rack_trees(one)) continue;
        ++found;
        INFO(one.composite->name << " for " << info(collective).name << " of root " << root);
        CHECK_NOTHROW(schedule::verify(compose::expand(*one.composite)));
      }
      CHECK(found > 2);
    }
}

TEST_CASE(
    "over racks whose links are as fast as a host's, trees of racks take less time than a chain and other trees") {
  // 16 racks of 4 hosts of 2.
  const topology::Topology machine = racks(16, 4, 2, std::vector<double>(16, 40));
  portfolio::CompositePlanner planner(machine);
  const double bytes = 64 << 20;
  double others_us = std::numeric_limits<double>::infinity();
  double trees_us = others_us;
  for (const portfolio::CompositeCandidate& one : planner.candidates(Collective::broadcast, 0)) {
    if (one.composite->frames > 1) continue;
    const schedule::SimulationOptions options = portfolio::Pipeline{}.simulated(bytes);
    double& least = by_rack_trees(one) ? trees_us : others_us;
    least = std::min(least, schedule::simulate(compose::expand(*one.composite), options).time_us);
  }
  CHECK(trees_us < 0.9 * others_us);
  CHECK(trees_us < 1.15 * bytes / 40e3);
}

// What a thread that may run on one core foresees, or on all.
std::vector<std::string> foreseen(bool one_core, const std::string& cluster, Collective collective, double bytes) {
  std::vector<std::string> result;
  std::thread([&] {
    if (one_core) {
      cpu_set_t cores;
      REQUIRE(::sched_getaffinity(0, sizeof cores, &cores) == 0);
      cpu_set_t one;
      CPU_ZERO(&one);
      for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
        if (CPU_ISSET(core, &cores)) CPU_SET(core, &one);
      REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
    }
    const auto all = portfolio::candidates(topology::preset(cluster), collective, 0);
    for (const portfolio::Prediction& one : portfolio::predict(all, portfolio::Pipeline{}.simulated(bytes)))
      result.push_back(fmt::format("{} {} {}", all[one.candidate].name, one.time_us, one.slice_bytes));
  }).join();
  return result;
}

TEST_CASE("what is foreseen does not depend on the number of cores") {
  const auto [cluster, collective, bytes] = GENERATE(
      std::tuple("4*pcie4", Collective::broadcast, 1 << 30), std::tuple("3*dgx1v", Collective::allreduce, 1 << 28),
      std::tuple("2*pcie8", Collective::reduce, 1 << 24), std::tuple("2*z52-full", Collective::broadcast, 1 << 30));
  const std::vector<std::string> on_one = foreseen(true, cluster, collective, bytes);
  CHECK(on_one.size() > 5);
  CHECK(on_one == foreseen(false, cluster, collective, bytes));
}

}  // namespace
}  // namespace sccl
