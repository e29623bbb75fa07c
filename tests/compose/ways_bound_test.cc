// Bounds of the ways between devices: links that no way between devices of a host uses bring what its NICs bring, and
// a switch above a single host is no NIC of it.
#include "compose/bounds/ways_bound.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "compose/against_bounds.h"
#include "compose/clusters.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

constexpr double kBytes = 1e6;

// Hosts whose devices are on one switch, each by a link of `inner` GB/s, and in pairs on a NIC, by links of `to_nic`.
struct Machine {
  int hosts = 2;
  int devices = 4;
  int inner = 10;
  int to_nic = 8;
  int nic = 6;
  std::vector<int> racks{};  // hosts of each; none: all are on one switch
  int uplink = 100;
};

topology::Topology machine_of(const Machine& form) {
  topology::Topology machine;
  machine.name = "ways";
  machine.ranks = form.hosts * form.devices;
  const int nics = form.devices / 2;
  const auto racks = static_cast<int>(form.racks.size());
  const int fabric = machine.ranks + form.hosts * (1 + nics);
  int rack = 0;
  int of_rack = 0;
  for (int host = 0; host < form.hosts; ++host) {
    const int first = machine.ranks + host * (1 + nics);
    if (racks > 0 && of_rack++ == form.racks[static_cast<std::size_t>(rack)]) {
      ++rack;
      of_rack = 1;
    }
    for (int device = 0; device < form.devices; ++device) {
      join_both_ways(machine, host * form.devices + device, first, form.inner, topology::LinkClass::nvlink);
      join_both_ways(machine, host * form.devices + device, first + 1 + device / 2, form.to_nic,
                     topology::LinkClass::pcie);
    }
    for (int nic = 0; nic < nics && form.hosts > 1; ++nic)
      join_both_ways(machine, first + 1 + nic, fabric + rack, form.nic, topology::LinkClass::net);
  }
  for (int one = 0; one < racks; ++one)
    join_both_ways(machine, fabric + one, fabric + racks, form.uplink, topology::LinkClass::net);
  machine.switches = fabric - machine.ranks + (form.hosts > 1 ? 1 + racks : 0);
  return machine;
}

double bound_us(const topology::Topology& machine, Collective collective) {
  return greatest_us(compose::bounds(machine, topology::cluster_of(machine), collective, 0, kBytes));
}

}  // namespace

TEST_CASE("links that no way between the devices of one host uses carry nothing") {
  const topology::Topology machine = machine_of({.hosts = 1});
  CHECK(bound_us(machine, Collective::allgather) == Approx(3 * kBytes / 10e3));
  CHECK(bound_us(machine, Collective::broadcast) == Approx(kBytes / 10e3));
  CHECK(bound_us(machine, Collective::allreduce) == Approx(2 * 3 * kBytes / 40e3));
}

TEST_CASE("devices get from elsewhere what their host's NICs bring, whatever their links to these carry") {
  // 7 blocks come to each of 4 devices, over 40 GB/s on the host and 12 GB/s of its NICs.
  const topology::Topology machine = machine_of({.inner = 10, .to_nic = 15, .nic = 6});
  CHECK(bound_us(machine, Collective::allgather) == Approx(4 * 7 * kBytes / 52e3));
  CHECK(bound_us(machine, Collective::reducescatter) == Approx(4 * 7.0 / 8 * kBytes / 52e3));
}

TEST_CASE("a host that has a rack for itself sends what its NICs send, not what its rack's links carry") {
  // 4 hosts send 12 GB/s each: every byte passes 2 x 3 times between them.
  const topology::Topology machine = machine_of({.hosts = 4, .inner = 400, .racks = {3, 1}, .uplink = 300});
  const auto all = compose::bounds(machine, topology::cluster_of(machine), Collective::allreduce, 0, kBytes);
  const auto of_hosts = std::ranges::find_if(all, [](const compose::Bound& one) {
    return one.why == "6 times the buffer crosses between the 4 hosts, which send 48 GB/s together";
  });
  REQUIRE(of_hosts != all.end());
  CHECK(of_hosts->us == Approx(6 * kBytes / 48e3));
}

TEST_CASE("devices without a way on their host send to each other over the network") {
  std::mt19937 random(11);
  int number = 0;
  for (const topology::Topology& machine :
       {part("2*dgx1v", {0, 1, 2, 3, 4, 5, 6, 7}), part("2*mi250x", {0, 1, 2, 3, 4, 5}),
        part("2*z52", {0, 3, 5, 9, 12}), in_a_row(3, 4, {20, 10}),
        with_nics(topology::preset("nvpairs4"), {2, {0, 1, 2, 3}}, 400)}) {
    const topology::Cluster cluster = topology::cluster_of(machine);
    check_that_no_schedule_beats(machine, ++number, {1e5, 1e7}, random,
                                 [&](Collective collective, Rank root, double bytes) {
                                   return compose::bounds(machine, cluster, collective, root, bytes);
                                 });
  }
}

TEST_CASE("a direct link of the network between two devices is a way between them") {
  topology::Topology machine = machine_of({.hosts = 1, .devices = 2, .inner = 10, .to_nic = 5});
  join_both_ways(machine, 0, 1, 80, topology::LinkClass::net);
  CHECK(bound_us(machine, Collective::allgather) <= 1.0001 * kBytes / 80e3 + 1);
}

TEST_CASE("no schedule on hosts with two ways from their devices is foreseen to beat the bounds") {
  std::mt19937 random(7);
  const auto drawn = [&](std::initializer_list<int> of) { return of.begin()[random() % of.size()]; };
  for (int number = 0; number < 24; ++number) {
    Machine form{.hosts = drawn({1, 2, 3}),
                 .devices = drawn({2, 4}),
                 .inner = drawn({5, 10, 40}),
                 .to_nic = drawn({5, 10, 40}),
                 .nic = drawn({3, 10, 40})};
    if (form.hosts == 3 && random() % 2 == 0) form.racks = {2, 1};
    const topology::Topology machine = machine_of(form);
    const topology::Cluster cluster = topology::cluster_of(machine);
    check_that_no_schedule_beats(machine, number, {1e5, 1e7}, random,
                                 [&](Collective collective, Rank root, double bytes) {
                                   return compose::bounds(machine, cluster, collective, root, bytes);
                                 });
  }
}
