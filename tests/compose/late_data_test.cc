// Data of one root is late on other hosts: known values, and no schedule takes less.
#include "compose/latency/late_data.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "compose/against_bounds.h"
#include "compose/bounds/bound.h"
#include "topology/symmetry/cluster.h"

using namespace sccl;

namespace {

constexpr double kBytes = 1e6;
constexpr double kNicUs = 2.5;

// Hosts of one device each, by the rates of their NICs.
topology::Topology single_devices(const std::vector<double>& rates) {
  topology::Topology machine;
  machine.name = "single devices";
  machine.ranks = static_cast<int>(rates.size());
  machine.switches = 1;
  for (Rank rank = 0; rank < machine.ranks; ++rank)
    join(machine, rank, machine.ranks, rates[static_cast<std::size_t>(rank)], kNicUs, topology::LinkClass::net);
  return machine;
}

double bound_us(const topology::Topology& machine, Collective collective) {
  return greatest_us(compose::bounds(machine, topology::cluster_of(machine), collective, 0, kBytes));
}

// Hosts of one or two forms, each with as many of their devices at NICs as the form says.
topology::Topology random_cluster(std::mt19937& random) {
  const auto any = [&](int least, int most) { return least + static_cast<int>(random() % unsigned(most - least + 1)); };
  topology::Topology machine;
  machine.name = "random";
  struct Form {
    int devices, nics;
    double nic, nic_us, inner, inner_us;
  };
  std::vector<Form> forms;
  for (int i = 0; i < 2; ++i) {
    const int devices = any(1, 3);
    forms.push_back({devices, any(1, devices), 5.0 * any(1, 4), 1.0 * any(1, 20), 5.0 * any(1, 6), 1.0 * any(1, 6)});
  }
  const int hosts = any(3, 6);
  std::vector<Form> of_hosts;
  for (int host = 0; host < hosts; ++host) {
    of_hosts.push_back(forms[any(0, 3) == 0 ? 1 : 0]);
    machine.ranks += of_hosts.back().devices;
  }
  machine.switches = 1;
  Rank first = 0;
  for (const Form& form : of_hosts) {
    for (int device = 0; device < form.devices; ++device) {
      if (device > 0) join(machine, first, first + device, form.inner, form.inner_us, topology::LinkClass::xgmi);
      if (device < form.nics)
        join(machine, first + device, machine.ranks, form.nic, form.nic_us, topology::LinkClass::net);
    }
    first += form.devices;
  }
  return machine;
}

}  // namespace

TEST_CASE("nearly all data of one root comes to other hosts over a third one") {
  for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
    INFO(info(collective).name);
    const double way_us = 2 * kNicUs;
    CHECK(bound_us(single_devices({10, 10}), collective) == Approx(100 + way_us));
    // What the root sends in the first 5 us, 50 kB, is for two hosts, or for five.
    CHECK(bound_us(single_devices({10, 10, 10}), collective) == Approx(100 - 2.5 + 2 * way_us));
    CHECK(bound_us(single_devices({10, 10, 10, 10, 10, 10}), collective) == Approx(100 - 1 + 2 * way_us));
  }
  CHECK(bound_us(single_devices({10, 10, 10}), Collective::scatter) < 100);
}

TEST_CASE("a host that is like no other one may get all that leaves the root early") {
  // 50 kB of 1 MB over its slow NIC of 2 GB/s would take 25 us: more than a third host costs.
  CHECK(bound_us(single_devices({10, 2, 10}), Collective::broadcast) == Approx(500 + 2 * kNicUs));
  // Two such hosts share them, but that costs more as well.
  CHECK(bound_us(single_devices({10, 2, 2, 10}), Collective::broadcast) == Approx(500 + 2 * kNicUs));
  // Two hosts are alike if a third one has another NIC, at which the first ones gain.
  CHECK(bound_us(single_devices({10, 10, 10, 40}), Collective::broadcast) == Approx(100 - 2.5 + 4 * kNicUs));
}

TEST_CASE("data comes to devices of another host no earlier than the network brings it there") {
  std::vector<compose::LateData> late;
  topology::Topology machine = single_devices({10, 10, 10});
  const auto look = [&](Collective collective) {
    const std::vector<int> side = {0, 1, 2, -1};
    late = compose::late_data(topology::cluster_of(machine), machine.links, side, collective, 1);
  };
  look(Collective::broadcast);
  CHECK(late[1].time_us(100, kBytes) == 100);
  CHECK(late[0].direct_us == Approx(2 * kNicUs));
  CHECK(late[0].relayed_us == Approx(4 * kNicUs));
  CHECK(late[2].early_bytes == Approx(10e3 * 2 * kNicUs / 2));
  CHECK(late[0].time_us(0, kBytes) == 0);                    // a cut that says nothing
  CHECK(late[0].time_us(2, 2e4) == Approx(2 + 2 * kNicUs));  // less than what may be early
  look(Collective::allgather);
  CHECK(late[0].time_us(100, kBytes) == 100);
  // Data may pass a host that is linked to others without a switch, and no third host is needed.
  join(machine, 0, 2, 10, 1, topology::LinkClass::net);
  look(Collective::broadcast);
  CHECK(late[0].time_us(100, kBytes) == Approx(100 + kNicUs));  // as if from host 2
}

TEST_CASE("no Broadcast or Reduce is earlier than its data") {
  std::mt19937 random(25);
  for (int number = 0; number < 6; ++number) {
    const topology::Topology machine = random_cluster(random);
    const topology::Cluster cluster = topology::cluster_of(machine);
    check_that_no_schedule_beats(machine, number, {2e4, 3e6}, random,
                                 [&](Collective collective, Rank root, double bytes) {
                                   return compose::bounds(machine, cluster, collective, root, bytes);
                                 },
                                 {Collective::broadcast, Collective::reduce});
  }
}
