// The closed form of composites puts on links what their sends do.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <utility>

#include "clusters.h"
#include "compose/lowering/expand.h"
#include "portfolio/composites/composites.h"
#include "schedule/simulation/cost.h"
#include "schedule/simulation/simulate.h"
#include "simulation_options.h"
#include "topology/presets.h"

using namespace sccl;

// Unlike chunks are even on average only, and where hosts differ so are blocks that take the port of their target. The
// closed form of even trees is fitted to simulations instead (portfolio/composites/even_tree_candidates.h).
TEST_CASE("the closed form's busiest link is about that of the flat form, where hosts are alike and where not") {
  for (const topology::Topology& machine : {topology::preset("3*pcie4"), uneven(), pcie_beside_line(),
                                            pcie_beside_line(60), in_a_row(4, 2, {20, 5, 10}), racks(3, 2, 2)}) {
    portfolio::CompositePlanner planner(machine);
    int with_entries = 0;
    for (const Collective collective : kCollectives)
      for (const auto& one : planner.candidates(collective, 0)) {
        if (one.name().starts_with("even-trees")) continue;
        const double flat = schedule::busiest_us_per_byte(compose::expand(*one.composite));
        INFO(one.name() << " for " << info(collective).name << " on " << machine.name);
        CHECK(one.cost.busy_us(1) > 0.8 * flat);
        CHECK(one.cost.busy_us(1) < (one.name().starts_with("levels/leaders") ? 1.4 : 1.1) * flat);
        // Those by NICs are for hosts that differ, however fast their links.
        const bool by_nics = one.name().find("-by-nics") != std::string::npos;
        with_entries += !by_nics && one.name().find("entries") != std::string::npos ? 1 : 0;
      }
    CHECK((with_entries > 0) == (machine.name.find("pcie") != std::string::npos));
  }
}

// With more than 32 ranks nothing is simulated, so what the closed form leaves out is chosen.
TEST_CASE("the closed form's busiest link is about that of the flat form where hosts have three to five devices") {
  std::vector<int> devices;
  for (int host = 0; host < 9; ++host)
    for (int device = 0; device < 3 + (host % 3) * 2 % 3; ++device) devices.push_back(host * 8 + device);
  portfolio::CompositePlanner planner(part("9*dgx1v", devices));
  for (const auto& one : planner.candidates(Collective::allreduce, 0)) {
    if (one.composite->frames > 8 || one.name().starts_with("levels/leaders")) continue;
    const double flat = schedule::busiest_us_per_byte(compose::expand(*one.composite));
    INFO(one.name());
    // Few chunks do not take all turns of leaves and all turns of ports alike.
    CHECK(one.cost.busy_us(1) > (one.name().starts_with("levels/leaves") ? 0.7 : 0.8) * flat);
    CHECK(one.cost.busy_us(1) < 1.25 * flat);
  }
}

// Its host is of the kind of the others, whose links are equal. Where it is the root of less data, it passes less.
TEST_CASE("the closed form's busiest link is that of the flat form where one host has slower NICs") {
  int with_leaves = 0;
  for (const std::vector<double>& rates :
       {std::vector<double>{20, 20, 20, 20, 10}, {10, 20, 20, 20, 20, 20, 10}, {20, 15, 20, 20, 20, 20, 12}}) {
    portfolio::CompositePlanner planner(with_rates(rates));
    for (const Collective collective : {Collective::allreduce, Collective::allgather})
      for (const auto& one : planner.candidates(collective, 0)) {
        const bool leaves = one.name().starts_with("levels/leaves");
        with_leaves += leaves ? 1 : 0;
        if (!leaves && !one.name().starts_with("levels/direct") && !one.name().starts_with("levels/ring")) continue;
        if (leaves && one.composite->frames == 1) continue;  // not all leaves of a root
        const double flat = schedule::busiest_us_per_byte(compose::expand(*one.composite));
        INFO(one.name() << " for " << info(collective).name << " of " << rates.size()
                        << " hosts: " << one.cost.busy_us(1) / flat);
        CHECK(one.cost.busy_us(1) > 0.95 * flat);
        CHECK(one.cost.busy_us(1) < 1.05 * flat);
      }
  }
  CHECK(with_leaves > 10);
}

// A connection has few slots: on a fast link with long latency one alone leaves gaps, and many that share it do not.
TEST_CASE("a link that many ports share waits for no connection's slots, and one that a single port uses does") {
  for (const int devices : {4, 1}) {
    topology::Topology machine = in_a_row(8, devices, {50, 50, 50, 50, 50, 50, 50});
    for (topology::Link& link : machine.links)
      if (link.link_class == topology::LinkClass::net) {
        link.gbytes_per_s = 50;
        link.alpha_us = 4;
      }
    const double bytes = 4 << 20;
    portfolio::CompositePlanner planner(machine);
    const auto all = planner.candidates(Collective::allgather, 0);
    const auto found = std::find_if(all.begin(), all.end(), [](const auto& one) {
      return one.name().starts_with("levels/ring") && one.name().ends_with("/8");
    });
    REQUIRE(found != all.end());
    const auto options = sccl_test::moved_in_lanes(bytes, 128 * 1024);
    const double simulated_us = schedule::simulate(compose::expand(*found->composite), options).time_us;
    const double closed_us = found->cost.time_us(bytes, options.slice_bytes);
    INFO(devices << " devices: simulated " << simulated_us << " us, in closed form " << closed_us << ", busy "
                 << found->cost.busy_us(bytes));
    CHECK(closed_us < 1.1 * simulated_us);
    CHECK(closed_us > simulated_us / 1.1);
    CHECK((simulated_us > 1.5 * found->cost.busy_us(bytes)) == (devices == 1));
  }
}

// A model keeps what hosts pass: what it says of a composite must not depend on those before it.
TEST_CASE("a cost model says of every composite what a new one says") {
  for (const topology::Topology& machine : {uneven(), pcie_beside_line(60), racks(3, 2, 2)}) {
    const auto links = std::make_shared<const topology::Topology>(machine);
    const auto cluster = std::make_shared<const topology::Cluster>(topology::cluster_of(machine));
    compose::CostModel known(links, cluster);
    portfolio::CompositePlanner planner(machine);
    for (const Collective collective : kCollectives)
      for (const Rank root : {0, machine.ranks - 1})
        for (const auto& one : planner.candidates(collective, root)) {
          if (one.name().starts_with("even-trees")) continue;  // of a cluster of one host
          INFO(one.name() << " for " << info(collective).name << " of root " << root << " on " << machine.name);
          const compose::Cost cost = known.cost(*one.composite);
          const compose::Cost anew = compose::CostModel(links, cluster).cost(*one.composite);
          for (const double bytes : {1e4, 1e8}) {
            CHECK(cost.time_us(bytes, 1 << 17) == anew.time_us(bytes, 1 << 17));
            CHECK(cost.busy_us(bytes) == anew.busy_us(bytes));
          }
        }
  }
}

TEST_CASE("no rank receives a chunk of a Broadcast or an AllGather twice") {
  for (const topology::Topology& machine : clusters())
    for_every_composite(machine, [](const compose::Composite& composite) {
      if (composite.collective != Collective::broadcast && composite.collective != Collective::allgather) return;
      const schedule::Schedule flat = compose::expand(composite);
      std::set<std::pair<schedule::ChunkId, Rank>> received;
      std::size_t twice = 0;
      for (const schedule::Send& send : flat.sends) twice += received.emplace(send.chunk, send.dst).second ? 0 : 1;
      CHECK(twice == 0);
    });
}
