// Bounds from several parts of a host are below every packing of trees, and above single cuts where links share their
// bandwidth.
#include "compose/bounds/parts_bound.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "compose/against_bounds.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

constexpr double kBytes = 1e6;
constexpr int kDevices = 3;
constexpr double kAlphaUs = 1;

struct Machine {
  topology::Topology topology;

  void join(int a, int b, int rate, topology::LinkClass kind) {
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
      topology.links.push_back({src, dst, rate, static_cast<double>(rate), kAlphaUs, kind});
  }
};

// Two hosts of three devices: the first device is joined to the others by links of `rate` that share `shared` GB/s, and
// the others to each other by a link of `direct`, if any. Lanes carry 1 GB/s.
topology::Topology two_hosts(int rate, int shared, int direct, int nic) {
  Machine machine;
  machine.topology.name = "two hosts with shared links";
  machine.topology.ranks = 2 * kDevices;
  machine.topology.switches = 1;
  for (const int first : {0, kDevices}) {
    topology::SharedSet set{shared, {}};
    for (const int other : {first + 1, first + 2}) {
      machine.join(first, other, rate, topology::LinkClass::pcie);
      set.links.insert(set.links.end(), {{first, other}, {other, first}});
    }
    machine.topology.shared.push_back(set);
    if (direct > 0) machine.join(first + 1, first + 2, direct, topology::LinkClass::nvlink);
    for (int device = first; device < first + kDevices; ++device)
      machine.join(device, machine.topology.ranks, nic, topology::LinkClass::net);
  }
  return machine.topology;
}

double of_parts_us(const topology::Topology& machine, Collective collective) {
  const topology::Cluster cluster = topology::cluster_of(machine);
  const std::vector<compose::LateData> in_time(cluster.hosts.size());
  return greatest_us(compose::bounds_of_parts(machine, cluster, collective, 0, kBytes, in_time));
}

}  // namespace

TEST_CASE("no packing of trees is faster than the bound of parts") {
  std::mt19937 random(7);
  const auto number = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  int binding = 0;
  for (int round = 0; round < 12; ++round) {
    const int rate = number(4, 9);
    const topology::Topology machine = two_hosts(rate, number(3, 12), number(0, 3), number(1, 6));
    for (const Collective collective : {Collective::broadcast, Collective::reduce, Collective::allreduce,
                                        Collective::allgather, Collective::reducescatter}) {
      INFO("round " << round << ", " << info(collective).name);
      const double parts_us = of_parts_us(machine, collective);
      const double packed = packed_us(machine, collective, kBytes);
      CHECK(parts_us <= packed * (1 + 1e-6) + kAlphaUs);  // which packings do not know
      binding += parts_us > 0.999 * packed ? 1 : 0;
    }
  }
  CHECK(binding > 0);  // so it is not below for want of saying anything
}

TEST_CASE("devices whose links share a set cannot each have the whole set") {
  const topology::Topology machine = two_hosts(10, 10, 0, 3);
  // The three devices of the second host get 10 GB/s over the set together, and 3 each from their NICs; the bound of
  // one device is 13.
  const double us = 3 * kBytes / (19 * 1e3) + 10.0 / 19 * kAlphaUs;
  CHECK(of_parts_us(machine, Collective::broadcast) == Approx(us));
  const auto all = compose::bounds(machine, topology::cluster_of(machine), Collective::broadcast, 0, kBytes);
  // And the way over the network besides.
  CHECK(greatest_us(all) == Approx(us + 2 * kAlphaUs));
}

TEST_CASE("an AllReduce passes sums between the parts of all hosts twice") {
  // Three parts of each host: 10 transfers of each byte over 2 x (10 + 3 x 3) GB/s.
  CHECK(of_parts_us(two_hosts(10, 10, 0, 3), Collective::allreduce) == Approx(10 * kBytes / (38 * 1e3)));
}

TEST_CASE("no schedule is faster than the bound of parts") {
  std::mt19937 random(11);
  const auto number_of = [&](int least, int most) {
    return least + static_cast<int>(random() % unsigned(most - least + 1));
  };
  for (int number = 0; number < 2; ++number) {
    const topology::Topology machine = two_hosts(number_of(4, 9), number_of(3, 12), number_of(0, 3), number_of(1, 6));
    const topology::Cluster cluster = topology::cluster_of(machine);
    check_that_no_schedule_beats(machine, number, {3e4, 1e6}, random,
                                 [&](Collective collective, Rank root, double bytes) {
                                   return compose::bounds(machine, cluster, collective, root, bytes);
                                 });
  }
}
