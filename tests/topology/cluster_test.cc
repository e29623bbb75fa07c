// A topology as hosts on a network: ranks in any order, hosts that are alike.
#include "topology/symmetry/cluster.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>

#include "topology/presets.h"

using namespace sccl;
using topology::Cluster;
using topology::Link;
using topology::Node;
using topology::Topology;

namespace {

// Devices of every host in an order of its own, and hosts one after the other or mixed.
std::vector<int> shuffled(int hosts, int devices, std::mt19937& random, bool mixed) {
  std::vector<int> result;
  for (int host = 0; host < hosts; ++host) {
    std::vector<int> own(static_cast<std::size_t>(devices));
    std::iota(own.begin(), own.end(), host * devices);
    std::shuffle(own.begin(), own.end(), random);
    result.insert(result.end(), own.begin(), own.end());
  }
  if (mixed) std::shuffle(result.begin(), result.end(), random);
  return result;
}

using Edges = std::multiset<std::tuple<Node, Node, int, double>>;

// The inner links of a host in the topology's nodes: as its kind tells, and as they are.
Edges told(const Cluster& cluster, std::size_t host) {
  Edges result;
  const std::vector<Node>& nodes = cluster.nodes[host];
  for (const Link& link : cluster.kinds[static_cast<std::size_t>(cluster.kind_of[host])].links)
    result.insert({nodes[static_cast<std::size_t>(link.src)], nodes[static_cast<std::size_t>(link.dst)], link.lanes,
                   link.gbytes_per_s});
  return result;
}

Edges real(const Topology& machine, const Cluster& cluster, std::size_t host) {
  const std::vector<Node>& nodes = cluster.nodes[host];
  const auto inside = [&](Node node) { return std::find(nodes.begin(), nodes.end(), node) != nodes.end(); };
  Edges result;
  for (const Link& link : machine.links)
    if (inside(link.src) && inside(link.dst)) result.insert({link.src, link.dst, link.lanes, link.gbytes_per_s});
  return result;
}

void check_numbers(const Topology& machine, const Cluster& cluster) {
  for (std::size_t host = 0; host < cluster.hosts.size(); ++host) {
    CHECK(told(cluster, host) == real(machine, cluster, host));
    for (std::size_t place = 0; place < cluster.hosts[host].size(); ++place) {
      const Rank rank = cluster.hosts[host][place];
      CHECK(cluster.nodes[host][place] == rank);
      CHECK(cluster.local_of[static_cast<std::size_t>(rank)] == static_cast<int>(place));
      CHECK(cluster.host_of[static_cast<std::size_t>(rank)] == static_cast<int>(host));
    }
  }
}

}  // namespace

TEST_CASE("hosts with the same links are alike, in whatever order ranks lie on each") {
  std::mt19937 random(7);
  for (const auto& [name, devices] :
       {std::pair("dgx1v", 8), {"z52-full", 8}, {"pcie8", 8}, {"mi250x", 16}, {"dgx-a100", 8}, {"nvpairs4", 4}}) {
    const Topology whole = topology::preset("4*" + std::string(name));
    for (const bool mixed : {false, true}) {
      INFO(name << (mixed ? ", hosts mixed" : ""));
      const Topology machine = topology::subset(whole, shuffled(4, devices, random, mixed));
      const Cluster cluster = topology::cluster_of(machine);
      CHECK(cluster.kinds.size() == 1);
      CHECK(cluster.hosts.size() == 4);
      check_numbers(machine, cluster);
    }
  }
}

TEST_CASE("hosts with other links keep their own numbers") {
  // Of one host devices 0 to 4, of the other 0, 1, 2, 4 and 7: as many devices, other links between them.
  const std::vector<int> devices{0, 1, 2, 3, 4, 15, 8, 12, 10, 9};
  const Topology machine = topology::subset(topology::preset("2*dgx1v"), devices);
  const Cluster cluster = topology::cluster_of(machine);
  CHECK(cluster.kinds.size() == 2);
  check_numbers(machine, cluster);
  CHECK(std::is_sorted(cluster.hosts[1].begin(), cluster.hosts[1].end()));
}

