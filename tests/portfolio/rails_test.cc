// Data keeps off slow links between leaf switches: it stays on the rails that all hosts have, and takes hosts in the
// order in which the network joins them.
#include "portfolio/links/rails.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "compose/clusters.h"
#include "compose/lowering/expand.h"
#include "portfolio/composites/composites.h"
#include "portfolio/on_rails.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/cost.h"

using namespace sccl;

namespace {

constexpr Collective kOnRails[] = {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                                   Collective::broadcast, Collective::reduce,    Collective::alltoall};
constexpr Collective kAll[] = {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                               Collective::broadcast, Collective::reduce,    Collective::alltoall,
                               Collective::gather,    Collective::scatter};

}  // namespace

TEST_CASE("hosts with fewer NICs than others do not send data from rail to rail") {
  const topology::Topology machine = on_rails(often({{0, 1, 2, 3}, {0, 1}, {0, 1, 2}}, 4), 2);
  check_times_bound(machine, kOnRails, 2);
}

TEST_CASE("a Gather and a Scatter use NICs on rails that some host lacks, where links inside hosts are slow") {
  constexpr Collective kOfOneRoot[] = {Collective::gather, Collective::scatter};
  check_times_bound(on_rails(often({{0, 1, 2}, {0}, {0, 1}}, 8), 50, 8, 200), kOfOneRoot, 3);
}

TEST_CASE("blocks keep to rails that the two hosts have which they join") {
  constexpr Collective kOfBlocks[] = {Collective::alltoall, Collective::gather, Collective::scatter};
  check_times_bound(on_rails(often({{0, 1, 2}, {0}, {0, 1}}, 8), 2), kOfBlocks, 2.5);
  check_times_bound(on_rails(often({{0, 1}, {1, 2}, {2, 0}}, 8), 2), kOfBlocks, 2.5);
}

TEST_CASE("the closed form of blocks on rails of pairs of hosts is about that of the flat form") {
  for (const topology::Topology& machine :
       {rails_of_pairs(), on_rails(often({{0, 1, 2}, {0}, {0, 1}}, 4), 2, 8, 200),
        on_rails(often({{0, 1}, {1, 2}, {2, 0}}, 6), 2), on_rails(often({{0, 1}, {2, 3}, {1, 3}}, 5), 20)})
    for (const Collective collective : {Collective::alltoall, Collective::gather, Collective::scatter}) {
      int seen = 0;
      for (const auto& one : portfolio::CompositePlanner(machine).candidates(collective, machine.ranks - 1)) {
        if (!one.composite->rails_of_pairs) continue;
        ++seen;
        const double flat = schedule::busiest_us_per_byte(compose::expand(*one.composite));
        INFO(one.name() << " for " << info(collective).name << " of " << machine.ranks);
        CHECK(one.cost.busy_us(1) > 0.8 * flat);
        CHECK(one.cost.busy_us(1) < 1.2 * flat);
      }
      CHECK(seen > 0);
    }
}

TEST_CASE("slices of a long block follow one another over a host's links in the closed form, as in a simulation") {
  topology::Topology line;
  line.name = "line";
  line.ranks = 6;
  for (Rank rank = 1; rank < line.ranks; ++rank) join(line, rank - 1, rank, 8, topology::LinkClass::nvlink);
  const topology::Topology machine = with_nics(line, std::vector<std::vector<Rank>>(7, {1}), 100);
  for (const Collective collective : {Collective::gather, Collective::scatter}) {
    const auto [foreseen, simulated] = times_bound(machine, collective);
    INFO(info(collective).name << ": " << foreseen << " and " << simulated);
    CHECK(foreseen < 1.3 * simulated);
    CHECK(foreseen > 0.7 * simulated);
  }
}

TEST_CASE("devices in another order on each host send to devices on their own rail") {
  const topology::Topology machine = on_rails(often({{0, 1, 2, 3}, {2, 0, 3, 1}, {3, 2, 1, 0}}, 4), 2);
  check_times_bound(machine, kOnRails, 2);
}

