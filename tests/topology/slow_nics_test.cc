// NICs far slower than others of their host are left out of files, unless some host needs them.
#include "topology/slow_nics.h"

#include <catch2/catch.hpp>
#include <set>

#include "topology/symmetry/cluster.h"

using namespace sccl;
using topology::Cluster;
using topology::LinkClass;
using topology::Node;
using topology::Topology;

namespace {

void join(Topology& machine, Node a, Node b, LinkClass link_class, double gbytes_per_s) {
  for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
    machine.links.push_back({src, dst, 1, gbytes_per_s, 1, link_class});
}

// What a host has: at its PCIe switch a NIC of `behind` GB/s, and at each device itself one of `direct` GB/s.
struct Nics {
  double behind = 25;
  double direct = 0;
  int with_direct = 1;  // devices
};

constexpr int kDevices = 8;  // of a host

enum class Networks { one, two };  // two: the NICs at devices have their own

// Hosts of devices below a PCIe switch. The last two nodes are networks.
Topology cluster_with(const std::vector<Nics>& hosts, Networks networks, double inner = 50) {
  Topology machine;
  machine.name = "nics";
  machine.ranks = kDevices * static_cast<int>(hosts.size());
  machine.switches = (2 + kDevices) * static_cast<int>(hosts.size()) + 2;
  const Node network = machine.nodes() - 2;
  const Node other = networks == Networks::two ? network + 1 : network;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const Rank first = kDevices * static_cast<int>(host);
    const Node pcie = machine.ranks + (2 + kDevices) * static_cast<int>(host);
    for (Rank rank = first; rank < first + kDevices; ++rank) join(machine, rank, pcie, LinkClass::pcie, inner);
    if (hosts[host].behind > 0) {
      join(machine, pcie, pcie + 1, LinkClass::pcie, 50);
      join(machine, pcie + 1, network, LinkClass::net, hosts[host].behind);
    }
    for (int i = 0; i < hosts[host].with_direct && hosts[host].direct > 0; ++i) {
      join(machine, first + i, pcie + 2 + i, LinkClass::pcie, 50);
      join(machine, pcie + 2 + i, other, LinkClass::net, hosts[host].direct);
    }
  }
  return machine;
}

// Leaf switches of all devices, after slow NICs were left out.
std::set<Node> leaves(Topology& machine) {
  topology::leave_out_slow_nics(machine);
  CHECK_NOTHROW(topology::validate(machine));
  const Cluster cluster = topology::cluster_of(machine);
  CHECK_NOTHROW(topology::require_network(machine, cluster));
  std::set<Node> result;
  for (const topology::Attachment& one : cluster.attachments) result.insert(one.leaf);
  return result;
}

}  // namespace

TEST_CASE("a device leaves its host by a NIC near it, but not by one far slower than another") {
  for (const Networks networks : {Networks::one, Networks::two})
    for (const double direct : {0.125, 1.25, 3.0, 3.5, 12.5, 25.0}) {
      INFO(direct << " GB/s, " << (networks == Networks::two ? "a network of its own" : "the same network"));
      Topology machine = cluster_with({{25, direct}, {25, direct}, {25, direct}}, networks);
      const bool is_slow = direct < 25.0 / kDevices;
      CHECK(leaves(machine).size() == (!is_slow && networks == Networks::two ? 2u : 1u));
      const Cluster cluster = topology::cluster_of(machine);
      for (const Rank rank : {0, kDevices, 2 * kDevices}) {
        CHECK(cluster.attachments[static_cast<std::size_t>(rank)].up.size() == (is_slow ? 3u : 2u));
        CHECK(cluster.attachments[static_cast<std::size_t>(rank)].down.size() == (is_slow ? 3u : 2u));
      }
      CHECK(topology::leave_out_slow_nics(machine) == 0);
    }
}

TEST_CASE("slow NICs stay where no other NIC of their host is fast") {
  for (const std::vector<Nics>& hosts : {
           std::vector<Nics>(3, Nics{0, 1.25, kDevices}),       // all NICs are slow
           std::vector<Nics>{{25, 0}, {25, 0}, {0, 0.125, 1}},  // one host has no other
       }) {
    Topology machine = cluster_with(hosts, Networks::one);
    const Topology before = machine;
    CHECK(topology::leave_out_slow_nics(machine) == 0);
    CHECK(machine == before);
  }
}

TEST_CASE("a host with a slow NIC only does not keep those of others at the same network") {
  Topology machine = cluster_with({{25, 0.125}, {25, 0.125}, {0, 0.125}}, Networks::one);
  CHECK(topology::leave_out_slow_nics(machine) == 2);
  const Cluster cluster = topology::cluster_of(machine);
  CHECK(cluster.ports(0).size() == kDevices);
  CHECK(cluster.ports(2).size() == 1);
}

TEST_CASE("a fast network that lacks some host is no reason to leave NICs of a slow one out") {
  Topology machine = cluster_with({{25, 1.25}, {25, 1.25}, {0, 1.25}}, Networks::two);
  CHECK(topology::leave_out_slow_nics(machine) == 0);
}

TEST_CASE("a network whose slow NICs some host needs keeps all") {
  // The last host's NIC at the first network is no faster than that at the second.
  Topology machine = cluster_with({{25, 1.25}, {25, 1.25}, {1.25, 1.25}}, Networks::two);
  CHECK(topology::leave_out_slow_nics(machine) == 0);
}

TEST_CASE("many slow NICs stay if they carry more than a few fast ones") {
  for (const double direct : {1.25, 2.5, 5.0}) {
    INFO(direct << " GB/s beside a NIC of 25 for " << kDevices << " devices");
    Topology machine = cluster_with(std::vector<Nics>(3, Nics{25, direct, kDevices}), Networks::one);
    CHECK(topology::leave_out_slow_nics(machine) == (direct < 25.0 / kDevices ? 3 * kDevices : 0));
  }
}

TEST_CASE("a NIC is as slow as its slower direction") {
  Topology machine = cluster_with(std::vector<Nics>(2, Nics{25, 25}), Networks::one);
  const Node network = machine.nodes() - 2;
  for (topology::Link& link : machine.links)
    for (const Node pcie : {machine.ranks, machine.ranks + kDevices + 2})
      if (link.src == network && link.dst == pcie + 2) link.gbytes_per_s = 1.25;
  CHECK(topology::leave_out_slow_nics(machine) == 2);
  CHECK(topology::cluster_of(machine).attachments[0].up.size() == 3);
}

TEST_CASE("devices that reach fast NICs by slow links only keep their own") {
  Topology machine = cluster_with(std::vector<Nics>(2, Nics{25, 1.25}), Networks::one, 2);
  CHECK(topology::leave_out_slow_nics(machine) == 0);
}
