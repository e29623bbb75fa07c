// Simulations of the first frames tell how long many frames take.
#include "portfolio/clusters/first_frames.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "compose/lowering/expand.h"
#include "in_racks.h"
#include "portfolio/composites/composites.h"
#include "simulation_options.h"
#include "topology/formats/load.h"

using namespace sccl;

namespace {

constexpr double kMiB = 1 << 20;
constexpr double kSlice = 128 * 1024;

std::vector<portfolio::CompositeCandidate> planned(const std::vector<int>& racks, Collective collective) {
  const int hosts = std::accumulate(racks.begin(), racks.end(), 0);
  const topology::Topology machine =
      sccl_test::in_racks(topology::load(std::to_string(hosts) + "*dgx-a100").topology, racks, racks[0] * 50.0);
  return portfolio::CompositePlanner(machine).candidates(collective, 0);
}

}  // namespace

TEST_CASE("the first of many frames tell how long all of them take") {
  const auto racks = GENERATE(std::vector<int>{2, 3, 4}, std::vector<int>{3, 5});
  const auto collective = GENERATE(Collective::allreduce, Collective::allgather);
  const int ranks = 8 * std::accumulate(racks.begin(), racks.end(), 0);
  const schedule::SimulationOptions options =
      sccl_test::moved_in_lanes(128 * kMiB / (collective == Collective::allgather ? ranks : 1), kSlice);
  int compared = 0;
  for (const auto& one : planned(racks, collective)) {
    const auto first = portfolio::FirstFrames::of(*one.composite, one.cost);
    if (!first || one.cost.time_us(options.bytes, kSlice) > 1.5 * one.cost.busy_us(options.bytes)) continue;
    if (++compared > 3) break;
    INFO(one.name());
    const double busy_us = one.cost.busy_us(options.bytes);
    const portfolio::SimulatedTime time = first->time(*one.composite, options, busy_us);
    const schedule::Simulation all = schedule::simulate(compose::expand_without_rounds(*one.composite), options);
    CHECK(time.us == Approx(all.time_us).epsilon(0.05));
    CHECK(time.us > busy_us);
    CHECK(time.slices < 0.4 * static_cast<double>(all.arrived));
    CHECK_FALSE(time.stopped);
    schedule::SimulationOptions shorter = options;
    shorter.stop_after_us = 0.8 * all.time_us;
    CHECK(first->time(*one.composite, shorter, busy_us).stopped);
  }
  CHECK(compared > 0);
}

TEST_CASE("few frames, many steps between hosts and forests are simulated as a whole") {
  int many = 0;
  for (const auto& one : planned({8, 8}, Collective::allreduce)) {
    const auto first = portfolio::FirstFrames::of(*one.composite, one.cost);
    INFO(one.name());
    if (one.composite->frames < 32 || one.cost.between_hosts.steps > 8 || one.composite->at_root) CHECK_FALSE(first);
    many += first.has_value();
  }
  CHECK(many > 0);
}