TEST_CASE("rails with numbers of NICs whose common multiple no number holds have turns") {
  std::vector<int> host;
  const std::vector<int> nics{16, 9, 5, 7, 11, 13, 17, 19};
  for (int rail = 0; rail < 8; ++rail)
    host.insert(host.end(), static_cast<std::size_t>(nics[static_cast<std::size_t>(rail)]), rail);
  const topology::Topology machine = on_rails({host, host}, 2);
  const topology::Cluster cluster = topology::cluster_of(machine);
  const portfolio::PortsOfHost all{std::vector<double>(host.size(), 25), {}};
  const auto ports = portfolio::ports_on_rails(cluster, {all, all});
  REQUIRE(ports.has_value());
  CHECK(ports->front().ports.size() >= host.size());
  CHECK(ports->front().ports == ports->back().ports);
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
  check_times_bound(machine, kOnRails, 2.2);
  const topology::Cluster cluster = topology::cluster_of(machine);
  std::vector<int> order = portfolio::order_along_network(machine, cluster);
  std::ranges::sort(order);
  for (int host = 0; host < 18; ++host) CHECK(order[static_cast<std::size_t>(host)] == host);
}

TEST_CASE("devices with two unequal NICs take the faster one, and paths between them the faster switch") {
  // Each device has a NIC of 2 GB/s and one of 20, of which the slow one has the lower number.
  topology::Topology machine;
  machine.name = "two NICs each";
  machine.ranks = 8;
  machine.switches = 8 * 2 + 4;
  const topology::Node first_leaf = 8 + 16;
  for (Rank rank = 0; rank < machine.ranks; ++rank) {
    for (const int nic : {0, 1}) {
      join(machine, rank, 8 + 2 * rank + nic, 30, topology::LinkClass::pcie);
      join(machine, 8 + 2 * rank + nic, first_leaf + rank / 4, nic == 0 ? 2 : 20, topology::LinkClass::net);
    }
  }
  // Two switches join the leaf switches, the slow one first.
  for (const int leaf : {0, 1}) {
    join(machine, first_leaf + leaf, first_leaf + 2, 3, topology::LinkClass::net);
    join(machine, first_leaf + leaf, first_leaf + 3, 50, topology::LinkClass::net);
  }
  topology::Routes routes(machine);
  for (Rank from = 0; from < machine.ranks; ++from)
    for (Rank to = 0; to < machine.ranks; ++to) {
      if (from == to) continue;
      const auto path = routes.path(from, to);
      CHECK(path.front().second == 8 + 2 * from + 1);
      CHECK(path.back().first == 8 + 2 * to + 1);
      if (from / 4 != to / 4) CHECK(path[2].second == first_leaf + 3);
    }
  const topology::Cluster cluster = topology::cluster_of(machine);
  for (Rank rank = 0; rank < machine.ranks; ++rank) {
    CHECK(cluster.attachments[static_cast<std::size_t>(rank)].up.front().second == 8 + 2 * rank + 1);
    CHECK(cluster.attachments[static_cast<std::size_t>(rank)].down.back().first == 8 + 2 * rank + 1);
  }
  topology::NetworkWays ways(machine, cluster);
  CHECK(ways.way(first_leaf, first_leaf + 1).front().second == first_leaf + 3);
}

TEST_CASE(
    "devices with NICs of about equal rates all use the same network, whichever is a little faster on their host") {
  topology::Topology machine;
  machine.name = "two networks";
  machine.ranks = 40;
  machine.switches = 40 * 2 + 2;
  const topology::Node first_leaf = 40 + 80;
  for (Rank rank = 0; rank < machine.ranks; ++rank)
    for (const int nic : {0, 1}) {
      join(machine, rank, 40 + 2 * rank + nic, 30, topology::LinkClass::pcie);
      join(machine, 40 + 2 * rank + nic, first_leaf + nic, nic == rank % 2 ? 25 : 24.9, topology::LinkClass::net);
    }
  join(machine, first_leaf, first_leaf + 1, 2, topology::LinkClass::net);
  const topology::Cluster cluster = topology::cluster_of(machine);
  for (const topology::Attachment& one : cluster.attachments) CHECK(one.leaf == first_leaf);
  check_times_bound(machine, kOnRails, 2.5);
}

