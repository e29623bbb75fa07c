// Forests at a root whose host has NICs behind switches that devices share.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string_view>

#include "compose/bounds/bound.h"
#include "portfolio/composites/composites.h"
#include "topology/presets.h"
#include "topology/symmetry/cluster.h"

using namespace sccl;

namespace {

constexpr double kBytes = 256 << 20;

void join(topology::Topology& machine, topology::Node a, topology::Node b, double rate, topology::LinkClass kind) {
  machine.links.push_back({a, b, 1, rate, 1, kind});
  machine.links.push_back({b, a, 1, rate, 1, kind});
}

// Eight devices of each host are on a switch, and every `at_nic` of them on another one, with a NIC.
topology::Topology cluster(int hosts, int at_nic) {
  constexpr int kDevices = 8;
  topology::Topology machine;
  machine.name = "shared NICs";
  machine.ranks = hosts * kDevices;
  const int nics = kDevices / at_nic;
  const topology::Node fabric = machine.ranks + hosts * (1 + nics);
  machine.switches = fabric + 1 - machine.ranks;
  for (int host = 0; host < hosts; ++host) {
    const topology::Node inner = machine.ranks + host * (1 + nics);
    for (int device = 0; device < kDevices; ++device) {
      join(machine, host * kDevices + device, inner, 25, topology::LinkClass::pcie);
      join(machine, host * kDevices + device, inner + 1 + device / at_nic, 50, topology::LinkClass::pcie);
    }
    for (int nic = 0; nic < nics; ++nic) join(machine, inner + 1 + nic, fabric, 25, topology::LinkClass::net);
  }
  return machine;
}

}  // namespace

TEST_CASE("data leaves the root's host over links that its forest has left free") {
  const auto collective = GENERATE(Collective::broadcast, Collective::reduce);
  const Rank root = GENERATE(0, 13);
  const topology::Topology machine = cluster(6, 2);
  portfolio::CompositePlanner planner(machine);
  const portfolio::CompositeCandidate* best = nullptr;
  const auto all = planner.candidates(collective, root);
  for (const auto& one : all)
    if (one.name().find("forest-") != std::string_view::npos &&
        (best == nullptr || one.cost.busy_us(kBytes) < best->cost.busy_us(kBytes)))
      best = &one;
  REQUIRE(best != nullptr);
  INFO(best->name());
  const auto bounds = compose::bounds(machine, topology::cluster_of(machine), collective, root, kBytes);
  CHECK(best->cost.busy_us(kBytes) < 1.22 * bounds.front().us);  // 1.25 if all devices send what they get
  // One device sends each chunk, to all its entries.
  REQUIRE(best->composite->at_root);
  for (const auto& exits : best->composite->at_root->exits)
    CHECK(std::ranges::count(exits, exits.front()) == std::ssize(exits));
}

TEST_CASE("where all devices of a host share its only NIC each may send") {
  const topology::Topology machine = cluster(5, 8);
  portfolio::CompositePlanner planner(machine);
  for (const auto& one : planner.candidates(Collective::broadcast, 0)) {
    if (!one.composite->at_root || one.composite->at_root->exits.empty()) continue;
    INFO(one.name());
    const auto& exits = one.composite->at_root->exits;
    CHECK(std::ranges::any_of(exits, [&](const auto& devices) { return devices != exits.front(); }));
  }
}
