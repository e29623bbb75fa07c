// NICs of hosts with latencies behind them: known values, and no schedule takes less.
#include "compose/bounds/latency_bound.h"

#include <catch2/catch.hpp>
#include <random>

#include "compose/against_bounds.h"
#include "compose/bounds/bound.h"
#include "topology/presets.h"
#include "topology/symmetry/cluster.h"

using namespace sccl;

namespace {

// Hosts whose devices stand in a line, with a latency between neighbours; only the first device has a NIC, of 10 GB/s.
topology::Topology lines(int hosts, int devices, double alpha_us) {
  topology::Topology machine;
  machine.name = "lines";
  machine.ranks = hosts * devices;
  machine.switches = 1;
  for (Rank first = 0; first < machine.ranks; first += devices) {
    join(machine, first, machine.ranks, 10, 2.5, topology::LinkClass::net);
    for (Rank rank = first + 1; rank < first + devices; ++rank)
      join(machine, rank - 1, rank, 100, alpha_us, topology::LinkClass::xgmi);
  }
  return machine;
}

double with_latency_us(const topology::Topology& machine, Collective collective, double bytes) {
  return greatest_us(
      compose::bounds_with_latency(machine, topology::cluster_of(machine), machine.links, collective, 0, bytes));
}

// Devices of a host are joined at random, with long latencies; some have NICs of any latency.
topology::Topology random_cluster(std::mt19937& random) {
  const auto any = [&](int least, int most) { return least + static_cast<int>(random() % unsigned(most - least + 1)); };
  topology::Topology machine;
  machine.name = "random";
  const int hosts = any(2, 3);
  std::vector<Rank> first{0};
  for (int host = 0; host < hosts; ++host) first.push_back(first.back() + any(2, 4));
  machine.ranks = first.back();
  machine.switches = 1;
  for (int host = 0; host < hosts; ++host) {
    const Rank begin = first[static_cast<std::size_t>(host)];
    for (Rank rank = begin; rank < first[static_cast<std::size_t>(host) + 1]; ++rank) {
      if (rank > begin)
        join(machine, rank, any(begin, rank - 1), 10 * any(1, 5), any(1, 12), topology::LinkClass::xgmi);
      if (rank == begin || any(0, 2) == 0)
        join(machine, rank, machine.ranks, 5 * any(1, 2), any(1, 4), topology::LinkClass::net);
    }
  }
  return machine;
}

}  // namespace

TEST_CASE("what enters a host late does not come to all its devices") {
  const topology::Topology machine = lines(2, 4, 4);
  const double bytes = 1e6;  // 400 us of the NIC for four blocks
  const double mean_us = (0 + 4 + 8 + 12) / 4.0;
  CHECK(with_latency_us(machine, Collective::allgather, bytes) == Approx(400 + 5 + mean_us));
  CHECK(with_latency_us(machine, Collective::reducescatter, 8 * bytes) == Approx(400 + 5 + mean_us));
}

TEST_CASE("early messages lack the sums of far devices, late ones do not come to them") {
  // No longer than another host's data may need to come here: 5 us.
  const double mean_us = (0 + 4 + 5 + 5) / 4.0;
  CHECK(with_latency_us(lines(2, 4, 4), Collective::allreduce, 4e6) == Approx(400 + 5 + 2 * mean_us));
  CHECK(with_latency_us(lines(3, 4, 4), Collective::allreduce, 3e6) == Approx(400 + 5 + 2 * mean_us));
}

TEST_CASE("little data may come to the nearest devices only") {
  const topology::Topology machine = lines(2, 4, 10);
  // A quarter of the devices count in the first 10 us.
  CHECK(with_latency_us(machine, Collective::allgather, 1e3) == Approx(5 + 4 * 0.4));
  // A sixteenth of the pairs of devices.
  CHECK(with_latency_us(machine, Collective::allreduce, 1e3) == Approx(5 + 16 * 0.1));
}

