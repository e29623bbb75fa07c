// The least time of a flow counts latencies, and no schedule takes less.
#include "compose/latency/quickest_flow.h"

#include <catch2/catch.hpp>
#include <random>

#include "compose/against_bounds.h"
#include "compose/bounds/bound.h"
#include "topology/presets.h"
#include "topology/symmetry/cluster.h"

using namespace sccl;
using compose::QuickestFlow;
using compose::Reading;

namespace {

// Hosts of three to five devices, joined at random, each with a NIC of a random rate.
topology::Topology random_cluster(std::mt19937& random) {
  const auto any = [&](int least, int most) { return least + static_cast<int>(random() % unsigned(most - least + 1)); };
  topology::Topology machine;
  machine.name = "random";
  const int hosts = any(2, 3);
  const int devices = any(3, 5);
  machine.ranks = hosts * devices;
  machine.switches = 1;
  for (int host = 0; host < hosts; ++host)
    for (int device = 0; device < devices; ++device) {
      const Rank rank = host * devices + device;
      if (device > 0)
        join(machine, rank, host * devices + any(0, device - 1), 10 * any(1, 5), any(1, 4), topology::LinkClass::xgmi);
      join(machine, rank, machine.ranks, 5 * any(1, 4), any(1, 5), topology::LinkClass::net);
    }
  return machine;
}

}  // namespace

TEST_CASE("a flow over a short narrow way and a long wide one uses both while the long one pays") {
  topology::Topology machine;
  machine.name = "two ways";
  machine.ranks = 3;
  machine.links = {{0, 2, 1, 1, 2, topology::LinkClass::xgmi},
                   {0, 1, 1, 4, 5, topology::LinkClass::xgmi},
                   {1, 2, 1, 3, 5, topology::LinkClass::xgmi}};
  const QuickestFlow flow(machine, {0, 1, 2}, Reading::forwards);
  CHECK(flow.us(0, 2, 4e3) == Approx(2 + 4));                         // the long way takes 10 us before its first byte
  CHECK(flow.us(0, 2, 40e3) == Approx((40 + 1 * 2 + 3 * 10) / 4.0));  // 1 GB/s and 3 GB/s
  CHECK(flow.us(std::nullopt, 2, 1e3) > 1e30);                        // nothing leads in from outside
  const QuickestFlow into(machine, {2}, Reading::forwards);
  CHECK(into.us(std::nullopt, 2, 40e3) == Approx((40 + 1 * 2 + 3 * 5) / 4.0));
  const QuickestFlow back(machine, {0, 1, 2}, Reading::backwards);
  CHECK(back.us(2, 0, 40e3) == Approx(flow.us(0, 2, 40e3)));
  CHECK(back.us(0, 2, 1e3) > 1e30);
}

TEST_CASE("the way to the farthest device counts in the bound of a Broadcast") {
  const topology::Topology machine = topology::preset("2*mi250x");
  const double bytes = 64 << 20;
  const auto found = compose::bounds(machine, topology::cluster_of(machine), Collective::broadcast, 0, bytes);
  const double nics_us = bytes / 200e3;
  CHECK(found.front().us > nics_us + 5 + 2 * 4);  // between hosts, and four links on hosts at least
  CHECK(found.front().us < nics_us + 5 + 2 * 10);
}

TEST_CASE("no schedule on random hosts is foreseen to beat the bounds") {
  std::mt19937 random(20240607);
  for (int i = 0; i < 4; ++i) {
    const topology::Topology machine = random_cluster(random);
    const topology::Cluster cluster = topology::cluster_of(machine);
    check_that_no_schedule_beats(machine, i, {1e3, 1e5, 2e7}, random,
                                 [&](Collective collective, Rank root, double bytes) {
                                   return compose::bounds(machine, cluster, collective, root, bytes);
                                 });
  }
}

TEST_CASE("on hosts of many devices the way to some of them bounds a call") {
  constexpr int kDevices = 72;
  constexpr double kBytes = 64e6;
  topology::Topology machine;
  machine.name = "wide";
  machine.ranks = 2 * kDevices;
  machine.switches = 3;
  for (Rank rank = 0; rank < machine.ranks; ++rank) {
    join(machine, rank, machine.ranks + rank / kDevices, 900, 1, topology::LinkClass::nvlink);
    join(machine, rank, machine.ranks + 2, 50, 1, topology::LinkClass::net);
  }
  const topology::Cluster cluster = topology::cluster_of(machine);
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    const auto bounds = compose::bounds(machine, cluster, collective, 0, kBytes);
    // Over the root's own NIC 2 us; over a device beside it, and one beside the last, 2 us more for each switch.
    const double all = 900 + 50;
    CHECK(bounds.front().us == Approx((kBytes / 1e3 + 900 * 6 + 50 * 2) / all).epsilon(0.01));
    CHECK_THAT(bounds.front().why, Catch::Contains("with all latencies"));
  }
}
