// Packings as schedules: verified, lowered, executed symbolically; trees that share a link take turns on it.
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "base/error.h"
#include "machines.h"
#include "schedule/lowering/lower.h"
#include "schedule/lowering/prepare.h"
#include "schedule/proof/check_program.h"
#include "schedule/simulation/simulate.h"
#include "treegen/graph/frames.h"
#include "treegen/schedules/to_schedule.h"

using namespace sccl;
using namespace sccl::treegen;

namespace {

constexpr Collective kPacked[] = {Collective::broadcast, Collective::reduce, Collective::allreduce,
                                  Collective::allgather, Collective::reducescatter};

// The rate a schedule gets on its links when data flows without end: 1 over the load of the fullest link. For allgather
// and reducescatter of one rank's block, like Packing::rate.
double flowing_rate(const schedule::Schedule& schedule) {
  const Links links(schedule.topology);
  const bool by_block =
      schedule.collective == Collective::allgather || schedule.collective == Collective::reducescatter;
  const int blocks = by_block ? schedule.ranks : 1;
  std::map<int, double> load;
  for (const schedule::Send& send : schedule.sends) {
    const double size = schedule.weights.empty() ? static_cast<double>(blocks) / schedule.chunks
                                                 : schedule.weights[static_cast<std::size_t>(send.chunk)];
    for (const Use& use : links.hops()[static_cast<std::size_t>(links.hop(send.src, send.dst))].uses)
      load[use.capacity] += size * use.times;
  }
  double fullest = 0;
  for (const auto& [capacity, bytes] : load)
    fullest =
        std::max(fullest, bytes / static_cast<double>(links.capacities()[static_cast<std::size_t>(capacity)].amount));
  return 1 / fullest;
}

void check_schedule(const topology::Topology& topology, Collective collective, Rank root) {
  INFO(topology.name << " " << info(collective).name << " root " << root);
  const Packing packing = pack(topology, collective, root);
  const auto schedule = to_schedule(topology, packing);
  CHECK(schedule.pipelined);
  CHECK(flowing_rate(schedule) == Approx(to_double(packing.rate)));
  for (const int slots : {1, 4}) {
    const auto program = schedule::prepare(schedule, slots);
    for (const auto placement : {schedule::Placement::out_of_place, schedule::Placement::in_place})
      for (const std::uint64_t seed : {1u, 2u})
        CHECK_NOTHROW(schedule::check_program(schedule, program, {slots, 3, placement, seed}));
  }
}

}  // namespace

TEST_CASE("packings of every class of machine become verified programs with the packing's rate") {
  for (const char* name : {"dgx1p", "dgx1v", "z52", "z52-full", "dgx2", "dgx-a100", "mi250x", "mi300x", "pcie4",
                           "pcie8", "nvpairs4", "2*dgx1v", "2*nvpairs4"})
    for (const Collective collective : kPacked) check_schedule(topology::preset(name), collective, 0);
}

TEST_CASE("packings of allocations of a DGX-1V become verified programs, whatever the root") {
  for (const auto& devices : connected_subsets("dgx1v")) {
    const auto topology = topology::subset(topology::preset("dgx1v"), devices);
    const Rank last = topology.ranks - 1;
    for (const Collective collective : kPacked) check_schedule(topology, collective, last);
  }
}

TEST_CASE("two ranks have one tree") {
  for (const Collective collective : kPacked) check_schedule(topology::host(2), collective, 1);
}

TEST_CASE("chunks of trees take turns by weight") {
  CHECK(take_turns({2, 1, 1}) == std::vector<int>{0, 1, 2, 0});
  const auto order = take_turns({10, 5, 3, 2, 2, 1, 1});
  CHECK(order.size() == 24);
  CHECK(std::count(order.begin(), order.end(), 0) == 10);
  // In every half of the order the heaviest tree has its half.
  CHECK(std::count(order.begin(), order.begin() + 12, 0) == 5);
}

TEST_CASE("weights become equal chunks on a DGX-1V: six for Broadcast, twenty-four for AllReduce") {
  const auto machine = topology::preset("dgx1v");
  CHECK(plan(machine, Collective::broadcast, 0)->chunks == 6);
  CHECK(plan(machine, Collective::broadcast, 0)->weights.empty());
  CHECK(plan(machine, Collective::allreduce, 0)->chunks == 24);
}

TEST_CASE("weights with large denominators stay weights, and sum up to the buffer") {
  const auto schedule = plan(topology::preset("2*dgx1v"), Collective::allreduce, 0);
  REQUIRE(schedule);
  REQUIRE_FALSE(schedule->weights.empty());
  CHECK(std::accumulate(schedule->weights.begin(), schedule->weights.end(), 0.0) == Approx(1));
}

TEST_CASE("one-hop trees behind a switch run as fused stars") {
  const auto schedule = plan(topology::preset("dgx-a100"), Collective::allreduce, 0);
  REQUIRE(schedule);
  CHECK(schedule->steps == 2);
  CHECK(schedule::lower_direct(*schedule).has_value());
}

TEST_CASE("there is no plan for collectives without trees, one rank, or ranks that nothing joins") {
  CHECK_FALSE(plan(topology::host(4), Collective::alltoall, 0));
  CHECK_FALSE(plan(topology::host(1), Collective::allreduce, 0));
  auto apart = topology::host(3);
  std::erase_if(apart.links, [](const topology::Link& link) { return link.src == 2 || link.dst == 2; });
  for (const Collective collective : kPacked) CHECK_FALSE(plan(apart, collective, 0));
}

TEST_CASE("frames keep a schedule's meaning and its load on the links") {
  for (const Collective collective : kPacked)
    for (const char* name : {"dgx1v", "nvpairs4"}) {
      INFO(name << " " << info(collective).name);
      const auto plain = plan(topology::preset(name), collective, 0);
      REQUIRE(plain);
      const auto framed = in_frames(*plain, 3);
      CHECK(flowing_rate(framed) == Approx(flowing_rate(*plain)));
      CHECK(framed.chunks == 3 * plain->chunks);
      CHECK(framed.steps == plain->steps + 2);
      const auto program = schedule::prepare(framed, 4);
      CHECK_NOTHROW(schedule::check_program(framed, program, {4, 3, schedule::Placement::in_place, 1}));
    }
  CHECK_THROWS_AS(in_frames(*plan(topology::host(2), Collective::broadcast, 0), 0), Error);
}

TEST_CASE("in frames, large transfers come near to the packing's rate, where slices alone do not") {
  const auto machine = topology::preset("dgx1v");
  constexpr double kBytes = 5e8;
  constexpr double kLaneBytesPerUs = 25e3;
  for (const Collective collective : {Collective::broadcast, Collective::allreduce, Collective::allgather}) {
    INFO(info(collective).name);
    const Packing packing = pack(machine, collective, 0);
    const auto schedule = to_schedule(machine, packing);
    const double ideal_us = kBytes / (to_double(packing.rate) * kLaneBytesPerUs);
    schedule::SimulationOptions options;
    options.bytes = kBytes;
    options.detail = schedule::Detail::totals;
    const double framed_us = schedule::simulate(in_frames(schedule, 96), options).time_us;
    CHECK(framed_us < 1.07 * ideal_us);
    CHECK(framed_us >= ideal_us * (1 - 1e-9));
  }
}