TEST_CASE("links of a switch that all devices reach have the latency to the nearest one") {
  topology::Topology machine;
  machine.name = "switches with NICs";
  machine.ranks = 4;
  machine.switches = 3;
  for (const Rank rank : {0, 1, 2, 3})
    join(machine, rank, 4 + rank / 2, 100, rank % 2 == 0 ? 1 : 3, topology::LinkClass::nvlink);
  for (const topology::Node host : {4, 5}) join(machine, host, 6, 10, 2, topology::LinkClass::net);
  // A message goes to one device first: in 1 us to the nearer one, from where the other one is 4 us away.
  const double mean_us = (1 + 5) / 2.0;
  CHECK(with_latency_us(machine, Collective::allgather, 1e6) == Approx(200 + 5 + mean_us));
}

TEST_CASE("the way over a host's switch to its first device counts once") {
  topology::Topology machine;
  machine.name = "devices behind switches";
  machine.ranks = 2;
  machine.switches = 3;
  for (const Rank rank : {0, 1}) {
    join(machine, rank, 2 + rank, 100, 3, topology::LinkClass::nvlink);
    join(machine, 2 + rank, 4, 10, 2.5, topology::LinkClass::net);
  }
  CHECK(with_latency_us(machine, Collective::allreduce, 1e5) == Approx(10 + 3 + 2.5 + 2.5 + 3));
}

TEST_CASE("other collectives, and one host, have no bound with latencies of NICs") {
  for (const Collective collective : {Collective::alltoall, Collective::gather, Collective::scatter})
    CHECK(with_latency_us(lines(2, 3, 4), collective, 1e6) == 0);
  CHECK(with_latency_us(topology::preset("dgx1v"), Collective::allgather, 1e6) == 0);
}

TEST_CASE("a rooted call has only the latency between the root and the farthest host, by the nearest way") {
  // Hosts of a device each, of which two are far. The first one also has a slow link of its own to the network.
  topology::Topology machine;
  machine.name = "far hosts";
  machine.ranks = 3;
  machine.switches = 2;
  join(machine, 0, 3, 100, 2, topology::LinkClass::pcie);
  join(machine, 3, 4, 100, 5, topology::LinkClass::net);
  join(machine, 0, 4, 100, 90, topology::LinkClass::net);
  join(machine, 1, 4, 100, 1, topology::LinkClass::net);
  join(machine, 2, 4, 100, 7, topology::LinkClass::net);
  const topology::Cluster cluster = topology::cluster_of(machine);
  const auto bound_us = [&](Collective collective, Rank root) {
    return greatest_us(compose::bounds(machine, cluster, collective, root, 0));
  };
  for (const Collective collective :
       {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter}) {
    CHECK(bound_us(collective, 1) == Approx(1 + 7));
    CHECK(bound_us(collective, 2) == Approx(7 + 7));
  }
  CHECK(bound_us(Collective::allgather, 0) == Approx(7 + 7));
}

TEST_CASE("a cable from one host to another counts once in the latency between them") {
  topology::Topology machine;
  machine.name = "a cable beside a switch";
  machine.ranks = 2;
  machine.switches = 1;
  join(machine, 0, 2, 100, 50, topology::LinkClass::net);
  join(machine, 1, 2, 100, 50, topology::LinkClass::net);
  join(machine, 0, 1, 100, 5, topology::LinkClass::net);
  const topology::Cluster cluster = topology::cluster_of(machine);
  CHECK(greatest_us(compose::bounds(machine, cluster, Collective::broadcast, 0, 0)) == Approx(5));
}

TEST_CASE("no schedule on hosts with long latencies is foreseen to beat the bounds") {
  std::mt19937 random(20261126);
  for (int i = 0; i < 6; ++i) {
    const topology::Topology machine = random_cluster(random);
    const topology::Cluster cluster = topology::cluster_of(machine);
    check_that_no_schedule_beats(
        machine, i, {1e2, 1e4, 1e5, 1e6}, random, [&](Collective collective, Rank root, double bytes) {
          return compose::bounds_with_latency(machine, cluster, machine.links, collective, root, bytes);
        });
  }
}
