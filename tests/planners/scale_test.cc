// Schedules of a thousand ranks are planned and simulated in seconds, and their times are those of the closed form.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <functional>
#include <initializer_list>

#include "planners/planners.h"
#include "schedule/simulation/cost.h"
#include "schedule/simulation/simulate.h"
#include "topology/presets.h"

using namespace sccl;
using schedule::Detail;
using schedule::Progress;

namespace {

constexpr int kRanks = 1024;
constexpr double kBytesInAll = 64 << 20;
constexpr double kAlphaUs = 2;  // two halves of the way through the switch
constexpr double kUsPerByte = 1 / 25e3;

double simulated_us(const schedule::Schedule& schedule, double bytes) {
  return schedule::simulate(schedule, {.bytes = bytes, .detail = Detail::totals}).time_us;
}

// Of every planner, collective and machine, with rank 1 as the root.
void for_every_plan(std::initializer_list<const char*> machines,
                    const std::function<void(const schedule::Schedule&)>& visit) {
  for (const char* name : machines) {
    const topology::Topology machine = topology::preset(name);
    for (const planners::Planner& planner : planners::table())
      for (int i = 0; i < kCollectiveCount; ++i) {
        const auto collective = static_cast<Collective>(i);
        if (collective == Collective::sendrecv) continue;
        const auto schedule = planner.plan(machine, collective, 1);
        INFO(planner.name << " for " << info(collective).name << " on " << name);
        if (schedule) visit(*schedule);
      }
  }
}

}  // namespace

TEST_CASE("1024 ranks on a switch: ring and recursive doubling fit into memory and keep to the closed form") {
  const topology::Topology many = topology::preset("switch:1024");
  const double share = kBytesInAll / kRanks;
  const auto ring = planners::ring(many, Collective::allgather, 0);
  REQUIRE(ring);
  CHECK(simulated_us(*ring, share) == Approx((kRanks - 1) * (kAlphaUs + share * kUsPerByte)));
  const auto doubling = planners::recursive(many, Collective::allgather, 0);
  REQUIRE(doubling);
  CHECK(doubling->steps == 10);
  const double volume_us = (kRanks - 1) * share * kUsPerByte;
  const double time_us = simulated_us(*doubling, share);
  CHECK(time_us >= volume_us);
  CHECK(time_us <= 1.1 * volume_us + 10 * kAlphaUs);
  // Twice the ranks have four times the sends, and 2048 must fit into 2 GB. Sanitizers need several times as much.
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  INFO(usage.ru_maxrss / 1024 << " MiB");
  CHECK(usage.ru_maxrss / 1024 < 2048);
}

TEST_CASE("with a barrier between steps the simulator and the closed form agree, whoever planned") {
  for_every_plan({"dgx2", "dgx-a100", "pcie4", "pcie8", "nvpairs4", "mi300x", "host:6", "2*nvpairs4"},
                 [](const schedule::Schedule& plan) {
                   const double closed_us = schedule::linear_cost(plan).time_us(1e6);
                   const double stepwise_us =
                       schedule::simulate(plan, {.bytes = 1e6, .progress = Progress::stepwise}).time_us;
                   const double dataflow_us = schedule::simulate(plan, {.bytes = 1e6}).time_us;
                   // The closed form adds the longest latency to the fullest link, which may lie on different ways.
                   CHECK(stepwise_us >= schedule::linear_cost(plan).us_per_byte * 1e6 * (1 - 1e-6));
                   CHECK(stepwise_us >= closed_us * 0.9);
                   CHECK(stepwise_us <= closed_us * 1.5);
                   CHECK(dataflow_us <= stepwise_us * (1 + 1e-9));
                 });
}

TEST_CASE("no simulation that takes no longer than allowed is stopped, whatever links wait for") {
  for_every_plan({"dgx1v", "dgx2", "pcie8", "host:6", "2*nvpairs4", "2*mi250x"}, [](const schedule::Schedule& plan) {
    const schedule::Simulator simulator(plan);
    for (const double slice_bytes : {0, 70000})
      for (const int slots : {0, 2})
        for (const double reduce_gbytes_per_s : {0, 50})
          for (const Progress progress : {Progress::dataflow, Progress::stepwise}) {
            INFO("slices of " << slice_bytes << " bytes, slots " << slots << ", adding at " << reduce_gbytes_per_s
                              << " GB/s");
            schedule::SimulationOptions options{.bytes = 1e6,
                                                .slice_bytes = slice_bytes,
                                                .slots = slots,
                                                .lane_bytes = slots > 0 ? schedule::kLaneBytes : 0,
                                                .reduce_gbytes_per_s = reduce_gbytes_per_s,
                                                .progress = progress,
                                                .detail = Detail::totals};
            const double whole_us = simulator.run(options).time_us;
            options.stop_after_us = whole_us * (1 + 1e-9);
            const schedule::Simulation limited = simulator.run(options);
            REQUIRE_FALSE(limited.stopped);
            REQUIRE(limited.time_us == whole_us);
          }
  });
}
