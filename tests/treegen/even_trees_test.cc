// Trees found one by one leave links nearly as evenly busy as a linear program over all trees.
#include "treegen/clusters/even_trees.h"

#include <catch2/catch.hpp>
#include <set>

#include "schedule/proof/verify.h"
#include "schedule/simulation/cost.h"
#include "topology/presets.h"
#include "treegen/packing/pack.h"
#include "treegen/schedules/to_schedule.h"

using namespace sccl;
using namespace sccl::treegen;

namespace {

// AllReduce over the trees, a chunk each.
schedule::Schedule over(const topology::Topology& topology, const std::vector<Tree>& trees) {
  std::vector<schedule::Send> sends;
  for (std::size_t tree = 0; tree < trees.size(); ++tree)
    add_sends({trees[tree], trees[tree]}, static_cast<int>(tree), 0, sends);
  auto made = schedule::make_schedule("trees", Collective::allreduce, 0, topology, static_cast<int>(trees.size()),
                                      std::move(sends));
  made.pipelined = true;
  return made;
}

// AllGather or ReduceScatter over the trees, a chunk each.
schedule::Schedule over(const topology::Topology& topology, const std::vector<Tree>& trees, Collective collective) {
  const bool sums = collective == Collective::reducescatter;
  std::vector<schedule::Send> sends;
  for (std::size_t tree = 0; tree < trees.size(); ++tree) {
    REQUIRE(trees[tree].root == static_cast<Rank>(tree) % topology.ranks);
    Route route;
    (sums ? route.in : route.out) = trees[tree];
    add_sends(route, static_cast<int>(tree), 0, sends);
  }
  const int count = static_cast<int>(trees.size());
  auto made = schedule::make_schedule("trees", collective, 0, topology, sums ? count : count / topology.ranks,
                                      std::move(sends));
  made.pipelined = true;
  return made;
}

// Two rings of four, joined by slow links in one direction and fast ones in the other.
topology::Topology one_sided() {
  topology::Topology links;
  links.name = "one-sided";
  links.ranks = 8;
  const auto join = [&](int a, int b, double there, double back) {
    links.links.push_back({a, b, 1, there, 1, topology::LinkClass::nvlink});
    links.links.push_back({b, a, 1, back, 1, topology::LinkClass::nvlink});
  };
  for (const int first : {0, 4})
    for (int i = 0; i < 4; ++i) join(first + i, first + (i + 1) % 4, 25, 50);
  for (int i = 0; i < 4; ++i) join(i, 4 + i, 10, 30);
  return links;
}

}  // namespace

TEST_CASE("even trees of each rank are nearly as good as the best packing, for copies and for sums") {
  for (const topology::Topology& machine : {topology::preset("2*pcie4"), topology::preset("2*dgx1v"),
                                            topology::preset("dgx1p"), topology::preset("z52-full"), one_sided()})
    for (const Collective collective : {Collective::allgather, Collective::reducescatter}) {
      INFO(info(collective).name << " on " << machine.name);
      const auto trees = even_trees_of_ranks(
          machine, collective == Collective::allgather ? Reading::copies : Reading::sums, 256 / machine.ranks);
      const schedule::Schedule made = over(machine, trees, collective);
      CHECK_NOTHROW(schedule::verify(made));
      const auto best = plan(machine, collective, 0, {CapacityUnit::gbytes_per_s, TreeWeights::any});
      REQUIRE(best);
      CHECK(schedule::busiest_us_per_byte(made) < 1.1 * schedule::busiest_us_per_byte(*best));
      for (const schedule::Schedule* one : {&made, &*best})
        CHECK(least_busiest_us_per_byte(machine, collective) < (1 + 1e-9) * schedule::busiest_us_per_byte(*one));
    }
}

