// Several servers in three phases, and two kinds of links at once.
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "packing/hybrid.h"
#include "schedule/lowering/prepare.h"
#include "schedule/proof/check_program.h"
#include "schedule/simulation/simulate.h"
#include "topology/presets.h"
#include "treegen/graph/frames.h"
#include "treegen/schedules/three_phase.h"

using namespace sccl;
using namespace sccl::treegen;

namespace {

void check_three_phase(const topology::Topology& topology) {
  INFO(topology.name);
  const auto schedule = three_phase(topology, Collective::allreduce, 0);
  REQUIRE(schedule);
  for (const int slots : {1, 4}) {
    const auto program = schedule::prepare(*schedule, slots);
    CHECK_NOTHROW(schedule::check_program(*schedule, program, {slots, 3, schedule::Placement::out_of_place, 3}));
  }
  CHECK(std::accumulate(schedule->weights.begin(), schedule->weights.end(), 0.0) == Approx(1));
}

double simulated_us(const schedule::Schedule& schedule, double bytes) {
  schedule::SimulationOptions options;
  options.bytes = bytes;
  options.detail = schedule::Detail::totals;
  return schedule::simulate(in_frames(schedule, 48), options).time_us;
}

topology::Topology part(const char* preset, std::vector<int> devices) {
  return topology::subset(topology::preset(preset), devices);
}

}  // namespace

TEST_CASE("servers are what the network joins") {
  CHECK(servers(topology::preset("2*dgx1v")).size() == 2);
  CHECK(servers(topology::preset("3*dgx-a100"))[1] == std::vector<Rank>{8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(servers(topology::preset("dgx1v")).size() == 1);
}

TEST_CASE("three phases over servers of every kind are verified programs") {
  for (const char* name : {"2*dgx1v", "3*dgx1p", "2*dgx-a100", "4*nvpairs4", "2*pcie4", "2*z52-full", "5*host:2"})
    check_three_phase(topology::preset(name));
}

TEST_CASE("servers may hold different numbers of devices: three of one, five of the other, one of a third") {
  check_three_phase(part("2*dgx1v", {0, 1, 4, 8, 9, 10, 11, 12}));
  check_three_phase(part("3*dgx1v", {0, 3, 4, 8, 11, 12, 13, 14, 20}));
}

TEST_CASE("every device's NIC carries its share") {
  const auto topology = topology::preset("2*dgx1v");
  const auto schedule = three_phase(topology, Collective::allreduce, 0);
  REQUIRE(schedule);
  std::vector<double> sent(static_cast<std::size_t>(topology.ranks), 0);
  for (const schedule::Send& send : schedule->sends)
    if ((send.src < 8) != (send.dst < 8))
      sent[static_cast<std::size_t>(send.src)] += schedule->weights[static_cast<std::size_t>(send.chunk)];
  // Of every eighth a root sends half to be reduced and gives the other half back: 2 (n - 1) / n for n = 2 servers.
  for (const double share : sent) CHECK(share == Approx(1.0 / 8));
}

TEST_CASE("phases follow one another: inside, between, inside") {
  const auto schedule = three_phase(topology::preset("3*dgx-a100"), Collective::allreduce, 0);
  REQUIRE(schedule);
  CHECK(schedule->steps == 4);  // one-hop trees inside and between
  for (const schedule::Send& send : schedule->sends)
    CHECK((send.src / 8 == send.dst / 8) == (send.step == 0 || send.step == 3));
}

TEST_CASE("three phases beat a ring over the same servers") {
  const auto topology = topology::preset("2*dgx1v");
  const auto schedule = three_phase(topology, Collective::allreduce, 0);
  REQUIRE(schedule);
  // NICs at 12.5 GB/s carry an eighth each way; one ring through one NIC would carry 2 * 15 / 16 of the buffer.
  const double bytes = 1e8;
  const double ring_us = 2.0 * 15 / 16 * bytes / 12.5e3;
  CHECK(simulated_us(*schedule, bytes) < ring_us / 4);
}

TEST_CASE("one server and other collectives have no three phases") {
  CHECK_FALSE(three_phase(topology::preset("dgx1v"), Collective::allreduce, 0));
  CHECK_FALSE(three_phase(topology::preset("2*dgx1v"), Collective::broadcast, 0));
}

TEST_CASE("equation 8: both kinds of link end together") {
  const TreeSet fast{60, 0};
  const TreeSet slow{10, 500};
  const double slow_bytes = slow_share_bytes(5e8, fast, slow);
  CHECK((5e8 - slow_bytes) / 60e3 == Approx(500 + slow_bytes / 10e3));
  CHECK(slow_share_bytes(5e8, fast, {10, 1e9}) == 0);  // switching takes too long
  CHECK(slow_share_bytes(5e8, fast, {0, 0}) == 0);
  CHECK(slow_share_bytes(7e8, {60, 0}, {10, 0}) == Approx(1e8));
}

TEST_CASE("hybrid Broadcast gains what PCIe adds, less the time to switch") {  // Blink, figure 21
  // Three to eight devices; switching takes longer with more of them.
  for (const auto& devices : std::vector<std::vector<int>>{{0, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
    const auto nvlink = part("dgx1v", devices);
    const auto pcie = part("pcie8", devices);
    const double bytes = 5e8;
    const double switch_us = 100.0 * static_cast<double>(devices.size());
    const HybridPlan plan = hybrid(nvlink, pcie, Collective::broadcast, 0, bytes, switch_us);
    CHECK_NOTHROW(schedule::prepare(plan.fast, 4));
    CHECK_NOTHROW(schedule::prepare(plan.slow, 4));
    CHECK(plan.slow_fraction > 0);
    const double alone = simulated_us(plan.fast, bytes);
    const double fast = simulated_us(plan.fast, bytes * (1 - plan.slow_fraction));
    const double slow = switch_us + simulated_us(plan.slow, bytes * plan.slow_fraction);
    CHECK(std::max(fast, slow) < alone);
    CHECK(fast == Approx(slow).epsilon(0.1));  // but for latency and the filling of trees of different depth
    CHECK(plan.predicted_us < plan.fast_alone_us);
  }
}

TEST_CASE("hybrid plans need the same devices and sensible figures") {
  const auto nvlink = topology::preset("dgx1v");
  CHECK_THROWS_AS(hybrid(nvlink, topology::preset("pcie4"), Collective::broadcast, 0, 1e6, 0), Error);
  CHECK_THROWS_AS(hybrid(nvlink, topology::preset("pcie8"), Collective::broadcast, 0, -1, 0), Error);
  CHECK_THROWS_AS(hybrid(part("dgx1v", {0, 1, 6}), topology::host(3), Collective::broadcast, 0, 1e6, 0), Error);
}
