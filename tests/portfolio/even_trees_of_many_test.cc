// Clusters on which hosts as a whole pass slow links, and ways from device to device do not.
#include <catch2/catch.hpp>
#include <vector>

#include "compose/lowering/expand.h"
#include "portfolio/composites/composites.h"
#include "portfolio/composites/even_tree_candidates.h"
#include "portfolio/on_rails.h"
#include "schedule/proof/verify.h"
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
