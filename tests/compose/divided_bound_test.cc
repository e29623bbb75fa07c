// The bound of hosts that count as one part or as several is below every packing of trees, and reaches the best one
// where hosts with slow links stand beside hosts with fast ones.
#include "compose/bounds/divided_bound.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "compose/against_bounds.h"
#include "compose/clusters.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

constexpr double kBytes = 1e6;

struct HostForm {
  int devices;
  int rate;  // of links from each device to each other one
  int nic;   // of each device
};

// Lanes carry 1 GB/s.
topology::Topology cluster_of_forms(const std::vector<HostForm>& forms) {
  topology::Topology machine;
  machine.name = "unlike hosts";
  for (const HostForm& form : forms) machine.ranks += form.devices;
  machine.switches = 1;
  const auto join = [&](int a, int b, int rate, topology::LinkClass kind) {
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
      machine.links.push_back({src, dst, rate, static_cast<double>(rate), 1, kind});
  };
  int first = 0;
  for (const HostForm& form : forms) {
    for (int device = first; device < first + form.devices; ++device) {
      for (int other = first; other < device; ++other) join(device, other, form.rate, topology::LinkClass::nvlink);
      join(device, machine.ranks, form.nic, topology::LinkClass::net);
    }
    first += form.devices;
  }
  return machine;
}

double bound_us(const topology::Topology& machine, Collective collective) {
  return greatest_us(compose::bounds(machine, topology::cluster_of(machine), collective, 0, kBytes));
}

double divided_us(const topology::Topology& machine, Collective collective) {
  const topology::Cluster cluster = topology::cluster_of(machine);
  std::vector<compose::HostRates> rates(cluster.hosts.size());
  const auto host = [&](Rank rank) {
    return static_cast<std::size_t>(cluster.host_of[static_cast<std::size_t>(rank)]);
  };
  for (const topology::Link& link : machine.links) {
    if (link.link_class != topology::LinkClass::net) continue;
    if (link.src < machine.ranks) rates[host(link.src)].out_gbytes_per_s += link.gbytes_per_s;
    if (link.dst < machine.ranks) rates[host(link.dst)].in_gbytes_per_s += link.gbytes_per_s;
  }
  return greatest_us(compose::bounds_of_divided_hosts(cluster, machine.links, rates, collective, kBytes));
}

}  // namespace

TEST_CASE("no packing of trees is faster than the bound of divided hosts") {
  std::mt19937 random(11);
  const auto number = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  int reached = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<HostForm> forms;
    for (int host = number(2, 3); host > 0; --host) forms.push_back({number(1, 4), number(1, 9), number(2, 6)});
    const topology::Topology machine = cluster_of_forms(forms);
    for (const Collective collective : {Collective::allreduce, Collective::broadcast, Collective::reduce}) {
      INFO("machine " << i << " " << info(collective).name);
      const double divided = divided_us(machine, collective);
      const double packed = packed_us(machine, collective, kBytes);
      CHECK(divided <= packed * (1 + 1e-9));
      if (collective == Collective::allreduce && divided >= packed * (1 - 1e-9)) ++reached;
    }
  }
  CHECK(reached > 3);
}

TEST_CASE("a host with slow links counts as many parts beside a host that counts as one") {
  // Each of the four slow devices sends 3 x 1 + 5 GB/s, the fast host 4 x 5 through its NICs.
  const topology::Topology machine = cluster_of_forms({{4, 1, 5}, {4, 50, 5}});
  const double wanted = 2 * 4 * kBytes / ((4 * (3 + 5) + 4 * 5) * 1e3);
  CHECK(divided_us(machine, Collective::allreduce) == Approx(wanted));
  CHECK(bound_us(machine, Collective::allreduce) == Approx(wanted));
  CHECK(packed_us(machine, Collective::allreduce, kBytes) == Approx(wanted));
  CHECK(divided_us(machine, Collective::broadcast) == Approx(wanted / 2));
  CHECK(divided_us(machine, Collective::allgather) == 0);
}

TEST_CASE("a host of two devices with a slow link between them counts as two parts beside all others as one") {
  // Its NICs bring 24 GB/s, and each link 20: sums of both devices that leave by the NICs pass the link before. The
  // best that is reached does without some of these sums.
  const topology::Topology machine = cluster_of_forms({{2, 20, 12}, {3, 60, 30}, {3, 60, 30}});
  const double wanted = 2 * 2 * kBytes / ((2 * 20 + 2 * 24) * 1e3);
  CHECK(divided_us(machine, Collective::allreduce) == Approx(wanted));
  CHECK(bound_us(machine, Collective::allreduce) == Approx(wanted));
  CHECK(packed_us(machine, Collective::allreduce, kBytes) == Approx(wanted));
}

TEST_CASE("devices that fast links join within a slow host count as one part") {
  topology::Topology machine = cluster_of_forms({{4, 1, 5}, {2, 50, 5}});
  for (topology::Link& link : machine.links)
    if (link.link_class == topology::LinkClass::nvlink && link.src / 2 == link.dst / 2) link.gbytes_per_s = 50;
  // Two pairs of the first host, each of which sends 4 x 1 + 2 x 5 GB/s, and the second host as a whole.
  CHECK(divided_us(machine, Collective::allreduce) == Approx(2 * 2 * kBytes / ((2 * 14 + 10) * 1e3)));
}

TEST_CASE("what comes to a host's switch counts, though no part has the switch") {
  topology::Topology machine;
  machine.name = "NICs at switches";
  machine.ranks = 2;
  machine.switches = 3;
  for (const Rank rank : {0, 1}) {
    join_both_ways(machine, rank, 2 + rank, 20, topology::LinkClass::nvlink);
    join_both_ways(machine, 2 + rank, 4, 12.5, topology::LinkClass::net);
  }
  const double through_nics = 2 * kBytes / (2 * 12.5 * 1e3);
  CHECK(bound_us(machine, Collective::allreduce) >= through_nics);
  CHECK(bound_us(machine, Collective::allreduce) < through_nics + 20);
}

TEST_CASE("what a host's NICs carry beyond those of all others does not count") {
  // Parts of the first host: devices 0 and 2, and device 1. NICs of the second host have nobody to send to at their
  // rate.
  const topology::Topology machine =
      topology::subset(topology::preset("2*dgx1v"), std::vector<int>{1, 4, 5, 8, 9, 10, 12, 15});
  const double wanted = 2 * 2 * kBytes / ((50 + 2 * 3 * 12.5) * 1e3);
  CHECK(divided_us(machine, Collective::allreduce) == Approx(wanted));
  CHECK(bound_us(machine, Collective::allreduce) > wanted);
  CHECK(bound_us(machine, Collective::allreduce) < wanted + 20);
}
