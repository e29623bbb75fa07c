// Clusters on which hosts as a whole pass slow links, and ways from device to device do not.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "compose/bounds/bound.h"
#include "compose/lowering/expand.h"
#include "portfolio/clusters/ranked.h"
#include "portfolio/composites/composites.h"
#include "portfolio/composites/even_tree_candidates.h"
#include "portfolio/flat/candidate.h"
#include "portfolio/on_rails.h"
#include "portfolio/portfolio.h"
#include "schedule/proof/verify.h"
#include "shared_nics.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

constexpr Collective kCopiesAndSums[] = {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                                         Collective::broadcast, Collective::reduce};

// A few hosts with fast links let data cross from rail to rail, the others have links of 8 GB/s beside NICs of 100.
topology::Topology slow_and_fast() {
  const std::vector<std::vector<int>> hosts{{0, 1, 2}, {0}, {0, 1}, {0, 1, 2}};
  topology::Topology machine = on_rails(often(hosts, 8), 2, 8, 100);
  const int first_inner = machine.ranks;
  for (topology::Link& link : machine.links)
    for (const int host : {0, 11, 16, 27})
      if (link.src == first_inner + host || link.dst == first_inner + host) link.gbytes_per_s = 150;
  return machine;
}

// Hosts of two sockets with four devices each, which a slow link joins, and one NIC at the first.
topology::Topology with_one_nic(int hosts) {
  topology::Topology machine;
  machine.name = "one-nic";
  machine.ranks = 8 * hosts;
  const topology::Node spine = machine.ranks;
  machine.switches = 1;
  machine.switch_kinds = {topology::SwitchKind::fabric};
  for (int host = 0; host < hosts; ++host) {
    const topology::Node first = machine.nodes();
    machine.switches += 3;
    for (const auto kind : {topology::SwitchKind::cpu, topology::SwitchKind::cpu, topology::SwitchKind::nic})
      machine.switch_kinds.push_back(kind);
    for (int device = 0; device < 8; ++device)
      join(machine, 8 * host + device, first + device / 4, 16, topology::LinkClass::pcie);
    join(machine, first, first + 1, 12, topology::LinkClass::pcie);
    join(machine, first, first + 2, 16, topology::LinkClass::pcie);
    join(machine, first + 2, spine, 12.5, topology::LinkClass::net);
  }
  return machine;
}

bool is_even_trees(const portfolio::CompositeCandidate& one) {
  return one.composite->name.starts_with(portfolio::kEvenTrees);
}

}  // namespace

TEST_CASE("where hosts have slow links beside fast NICs, all ranks' trees come near the bound") {
  const topology::Topology machine = slow_and_fast();
  REQUIRE(machine.ranks == 72);
  check_times_bound(machine, kCopiesAndSums, 3);
}

// Of four rails each host lacks one.
TEST_CASE("where no rail is common to few hosts, trees of all ranks bring a root's data near the bound") {
  const topology::Topology machine = on_rails(often({{0, 1, 2}, {1, 2, 3}, {0, 2, 3}, {0, 1, 3}}, 2), 2);
  REQUIRE(machine.ranks == 24);
  constexpr Collective kOfOneRoot[] = {Collective::broadcast, Collective::reduce};
  check_times_bound(machine, kOfOneRoot, 2);
}

// The root's host would get all data over its devices' slow links, which its two NICs can spare a quarter of.
TEST_CASE("where devices have slow links and share two NICs, data of one root is near the bound") {
  const topology::Topology machine = sccl_test::hosts_with_shared_nics(7, 4, 40, 5, 50);
  const auto collective = GENERATE(Collective::broadcast, Collective::reduce);
  portfolio::CompositePlanner planner(machine);
  const auto all = planner.candidates(collective, 0);
  const auto best = portfolio::ranked(all, portfolio::Pipeline{}.simulated(64 << 20)).front();
  const double bound = compose::bounds(machine, topology::cluster_of(machine), collective, 0, 64 << 20).front().us;
  INFO(all[best.candidate].name() << ": " << best.time_us << " us, bound " << bound);
  CHECK(is_even_trees(all[best.candidate]));
  CHECK(best.simulated);
  CHECK(best.time_us < 1.17 * bound);
}

TEST_CASE("on what a scheduler left of hosts, AllReduce of every length is near the bound") {
  const topology::Topology hosts = topology::preset("3*dgx1p");
  for (const std::vector<int>& devices :
       {std::vector<int>{0, 1, 2, 8, 9, 10, 11, 12},
        std::vector<int>{0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 16, 17, 18, 19},
        std::vector<int>{0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 21}}) {
    const topology::Topology machine = topology::subset(hosts, devices);
    const auto all = portfolio::candidates(machine, Collective::allreduce, 0);
    for (const std::size_t mib : {16, 64, 256}) {
      const std::size_t bytes = mib << 20;
      const auto best = portfolio::predict(all, bytes, 1, {}).front();
      const double bound =
          compose::bounds(machine, topology::cluster_of(machine), Collective::allreduce, 0, static_cast<double>(bytes))
              .front()
              .us;
      INFO(all[best.candidate].name << " for " << mib << " MiB on " << machine.ranks << " ranks: " << best.time_us
                                    << " us, bound " << bound);
      CHECK(best.time_us < (mib < 64 ? 1.2 : 1.06) * bound);
      CHECK(best.time_us > bound);
    }
  }
}

TEST_CASE("even trees of many ranks are proved, whoever is the root") {
  const topology::Topology machine = slow_and_fast();
  portfolio::CompositePlanner planner(machine);
  for (const Collective collective : kCopiesAndSums)
    for (const Rank root : {0, 40}) {
      if (root != 0 && !info(collective).rooted) continue;
      int found = 0;
      for (const portfolio::CompositeCandidate& one : planner.candidates(collective, root)) {
        if (!is_even_trees(one)) continue;
        ++found;
        INFO(one.composite->name << ", " << info(collective).name << " root " << root);
        CHECK(one.composite->root == root);
        CHECK_NOTHROW(schedule::verify(compose::expand(*one.composite)));
      }
      INFO(info(collective).name << " root " << root);
      CHECK(found == 1);
    }
}

TEST_CASE("clusters whose hosts come near the bound get no even trees of many ranks") {
  portfolio::CompositePlanner planner(topology::preset("6*dgx-a100"));
  for (const Collective collective : kCopiesAndSums)
    for (const portfolio::CompositeCandidate& one : planner.candidates(collective, 0)) CHECK_FALSE(is_even_trees(one));
}

TEST_CASE("where hosts have one NIC, long data of one root may pass all devices in a chain") {
  const topology::Topology machine = with_one_nic(9);
  REQUIRE(machine.ranks > portfolio::kMostFlatRanks);
  const auto collective = GENERATE(Collective::broadcast, Collective::reduce);
  const Rank root = GENERATE(0, 13);
  portfolio::CompositePlanner planner(machine);
  const auto all = planner.candidates(collective, root);
  const auto chain = std::ranges::find(all, "levels/chain", &portfolio::CompositeCandidate::name);
  REQUIRE(chain != all.end());
  CHECK_NOTHROW(schedule::verify(compose::expand(*chain->composite)));
  const portfolio::Pipeline pipeline;
  const auto order = portfolio::ranked(all, pipeline.simulated(64 << 20));
  INFO(all[order.front().candidate].name());
  CHECK(all[order.front().candidate].name() == "levels/chain");
  CHECK(order.front().simulated);
}
