// Islands of hosts: parts with NICs of their own that only links between switches join.
#include "topology/symmetry/islands.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "topology/presets.h"

using namespace sccl;
using namespace sccl::topology;

namespace {

struct Figures {
  double socket_gbytes_per_s = 20;
  std::vector<double> nics{25, 25};  // GB/s, by socket; 0: none
  bool has_pcie_switches = false;    // between the devices and NIC of a socket and its CPU
};

// Two hosts of two sockets with two devices each, of 25 GB/s. Node 8: the network. Then a CPU, NIC and PCIe switch for
// each socket.
Topology two_sockets(const Figures& figures) {
  Topology machine;
  machine.name = "sockets";
  machine.ranks = 8;
  machine.switches = 1 + 4 * 3;
  machine.switch_kinds = {SwitchKind::fabric};
  for (int socket = 0; socket < 4; ++socket)
    machine.switch_kinds.insert(machine.switch_kinds.end(), {SwitchKind::cpu, SwitchKind::nic, SwitchKind::pcie});
  const auto join = [&](Node a, Node b, LinkClass link_class, double gbytes_per_s) {
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
      machine.links.push_back({src, dst, 1, gbytes_per_s, 1, link_class});
  };
  for (int socket = 0; socket < 4; ++socket) {
    const Node cpu = 9 + 3 * socket;
    const Node at = figures.has_pcie_switches ? cpu + 2 : cpu;
    for (const Rank rank : {2 * socket, 2 * socket + 1}) join(rank, at, LinkClass::pcie, 25);
    if (figures.has_pcie_switches) join(at, cpu, LinkClass::pcie, 50);
    if (socket % 2 == 0) join(cpu, cpu + 3, LinkClass::pcie, figures.socket_gbytes_per_s);
    const double nic = figures.nics[static_cast<std::size_t>(socket % 2)];
    if (nic == 0) continue;
    join(at, cpu + 1, LinkClass::pcie, 50);
    join(cpu + 1, 8, LinkClass::net, nic);
  }
  return machine;
}

std::vector<std::vector<Rank>> islands_of(const Topology& machine) {
  const auto islands = split_into_islands(machine, cluster_of(machine));
  if (!islands) return {};
  const Cluster cluster = cluster_of(*islands);
  require_network(*islands, cluster);
  return cluster.hosts;
}

const std::vector<std::vector<Rank>> kSockets{{0, 1}, {2, 3}, {4, 5}, {6, 7}};

}  // namespace

TEST_CASE("sockets with NICs of their own are islands, and lose the links between switches alone") {
  for (const bool has_pcie_switches : {false, true}) {
    const Topology machine = two_sockets({.has_pcie_switches = has_pcie_switches});
    CHECK(islands_of(machine) == kSockets);
    const auto islands = split_into_islands(machine, cluster_of(machine));
    REQUIRE(islands);
    CHECK(islands->links.size() == machine.links.size() - 4);
    for (const Link& link : machine.links) {
      const bool gone = std::ranges::find(islands->links, link) == islands->links.end();
      if (gone) CHECK(std::min(link.src, link.dst) >= machine.ranks);
      if (gone) CHECK(link.link_class == LinkClass::pcie);
    }
  }
}

TEST_CASE("a part of a host that needs the other one's NIC is no island") {
  CHECK(islands_of(two_sockets({.nics = {25, 0}})).empty());
  CHECK(islands_of(two_sockets({.nics = {50, 12.5}})).empty());  // devices could take twice as much as one gets
  CHECK(islands_of(two_sockets({.nics = {25, 21}})) == kSockets);
}

TEST_CASE("devices that have links to one another are in one island") {
  Topology machine = two_sockets({});
  machine.links.push_back({1, 2, 1, 40, 1, LinkClass::nvlink});
  machine.links.push_back({2, 1, 1, 40, 1, LinkClass::nvlink});
  CHECK(islands_of(machine) == std::vector<std::vector<Rank>>{{0, 1, 2, 3}, {4, 5}, {6, 7}});
}

TEST_CASE("PCIe switches whose NICs are too slow make an island of a socket") {
  // Each socket of a host has two PCIe switches with a device and a NIC of 12.5 GB/s.
  Topology machine;
  machine.name = "four switches a host";
  machine.ranks = 8;
  machine.switches = 1 + 8 + 8 + 4;  // network, PCIe switches, NICs, CPUs
  machine.switch_kinds.assign(1, SwitchKind::fabric);
  machine.switch_kinds.insert(machine.switch_kinds.end(), 8, SwitchKind::pcie);
  machine.switch_kinds.insert(machine.switch_kinds.end(), 8, SwitchKind::nic);
  machine.switch_kinds.insert(machine.switch_kinds.end(), 4, SwitchKind::cpu);
  const auto join = [&](Node a, Node b, LinkClass link_class, double gbytes_per_s) {
    for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
      machine.links.push_back({src, dst, 1, gbytes_per_s, 1, link_class});
  };
  for (const Rank rank : {0, 1, 2, 3, 4, 5, 6, 7}) {
    join(rank, 9 + rank, LinkClass::pcie, 25);
    join(9 + rank, 17 + rank, LinkClass::pcie, 25);
    join(17 + rank, 8, LinkClass::net, 12.5);
    join(9 + rank, 25 + rank / 2, LinkClass::pcie, 25);
  }
  join(25, 26, LinkClass::pcie, 16);
  join(27, 28, LinkClass::pcie, 16);
  CHECK(islands_of(machine) == kSockets);
}

TEST_CASE("hosts without islands and single hosts stay whole") {
  for (const char* name : {"4*dgx-a100", "4*mi250x", "4*z52-full", "4*pcie4", "4*nvpairs4", "pcie8"})
    CHECK(islands_of(preset(name)).empty());
  CHECK(islands_of(preset("3*pcie8")).size() == 6);
}
