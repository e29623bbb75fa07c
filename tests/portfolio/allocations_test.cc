// Which free devices to give to a job.
#include "portfolio/allocations.h"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "base/error.h"
#include "topology/presets.h"
#include "treegen/packing/pack.h"

using namespace sccl;
using namespace sccl::portfolio;

namespace {

std::vector<int> all_of(const topology::Machine& machine) {
  std::vector<int> all(static_cast<std::size_t>(machine.topology.ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

double sum_of_ways(const std::vector<Allocation>& allocations) {
  return std::accumulate(allocations.begin(), allocations.end(), 0.0,
                         [](double sum, const Allocation& one) { return sum + one.ways; });
}

}  // namespace

TEST_CASE("the classes of a box's devices count every set once, the best rate first") {
  const topology::Machine machine = topology::load("dgx1v");
  const std::vector<Allocation> ranked = rank_allocations(machine, all_of(machine), 4, Collective::allreduce);
  CHECK(sum_of_ways(ranked) == 70);  // 4 of 8
  for (std::size_t i = 1; i < ranked.size(); ++i) CHECK(ranked[i - 1].gbytes_per_s >= ranked[i].gbytes_per_s);
  // Each rate is that of a packing of the example's own links, whose slowest lane is an NVLink of 25 GB/s.
  for (const Allocation& one : ranked) {
    REQUIRE(one.devices.size() == 4);
    CHECK(one.hosts == 1);
    if (one.gbytes_per_s == 0) continue;  // a device without a link to the others
    const auto packing = treegen::pack(topology::part_of(machine, one.devices).topology, Collective::allreduce, 0, {});
    CHECK(one.gbytes_per_s == Approx(25 * treegen::to_double(packing.rate)));
  }
  CHECK(ranked.front().gbytes_per_s > ranked.back().gbytes_per_s);
}

TEST_CASE("devices behind one switch are alike: one class") {
  const topology::Machine machine = topology::load("dgx-h100");
  const std::vector<Allocation> ranked = rank_allocations(machine, all_of(machine), 5, Collective::allgather);
  REQUIRE(ranked.size() == 1);
  CHECK(ranked.front().ways == 56);
}

TEST_CASE("of sixteen boxes with four free devices each, eight in two boxes beat eight in eight") {
  const topology::Machine machine = topology::load("16*dgx1v");
  std::vector<int> free;
  for (int host = 0; host < 16; ++host)
    for (int device = 0; device < 4; ++device) free.push_back(8 * host + device);
  const std::vector<Allocation> ranked = rank_allocations(machine, free, 8, Collective::allreduce);
  CHECK(sum_of_ways(ranked) == Approx(4426165368.0));  // 8 of 64
  CHECK(ranked.front().hosts == 2);
  CHECK(ranked.front().ways == 120);  // 2 of 16
  CHECK(ranked.back().hosts > 2);
}

TEST_CASE("boxes that differ in what is free are compared by the parts that they can give") {
  const topology::Machine machine = topology::load("16*dgx1v");
  std::vector<int> free;
  for (int host = 0; host < 16; ++host)  // four each, in sixteen patterns
    for (int device = 0; device < 4; ++device) free.push_back(8 * host + (device * (1 + host % 2 * 2) + host / 2) % 8);
  const std::vector<Allocation> ranked = rank_allocations(machine, free, 8, Collective::allreduce);
  CHECK(sum_of_ways(ranked) == Approx(4426165368.0));  // 8 of 64
  CHECK(ranked.front().hosts == 2);
}

TEST_CASE("only free devices are chosen, and hosts that differ in what is free are told apart") {
  const topology::Machine machine = topology::load("2*dgx1v");
  const std::vector<int> free{1, 4, 5, 6, 8, 9, 10};
  const std::vector<Allocation> ranked = rank_allocations(machine, free, 3, Collective::broadcast);
  CHECK(sum_of_ways(ranked) == 35);  // 3 of 7
  for (const Allocation& one : ranked)
    for (const int device : one.devices) CHECK(std::count(free.begin(), free.end(), device) == 1);
}

TEST_CASE("devices that no links join have the rate 0, and come last") {
  topology::Machine machine;
  machine.topology.name = "two pairs";
  machine.topology.ranks = 4;
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(2, 3)})
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
      machine.topology.links.push_back({src, dst, 1, 25.0, 1.0, topology::LinkClass::nvlink});
  const std::vector<Allocation> ranked = rank_allocations(machine, all_of(machine), 2, Collective::allreduce);
  REQUIRE(ranked.size() == 2);
  CHECK(ranked.front().ways == 2);
  CHECK(ranked.front().gbytes_per_s == Approx(25.0));
  CHECK(ranked.back().ways == 4);
  CHECK(ranked.back().gbytes_per_s == 0);
}

TEST_CASE("questions without an answer are refused with the reason") {
  const topology::Machine machine = topology::load("dgx1v");
  const std::vector<int> all = all_of(machine);
  const auto ask = [&](std::vector<int> free, int count, Collective collective) {
    return rank_allocations(machine, free, count, collective);
  };
  CHECK_THROWS_WITH(ask(all, 9, Collective::allreduce), Catch::Contains("8 are free"));
  CHECK_THROWS_WITH(ask(all, 1, Collective::allreduce), Catch::Contains("at least 2"));
  CHECK_THROWS_WITH(ask({0, 1, 1}, 2, Collective::allreduce), Catch::Contains("named twice"));
  CHECK_THROWS_WITH(ask({0, 8}, 2, Collective::allreduce), Catch::Contains("does not exist"));
  CHECK_THROWS_WITH(ask(all, 2, Collective::alltoall), Catch::Contains("not packed"));
}
