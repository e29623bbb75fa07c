// Data keeps off slow links between leaf switches: it stays on the rails that all hosts have, and takes hosts in the
// order in which the network joins them.
#include "portfolio/links/rails.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "compose/bounds/bound.h"
#include "compose/lowering/expand.h"
#include "portfolio/composites/composites.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/simulate.h"

using namespace sccl;

namespace {

constexpr double kBytes = 64 << 20;
constexpr double kSlice = 128 * 1024;

void join(topology::Topology& machine, topology::Node a, topology::Node b, double rate, topology::LinkClass kind) {
  machine.links.push_back({a, b, 1, rate, 1, kind});
  machine.links.push_back({b, a, 1, rate, 1, kind});
}

// Of each host the rails of its devices' NICs. A link of `joined` GB/s leads from each rail's switch to one above.
topology::Topology on_rails(const std::vector<std::vector<int>>& hosts, double joined) {
  topology::Topology machine;
  machine.name = "rails";
  int rails = 0;
  for (const std::vector<int>& host : hosts) {
    machine.ranks += static_cast<int>(host.size());
    rails = std::max(rails, 1 + *std::ranges::max_element(host));
  }
  machine.switches = static_cast<int>(hosts.size()) + rails + 1;
  const topology::Node above = machine.ranks + machine.switches - 1;
  Rank rank = 0;
  topology::Node inner = machine.ranks;
  for (const std::vector<int>& host : hosts) {
    for (const int rail : host) {
      join(machine, rank, inner, 200, topology::LinkClass::nvlink);
      join(machine, rank++, above - rails + rail, 25, topology::LinkClass::net);
    }
    ++inner;
  }
  for (int rail = 0; rail < rails; ++rail) join(machine, above - rails + rail, above, joined, topology::LinkClass::net);
  return machine;
}

std::vector<std::vector<int>> often(const std::vector<std::vector<int>>& hosts, int times) {
  std::vector<std::vector<int>> result;
  for (int i = 0; i < times; ++i) result.insert(result.end(), hosts.begin(), hosts.end());
  return result;
}

// How many times the bound the composite takes that the closed form chooses: by the closed form, and simulated.
std::pair<double, double> times_bound(const topology::Topology& machine, Collective collective) {
  const auto all = portfolio::CompositePlanner(machine).candidates(collective, 1);
  const auto& best = all[portfolio::by_time(all, kBytes, kSlice).front()];
  UNSCOPED_INFO(best.composite->name);
  const double bound = compose::bounds(machine, topology::cluster_of(machine), collective, 1, kBytes).front().us;
  const double slice = best.cost.good_slice(kBytes, kSlice);
  schedule::SimulationOptions options;
  options.bytes = kBytes;
  options.slice_bytes = slice;
  options.slots = schedule::kSlots;
  options.network_slots = schedule::kNetworkSlots;
  options.lane_bytes = schedule::kLaneBytes;
  options.detail = schedule::Detail::totals;
  const double simulated = schedule::simulate(compose::expand(*best.composite), options).time_us;
  return {best.cost.time_us(kBytes, slice) / bound, simulated / bound};
}

constexpr Collective kOnRails[] = {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                                   Collective::broadcast, Collective::reduce,    Collective::alltoall};

}  // namespace

TEST_CASE("hosts with fewer NICs than others do not send data from rail to rail") {
  const topology::Topology machine = on_rails(often({{0, 1, 2, 3}, {0, 1}, {0, 1, 2}}, 4), 2);
  for (const Collective collective : kOnRails) {
    const auto [foreseen, simulated] = times_bound(machine, collective);
    INFO(info(collective).name << ": " << foreseen << " and " << simulated);
    CHECK(foreseen < 2);
    CHECK(simulated < 2);
  }
}

TEST_CASE("devices in another order on each host send to devices on their own rail") {
  const topology::Topology machine = on_rails(often({{0, 1, 2, 3}, {2, 0, 3, 1}, {3, 2, 1, 0}}, 4), 2);
  for (const Collective collective : kOnRails) {
    const auto [foreseen, simulated] = times_bound(machine, collective);
    INFO(info(collective).name << ": " << foreseen << " and " << simulated);
    CHECK(foreseen < 2);
    CHECK(simulated < 2);
  }
}

TEST_CASE("hosts in a row are taken in the order of the row, whatever their numbers") {
  // Hosts 0, 7, 14, ... modulo 18 follow one another.
  topology::Topology machine;
  machine.name = "row";
  machine.ranks = 36;
  machine.switches = 36;
  const auto leaf = [](int place) { return 36 + 18 + 7 * place % 18; };
  for (int host = 0; host < 18; ++host) {
    for (const Rank rank : {2 * host, 2 * host + 1}) {
      join(machine, rank, 36 + host, 200, topology::LinkClass::nvlink);
      join(machine, rank, 36 + 18 + host, 25, topology::LinkClass::net);
    }
    if (host > 0) join(machine, leaf(host - 1), leaf(host), 10, topology::LinkClass::net);
  }
  for (const Collective collective : kOnRails) {
    const auto [foreseen, simulated] = times_bound(machine, collective);
    INFO(info(collective).name << ": " << foreseen << " and " << simulated);
    CHECK(foreseen < 2.2);
    CHECK(simulated < 2.2);
  }
  const topology::Cluster cluster = topology::cluster_of(machine);
  std::vector<int> order = portfolio::order_along_network(machine, cluster);
  std::ranges::sort(order);
  for (int host = 0; host < 18; ++host) CHECK(order[static_cast<std::size_t>(host)] == host);
}

TEST_CASE("composites on the rails that hosts have in common are proved, as a whole and flat") {
  for (const topology::Topology& machine :
       {on_rails({{0, 1, 2}, {0}, {1, 0}}, 2), on_rails({{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}, 2)})
    for (const Collective collective : kOnRails)
      for (const auto& one : portfolio::CompositePlanner(machine).candidates(collective, 1)) {
        INFO(one.composite->name << ", " << info(collective).name);
        CHECK_NOTHROW(schedule::verify(compose::expand(*one.composite)));
      }
}

TEST_CASE("a turn of the ports is one leaf switch on every host") {
  const topology::Topology machine = on_rails({{0, 1, 2}, {2, 1, 3}, {1, 1, 2}}, 2);
  const topology::Cluster cluster = topology::cluster_of(machine);
  std::vector<portfolio::PortsOfHost> hosts(3, {{25, 25, 25}, {0, 1, 2}});
  const auto found = portfolio::ports_on_rails(cluster, hosts);
  REQUIRE(found);
  const auto leaf = [&](std::size_t host, std::size_t turn) {
    const std::vector<int>& ports = (*found)[host].ports;
    const int port = ports[turn % ports.size()];
    return cluster.attachments[static_cast<std::size_t>(cluster.hosts[host][static_cast<std::size_t>(port)])].leaf;
  };
  for (std::size_t turn = 0; turn < 12; ++turn)
    for (std::size_t host = 1; host < 3; ++host) CHECK(leaf(host, turn) == leaf(0, turn));
  CHECK((*found)[0].gbytes_per_s == std::vector<double>{0, 25, 25});
  CHECK((*found)[2].gbytes_per_s == std::vector<double>{25, 25, 25});
}

TEST_CASE("hosts without a leaf switch in common keep all ports") {
  const topology::Topology machine = on_rails({{0, 1}, {2, 3}}, 2);
  const std::vector<portfolio::PortsOfHost> hosts(2, {{25, 25}, {0, 1}});
  CHECK_FALSE(portfolio::ports_on_rails(topology::cluster_of(machine), hosts));
}