TEST_CASE("composites on the rails that hosts have in common are proved, as a whole and flat") {
  for (const topology::Topology& machine :
       {on_rails({{0, 1, 2}, {0}, {1, 0}}, 2), on_rails({{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}, 2)})
    for (const Collective collective : kCollectives)
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

// Rails that no switch joins: NICs on different rails do not reach each other.

TEST_CASE("rails that nothing joins serve many ranks, in any order on each host, and without one host's dead NIC") {
  check_times_bound(on_rails(often({{0, 1, 2, 3}}, 9), 0), kAll, 1.3);
  check_times_bound(on_rails(often({{0, 1, 2, 3}, {2, 0, 3, 1}, {3, 2, 1, 0}}, 3), 0), kAll, 1.3);
  std::vector<std::vector<int>> one_dead = often({{0, 1, 2, 3}}, 9);
  one_dead[4][1] = -1;
  check_times_bound(on_rails(one_dead, 0), kAll, 1.7);
}

TEST_CASE("composites on rails that nothing joins are proved, as a whole and flat, for every root") {
  for (const topology::Topology& machine :
       {on_rails({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}, 0), on_rails({{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}, 0),
        on_rails({{0, 1, 2}, {0, -1, 2}, {2, 0, 0}, {0, 2, -1}}, 0), on_rails({{0, 1}, {1, 2}, {2, 0}}, 0)}) {
    portfolio::CompositePlanner planner(machine);
    for (const Collective collective : kAll) {
      for (Rank root = 0; root < (info(collective).rooted ? machine.ranks : 1); ++root) {
        const auto all = planner.candidates(collective, root);
        INFO(machine.ranks << " ranks, " << info(collective).name << ", root " << root);
        CHECK_FALSE(all.empty());
        for (const auto& candidate : all) {
          INFO(candidate.composite->name);
          CHECK_NOTHROW(schedule::verify(compose::expand(*candidate.composite)));
        }
      }
    }
  }
}

TEST_CASE("a composite whose chunks change rails where nothing joins these is refused") {
  const topology::Topology machine = on_rails({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}, 0);
  for (const Collective collective : {Collective::allgather, Collective::allreduce, Collective::alltoall}) {
    const auto all = portfolio::CompositePlanner(machine).candidates(collective, 0);
    compose::Composite ports = *all.front().composite;
    REQUIRE(ports.hosts.size() == 3);
    CHECK_NOTHROW(compose::verify(ports));
    compose::Composite turns = ports;
    std::ranges::rotate(ports.hosts[1].ports, ports.hosts[1].ports.begin() + 1);
    CHECK_THROWS_WITH(compose::verify(ports), Catch::Contains("no path joins them"));
    turns.turns_are_rails = false;
    turns.source_is_near = turns.sink_is_near = true;
    if (collective != Collective::allreduce) CHECK_THROWS_WITH(compose::verify(turns), Catch::Contains("near rank 0"));
  }
}

TEST_CASE("blocks of pairs of hosts are refused where they change rails that nothing joins") {
  const topology::Topology machine = on_rails({{0, 1}, {1, 2}, {2, 0}}, 0);
  const auto all = portfolio::CompositePlanner(machine).candidates(Collective::alltoall, 0);
  compose::Composite pairs = *all.front().composite;
  REQUIRE(pairs.rails_of_pairs);
  CHECK_NOTHROW(compose::verify(pairs));
  compose::Composite across = pairs;
  across.pace_across = 1;
  CHECK_THROWS_WITH(compose::verify(across), Catch::Contains("some blocks change rails"));
  compose::Composite others = pairs;
  std::ranges::reverse(others.hosts[0].rails);
  CHECK_THROWS_WITH(compose::verify(others), Catch::Contains("is on several networks"));
  pairs.hosts[0].ports = {0};
  CHECK_THROWS_WITH(compose::verify(pairs), Catch::Contains("have no rail in common"));
}

TEST_CASE("hosts that share rails only with some other hosts are served over those, also where they are many") {
  // Each host lacks one of three rails, and no rail is on all hosts.
  const topology::Topology machine = on_rails(often({{0, 1}, {1, 2}, {2, 0}}, 7), 0);
  for (const Collective collective : kAll) {
    INFO(info(collective).name);
    const auto all = portfolio::CompositePlanner(machine).candidates(collective, 5);
    REQUIRE_FALSE(all.empty());
    CHECK_NOTHROW(schedule::verify(compose::expand(*all.front().composite)));
  }
}