TEST_CASE("even trees are nearly as good as the best packing") {
  const std::vector<topology::Topology> machines{
      topology::preset("2*dgx1v"),
      topology::preset("2*pcie4"),
      topology::preset("3*nvpairs4"),
      topology::preset("2*z52"),
      topology::preset("dgx1v"),
      topology::subset(topology::preset("3*dgx1v"), std::vector<int>{1, 4, 5, 8, 9, 10, 12, 15, 16, 19})};
  for (const topology::Topology& machine : machines) {
    INFO(machine.name << ", " << machine.ranks << " ranks");
    const std::vector<Tree> trees = even_trees(machine, 64);
    REQUIRE(trees.size() == 64);
    const schedule::Schedule made = over(machine, trees);
    CHECK_NOTHROW(schedule::verify(made));
    // Whole chunks of a packing with the same links would not do better: this is the program's optimum for data that
    // can be divided at will.
    const auto best = plan(machine, Collective::allreduce, 0, {CapacityUnit::gbytes_per_s, TreeWeights::any});
    REQUIRE(best);
    CHECK(schedule::busiest_us_per_byte(made) < 1.1 * schedule::busiest_us_per_byte(*best));
    const double least_us = least_busiest_us_per_byte(machine, Collective::allreduce);
    for (const schedule::Schedule* one : {&made, &*best})
      CHECK(least_us < (1 + 1e-9) * schedule::busiest_us_per_byte(*one));
  }
}

// Connections that share a NIC take turns there, so that what is urgent waits for what is not.
TEST_CASE("even trees give ranks few peers behind switches, and no link more to do for it") {
  const topology::Topology hosts = topology::preset("3*dgx1p");
  for (const std::vector<int>& devices : {std::vector<int>{0, 1, 2, 8, 9, 10, 11, 12},
                                          std::vector<int>{0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 16, 17, 18, 19}}) {
    const topology::Topology machine = topology::subset(hosts, devices);
    const std::vector<Tree> trees = even_trees(machine, 128);
    std::vector<std::set<Rank>> peers(devices.size());
    for (const Tree& tree : trees)
      for (Rank rank = 0; rank < machine.ranks; ++rank) {
        const Rank parent = tree.parent[static_cast<std::size_t>(rank)];
        if (rank == tree.root ||
            devices[static_cast<std::size_t>(rank)] / 8 == devices[static_cast<std::size_t>(parent)] / 8)
          continue;
        peers[static_cast<std::size_t>(rank)].insert(parent);
        peers[static_cast<std::size_t>(parent)].insert(rank);
      }
    INFO(machine.ranks << " ranks");
    for (const auto& of_rank : peers) CHECK(of_rank.size() <= 3);
    const auto best = plan(machine, Collective::allreduce, 0, {CapacityUnit::gbytes_per_s, TreeWeights::any});
    REQUIRE(best);
    CHECK(schedule::busiest_us_per_byte(over(machine, trees)) < 1.02 * schedule::busiest_us_per_byte(*best));
  }
}

TEST_CASE("even trees are a function of the topology alone") {
  const topology::Topology machine = topology::preset("2*z52-full");
  CHECK(even_trees(machine, 16) == even_trees(machine, 16));
  CHECK(even_trees_of_ranks(machine, Reading::sums, 2) == even_trees_of_ranks(machine, Reading::sums, 2));
}

TEST_CASE("there are no even trees for ranks that nothing joins, or links without a rate") {
  topology::Topology machine = topology::preset("dgx1v");
  for (topology::Link& link : machine.links) link.gbytes_per_s = 0;
  CHECK(even_trees(machine, 4).empty());
  CHECK(even_trees_of_ranks(machine, Reading::copies, 4).empty());
  topology::Topology apart;
  apart.name = "two pairs";
  apart.ranks = 4;
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(1, 0), std::pair(2, 3), std::pair(3, 2)})
    apart.links.push_back({a, b, 1, 10, 1, topology::LinkClass::nvlink});
  CHECK(even_trees(apart, 4).empty());
  apart.links.push_back({1, 2, 1, 10, 1, topology::LinkClass::nvlink});
  CHECK(even_trees(apart, 4).empty());  // sums find no way back
  CHECK(even_trees_of_ranks(apart, Reading::copies, 4).empty());
  CHECK(even_trees_of_ranks(apart, Reading::sums, 4).empty());
  CHECK(even_trees(topology::preset("host:1"), 4).empty());
}
