// Cuts between neighbouring switches of lines, rings and trees bound every schedule, and are found.
#include "compose/bounds/row_bound.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <random>

#include "clusters.h"
#include "compose/against_bounds.h"
#include "compose/bounds/parts_bound.h"

using namespace sccl;

namespace {

constexpr double kBytes = 1e6;

double of_rows_us(const topology::Topology& machine, Collective collective, Rank root = 0) {
  const topology::Cluster cluster = topology::cluster_of(machine);
  return greatest_us(compose::bounds_of_rows(machine, cluster, machine.links, collective, root, kBytes));
}

std::vector<double> random_rates(std::mt19937& random, int links, const std::vector<double>& of) {
  std::vector<double> rates;
  for (int link = 0; link < links; ++link) rates.push_back(of[random() % of.size()]);
  return rates;
}

// Lines and rings of 3 to 9 switches.
topology::Topology random_row(std::mt19937& random) {
  const int hosts = 3 + static_cast<int>(random() % 7);
  const int devices = 1 + static_cast<int>(random() % 2);
  const bool ring = random() % 2 == 0;
  return in_a_row(hosts, devices, random_rates(random, ring ? hosts : hosts - 1, {2, 5, 12.5, 25, 60}));
}

// Two hosts of two devices, whose NICs are on a switch each, and one of a single device on the first of these switches.
// A third switch joins both by slow links.
topology::Topology hosts_that_share_one_of_two_switches() {
  topology::Topology machine;
  machine.name = "hosts that share one of two switches";
  machine.ranks = 5;
  machine.switches = 3;
  for (const int first : {0, 2}) {
    join_both_ways(machine, first, first + 1, 40, topology::LinkClass::nvlink);
    for (const int device : {0, 1}) join_both_ways(machine, first + device, 5 + device, 40, topology::LinkClass::net);
  }
  join_both_ways(machine, 4, 5, 40, topology::LinkClass::net);
  for (const int leaf : {5, 6}) join_both_ways(machine, leaf, 7, 5, topology::LinkClass::net);
  return machine;
}

// Of a row of hosts: the worst of all runs of hosts, each looked at by itself.
double worst_run_us(int hosts, double devices, const std::vector<double>& rates, Collective collective, Rank root) {
  double most = 0;
  for (int begin = 0; begin < hosts; ++begin)
    for (int end = begin + 2; end <= hosts && end - begin <= hosts - 2; ++end) {
      double rate = begin > 0 ? rates[static_cast<std::size_t>(begin) - 1] : 0;
      if (static_cast<std::size_t>(end) <= rates.size()) rate += rates[static_cast<std::size_t>(end) - 1];
      if (static_cast<int>(rates.size()) == hosts && begin == 0) rate += rates.back();
      const bool has_root = root >= begin * devices && root < end * devices;
      const compose::Demand wanted = compose::demand(collective, (end - begin) * devices, hosts * devices, has_root);
      most = std::max(most, std::max(wanted.in, wanted.out) * kBytes / (rate * 1e3));
    }
  return most;
}

}  // namespace

TEST_CASE("the middle of a line of hosts bounds an AllToAll most") {
  const topology::Topology machine = in_a_row(8, 2, {20, 20, 20, 20, 20, 20, 20});
  const auto found = compose::bounds(machine, topology::cluster_of(machine), Collective::alltoall, 0, kBytes);
  CHECK(found.front().us == Approx(8.0 * 8 / 16 * kBytes / 20e3));
  CHECK(found.front().us == Approx(of_rows_us(machine, Collective::alltoall)));
  INFO(found.front().why);
  CHECK(found.front().why.rfind("4 neighbouring hosts, with that of rank ", 0) == 0);
}

TEST_CASE("every cut of lines, and every pair of cuts of rings, is found") {
  std::mt19937 random(20261127);
  for (int i = 0; i < 60; ++i) {
    const int hosts = 4 + i % 6;
    const int devices = 1 + i % 3;
    // So slow that no cut through NICs is worse.
    const std::vector<double> rates = random_rates(random, i % 2 == 0 ? hosts : hosts - 1, {1, 2, 3, 4.5});
    const topology::Topology machine = in_a_row(hosts, devices, rates);
    for (const Collective collective : kCollectives) {
      const Rank root = info(collective).rooted ? static_cast<Rank>(random() % unsigned(machine.ranks)) : 0;
      INFO(info(collective).name << " from " << root << ", row " << i);
      CHECK(of_rows_us(machine, collective, root) == Approx(worst_run_us(hosts, devices, rates, collective, root)));
    }
  }
}

TEST_CASE("hosts that hang on a ring's switches count on the side of their switch") {
  // Four racks of two hosts in a ring; a pair of racks is the worst arc.
  topology::Topology machine = racks(4, 2, 2);
  const int first = machine.ranks + 8 * 3;
  machine.links.erase(
      std::remove_if(machine.links.begin(), machine.links.end(),
                     [&](const topology::Link& link) { return std::max(link.src, link.dst) == first + 4; }),
      machine.links.end());
  for (int rack = 0; rack < 4; ++rack)
    join_both_ways(machine, first + rack, first + (rack + 1) % 4, 10, topology::LinkClass::net);
  CHECK(of_rows_us(machine, Collective::alltoall) == Approx(8.0 * 8 / 16 * kBytes / 20e3));
}

TEST_CASE("each branch of a tree of switches is a cut") {
  // Three racks below one switch, of which the second has the slowest link.
  CHECK(of_rows_us(racks(3, 2, 2, {30, 5, 30}), Collective::alltoall) == Approx(4.0 * 8 / 12 * kBytes / 5e3));
}

TEST_CASE("few hosts, and hosts on one switch, have no cut between neighbours") {
  CHECK(of_rows_us(in_a_row(3, 2, {5, 5}), Collective::alltoall) == 0);
  CHECK(of_rows_us(topology::preset("5*host:1"), Collective::alltoall) == 0);
}

TEST_CASE("hosts of two racks reach one another over the switch that both racks have") {
  const topology::Topology machine = hosts_that_share_one_of_two_switches();
  const topology::Cluster cluster = topology::cluster_of(machine);
  REQUIRE(cluster.racks.size() == 2);
  std::mt19937 random(1);
  const auto bounds_of = [&](Collective collective, Rank root, double bytes) {
    return compose::bounds(machine, cluster, collective, root, bytes);
  };
  check_that_no_schedule_beats(machine, 0, {1e6}, random, bounds_of,
                               {std::begin(kCollectives), std::end(kCollectives)});
}

TEST_CASE("no schedule on random lines and rings of switches is foreseen to beat the bounds") {
  std::mt19937 random(20261128);
  for (int i = 0; i < 6; ++i) {
    const topology::Topology machine = random_row(random);
    const topology::Cluster cluster = topology::cluster_of(machine);
    INFO(machine.name << " of " << machine.ranks << " ranks");
    const auto bounds_of = [&](Collective collective, Rank root, double bytes) {
      return compose::bounds(machine, cluster, collective, root, bytes);
    };
    check_that_no_schedule_beats(machine, i, {1e6}, random, bounds_of,
                                 {std::begin(kCollectives), std::end(kCollectives)});
  }
}
