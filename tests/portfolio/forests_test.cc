// Forests at a root whose host has NICs behind switches that devices share.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string_view>
#include <tuple>

#include "compose/bounds/bound.h"
#include "portfolio/composites/composites.h"
#include "shared_nics.h"
#include "topology/symmetry/cluster.h"

using namespace sccl;

namespace {

constexpr double kBytes = 256 << 20;

}  // namespace

TEST_CASE("data leaves the root's host over links that its forest has left free") {
  const auto collective = GENERATE(Collective::broadcast, Collective::reduce);
  const Rank root = GENERATE(0, 13);
  const topology::Topology machine = sccl_test::hosts_with_shared_nics(6, 2, 25, 1);
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

// Devices get 46 of the 50 GB/s that NICs bring from others on their host, over links of 40 GB/s and past NICs.
TEST_CASE("a forest needs no trees of whole lanes: without one the links of hosts slower than their NICs are too few") {
  const auto collective = GENERATE(Collective::broadcast, Collective::reduce);
  const auto [hosts, at_nic, inner] = GENERATE(std::tuple(5, 4, 40.0), std::tuple(3, 4, 40.0), std::tuple(7, 4, 30.0));
  const topology::Topology machine = sccl_test::hosts_with_shared_nics(hosts, at_nic, inner, 1);
  portfolio::CompositePlanner planner(machine);
  double best_us = std::numeric_limits<double>::infinity();
  double best_without_us = best_us;
  for (const auto& one : planner.candidates(collective, 9)) {
    const bool has_forest = one.name().find("forest-") != std::string_view::npos;
    double& best = has_forest ? best_us : best_without_us;
    best = std::min(best, one.cost.busy_us(kBytes));
  }
  const double bound_us = compose::bounds(machine, topology::cluster_of(machine), collective, 9, kBytes).front().us;
  CAPTURE(hosts, inner, best_us / bound_us, best_without_us / bound_us);
  CHECK(best_us < 1.1 * bound_us);
  CHECK(best_without_us > 1.12 * bound_us);
}

TEST_CASE("where all devices of a host share its only NIC each may send") {
  const topology::Topology machine = sccl_test::hosts_with_shared_nics(5, 8, 25, 1);
  portfolio::CompositePlanner planner(machine);
  for (const auto& one : planner.candidates(Collective::broadcast, 0)) {
    if (!one.composite->at_root || one.composite->at_root->exits.empty()) continue;
    INFO(one.name());
    const auto& exits = one.composite->at_root->exits;
    CHECK(std::ranges::any_of(exits, [&](const auto& devices) { return devices != exits.front(); }));
  }
}