TEST_CASE("a device with a NIC is not taken for one without") {
  // Two hosts of two fast devices and a slow one. Ranks 0 and 5 have the NICs: fast devices, of which there are two.
  Topology machine;
  machine.name = "two";
  machine.ranks = 6;
  machine.switches = 3;
  const auto join = [&](Node a, Node b, topology::LinkClass link_class, double gbytes_per_s) {
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)}) {
      Link link;
      link.src = src;
      link.dst = dst;
      link.link_class = link_class;
      link.gbytes_per_s = gbytes_per_s;
      link.alpha_us = 2;
      machine.links.push_back(link);
    }
  };
  for (const Rank rank : {0, 1, 2}) join(rank, 6, topology::LinkClass::pcie, rank == 2 ? 10 : 20);
  for (const Rank rank : {3, 4, 5}) join(rank, 7, topology::LinkClass::pcie, rank == 3 ? 10 : 20);
  join(0, 8, topology::LinkClass::net, 5);
  join(5, 8, topology::LinkClass::net, 5);
  const Cluster cluster = topology::cluster_of(machine);
  CHECK(cluster.kinds.size() == 1);
  check_numbers(machine, cluster);
  CHECK(cluster.hosts[1] == std::vector<Rank>{5, 4, 3});
  CHECK(cluster.ports(0) == cluster.ports(1));
}

TEST_CASE("a switch between one host and other switches is a NIC, unless it joins the hosts beyond it") {
  // Hosts of one device. Where switch 3 has a fourth switch above it and its like, hosts have it as a NIC.
  for (const bool above : {false, true}) {
    Topology machine;
    machine.name = "switches";
    machine.ranks = 3;
    machine.switches = above ? 4 : 3;
    const auto join = [&](Node a, Node b) {
      for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
        machine.links.push_back({src, dst, 1, 10, 1, topology::LinkClass::net});
    };
    for (const Rank rank : {0, 1, 2}) join(rank, 3 + rank);
    if (above)
      for (const Node node : {3, 4, 5}) join(node, 6);
    else
      for (const Node node : {3, 4}) join(node, node + 1);
    const Cluster cluster = topology::cluster_of(machine);
    REQUIRE(cluster.hosts.size() == 3);
    CHECK_NOTHROW(topology::require_network(machine, cluster));
    for (const Rank rank : {0, 1, 2}) {
      INFO((above ? "below a switch, rank " : "in a line, rank ") << rank);
      CHECK(cluster.attachments[static_cast<std::size_t>(rank)].leaf == (above ? 6 : 3 + rank));
    }
    CHECK(cluster.racks.size() == (above ? 1u : 3u));
  }
}

TEST_CASE("rails that no switch joins are networks, and hosts must be joined by some of them") {
  // Three hosts of two devices, whose NICs are on these rails.
  const auto on_rails = [](const std::vector<int>& rails) {
    Topology machine;
    machine.name = "rails";
    machine.ranks = 6;
    machine.switches = 4;
    const auto join = [&](Node a, Node b, topology::LinkClass kind) {
      for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
        machine.links.push_back({src, dst, 1, 10, 1, kind});
    };
    for (const Rank first : {0, 2, 4}) join(first, first + 1, topology::LinkClass::nvlink);
    for (const Rank rank : {0, 1, 2, 3, 4, 5})
      join(rank, 6 + rails[static_cast<std::size_t>(rank)], topology::LinkClass::net);
    return machine;
  };
  for (const std::vector<int>& rails : {std::vector<int>{0, 1, 0, 1, 1, 0}, std::vector<int>{0, 1, 1, 2, 2, 3}}) {
    const Topology machine = on_rails(rails);
    const Cluster cluster = topology::cluster_of(machine);
    CHECK(cluster.network_of == rails);
    CHECK_FALSE(cluster.has_one_network());
    CHECK_NOTHROW(topology::require_network(machine, cluster));
  }
  const Topology apart = on_rails({0, 1, 0, 1, 2, 3});
  CHECK_THROWS_WITH(
      topology::require_network(apart, topology::cluster_of(apart)),
      Catch::Contains("host of ranks 4, 5 with that of rank 0") && Catch::Contains("their switches, 8 and 6"));
}
