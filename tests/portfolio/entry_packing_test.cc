// Trees from outside of a host reach what the host's links and ways allow, and no link carries more than it can.
#include "treegen/clusters/entry_packing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "portfolio/links/outside.h"
#include "topology/presets.h"
#include "topology/topology.h"

using namespace sccl;
using treegen::EntryUse;

namespace {

constexpr double kNic = 12.5;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Every tree spans, its port hangs on `outside`, and every device is the port of the same share.
void check_trees(const treegen::EntryPacking& packing, int devices) {
  std::vector<double> of_port(at(devices), 0);
  for (const treegen::EntryTree& one : packing.trees) {
    REQUIRE(one.tree.parent.size() == at(devices) + 1);
    CHECK(one.tree.root == devices);
    CHECK(one.tree.parent[at(one.port)] == devices);
    for (Rank device = 0; device < devices; ++device) {
      Rank up = device;
      for (int hops = 0; up != devices && hops <= devices; ++hops) up = one.tree.parent[at(up)];
      CHECK(up == devices);
    }
    of_port[at(one.port)] += one.weight;
  }
  for (const double share : of_port) CHECK(share == Approx(1.0 / devices).epsilon(1e-3));
}

// The busiest capacity, in the time for a unit of all data, with the host's own data.
double busiest(const topology::Topology& one, const treegen::EntryPacking& packing, EntryUse use,
               const treegen::EntryDemand& demand) {
  const treegen::Links links(one);
  std::vector<double> load(links.capacities().size(), 0);
  for (std::size_t index = 0; index < load.size(); ++index)
    for (const treegen::Edge& edge : links.capacities()[index].edges)
      if (const auto own = demand.own.find(edge); own != demand.own.end()) load[index] += own->second;
  const auto pass = [&](Rank from, Rank to, double bytes) {
    for (const treegen::Use& one : links.hops()[at(links.hop(from, to))].uses)
      load[at(one.capacity)] += bytes * one.times;
  };
  for (const treegen::EntryTree& tree : packing.trees)
    for (Rank device = 0; device + 1 < one.ranks; ++device) {
      const Rank parent = tree.tree.parent[at(device)];
      pass(parent, device, tree.weight * demand.from_outside);
      if (use == EntryUse::both_ways) pass(device, parent, tree.weight * demand.from_outside);
    }
  double most = 0;
  for (std::size_t index = 0; index < load.size(); ++index)
    most = std::max(most, load[index] / static_cast<double>(links.capacities()[index].amount));
  return most;
}

}  // namespace

TEST_CASE("what enters a host whose links share bandwidth reaches the bound of all its parts") {
  // 118 GB/s lead into the two hubs and all others, one byte each: 59 (compose/bounds/parts_bound.h).
  const topology::Topology one = portfolio::with_outside(topology::preset("z52-full"), kNic);
  const auto packing = treegen::pack_entries(one, EntryUse::one_way, {});
  REQUIRE(packing);
  check_trees(*packing, 8);
  CHECK(packing->rate * kNic / 100 == Approx(59).epsilon(1e-3));
}

TEST_CASE("no link carries more than it can, in one direction, in both, and beside the host's own data") {
  for (const char* name : {"z52", "z52-full", "pcie8", "dgx1v", "nvpairs4"})
    for (const EntryUse use : {EntryUse::one_way, EntryUse::both_ways}) {
      const topology::Topology host = topology::preset(name);
      const topology::Topology one = portfolio::with_outside(host, kNic);
      treegen::EntryDemand demand{0.75, {}};
      for (const topology::Link& link : host.links)
        if (link.src < host.ranks && link.dst < host.ranks) demand.own[{link.src, link.dst}] = 0.1;
      const auto packing = treegen::pack_entries(one, use, demand);
      INFO(name << (use == EntryUse::both_ways ? ", both ways" : ""));
      REQUIRE(packing);
      check_trees(*packing, host.ranks);
      // Weights are of the perturbed program.
      CHECK(busiest(one, *packing, use, demand) == Approx(1 / packing->rate).epsilon(1e-3));
    }
}

TEST_CASE("a device without a way from outside has no trees") {
  topology::Topology one = portfolio::with_outside(topology::preset("z52"), kNic);
  CHECK(treegen::pack_entries(one, EntryUse::one_way, {}));
  std::erase_if(one.links, [](const topology::Link& link) { return link.src == 8 && link.dst == 3; });
  CHECK_FALSE(treegen::pack_entries(one, EntryUse::one_way, {}));
}

namespace {

// Each device has links to all others, of one to three lanes.
topology::Topology joined(int devices, int most_lanes) {
  topology::Topology host = topology::host(devices);
  for (topology::Link& link : host.links) {
    link.lanes = 1 + (link.src + link.dst) % most_lanes;
    link.gbytes_per_s *= link.lanes;
  }
  return host;
}

}  // namespace

TEST_CASE("hosts whose devices all have equal links to each other are packed at their bound without search") {
  // 23 links of 8 GB/s and the NIC lead into a device, which gets everything.
  constexpr int kDevices = 24;
  constexpr double kBound = 23 * 8 + kNic;
  const topology::Topology one = portfolio::with_outside(joined(kDevices, 1), kNic);
  const auto packing = treegen::pack_entries(one, EntryUse::one_way, {});
  REQUIRE(packing);
  check_trees(*packing, kDevices);
  CHECK(packing->rate * 0.08 == Approx(kBound).epsilon(2e-3));  // GB/s of a lane
  CHECK(packing->work == 0);
  CHECK(busiest(one, *packing, EntryUse::one_way, {}) == Approx(1 / packing->rate).epsilon(1e-3));
}

TEST_CASE("packing a host takes no more work than there is time for, however many links it has") {
  constexpr double kMostWork = 1.2e8;
  for (const int devices : {12, 24})
    for (const EntryUse use : {EntryUse::one_way, EntryUse::both_ways}) {
      const topology::Topology one = portfolio::with_outside(joined(devices, 3), kNic);
      const auto packing = treegen::pack_entries(one, use, {});
      REQUIRE(packing);
      CHECK(packing->work < kMostWork);
      CHECK(busiest(one, *packing, use, {}) <= Approx(1 / packing->rate).epsilon(1e-3));
    }
}
