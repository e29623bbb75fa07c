// Distances, flows and bounds: the papers' figures, and agreement of minimum cuts with all cuts.
#include "topology/graph/metrics.h"

#include <array>
#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "topology/graph/like_ranks.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::topology;

namespace {

// A chain of unused switches makes the topology too large for looking at all cuts.
Topology made_large(Topology topology) {
  topology.switches += 20;
  return topology;
}

Topology random_topology(std::mt19937& random, int ranks) {
  Topology topology;
  topology.name = "random";
  topology.ranks = ranks;
  topology.switches = 2;
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int i = 0; i < 5 * ranks; ++i) {
    const Node src = below(topology.nodes()), dst = below(topology.nodes());
    if (src != dst) topology.links.push_back({src, dst, 1 + below(3), 1, 1, LinkClass::nvlink});
  }
  return topology;
}

}  // namespace

TEST_CASE("diameters count hops between ranks, not switches") {
  CHECK(diameter(preset("dgx1v")) == 2);
  CHECK(diameter(preset("z52")) == 4);
  CHECK(diameter(preset("dgx2")) == 1);
  CHECK(diameter(preset("pcie8")) == 1);
  CHECK(diameter(preset("2*dgx1v")) == 1);
  CHECK(hops_from(preset("z52"), 2) == std::vector<int>{1, 1, 0, 2, 3, 3, 4, 2});
}

TEST_CASE("a rank out of reach has no distance and leaves no bound") {
  Topology topology = preset("dgx1v");
  std::erase_if(topology.links, [](const Link& link) { return link.dst == 5; });
  CHECK(!diameter(topology));
  CHECK(hops_from(topology, 0)[5] == -1);
  CHECK(!inverse_bisection_bound(topology, Collective::allgather));
  CHECK(!inverse_bisection_bound(topology, Collective::allreduce));
  CHECK(!inverse_bisection_bound(made_large(topology), Collective::allgather));
  CHECK(!inverse_bisection_bound(made_large(topology), Collective::alltoall));
  CHECK(inverse_bisection_bound(topology, Collective::broadcast, 3) == std::nullopt);
  CHECK(max_flow(topology, 0, 5).lanes == 0);
}

TEST_CASE("flows equal their cuts") {
  const Topology topology = preset("dgx1v");
  CHECK(max_flow(topology, 0, 7).lanes == 6);
  CHECK(max_flow(preset("dgx1p"), 0, 7).lanes == 4);
  CHECK(max_flow(preset("z52"), 0, 1).lanes == 2);
  for (Node src = 0; src < 8; ++src)
    for (Node dst = 0; dst < 8; ++dst) {
      if (src == dst) continue;
      const Cut cut = max_flow(topology, src, dst);
      int crossing = 0;
      const auto on_source_side = [&](Node node) {
        return std::binary_search(cut.source_side.begin(), cut.source_side.end(), node);
      };
      CHECK(on_source_side(src));
      CHECK(!on_source_side(dst));
      for (const Link& link : topology.links)
        if (on_source_side(link.src) && !on_source_side(link.dst)) crossing += link.lanes;
      CHECK(crossing == cut.lanes);
    }
  CHECK_THROWS_AS(max_flow(topology, 0, 8), Error);
  CHECK_THROWS_AS(max_flow(topology, 3, 3), Error);
}

TEST_CASE("bounds are those of the best rows of SCCL's tables") {
  const Topology dgx1 = preset("dgx1v"), z52 = preset("z52");
  CHECK(inverse_bisection_bound(dgx1, Collective::allgather) == Ratio(7, 6));
  CHECK(inverse_bisection_bound(dgx1, Collective::reducescatter) == Ratio(7, 48));
  CHECK(inverse_bisection_bound(dgx1, Collective::allreduce) == Ratio(14, 48));
  CHECK(inverse_bisection_bound(dgx1, Collective::broadcast) == Ratio(1, 6));
  CHECK(inverse_bisection_bound(dgx1, Collective::reduce, 3) == Ratio(1, 6));
  CHECK(inverse_bisection_bound(dgx1, Collective::gather) == Ratio(7, 6));
  CHECK(inverse_bisection_bound(dgx1, Collective::scatter) == Ratio(7, 48));
  CHECK(inverse_bisection_bound(dgx1, Collective::alltoall) == Ratio(1, 3));
  CHECK(inverse_bisection_bound(z52, Collective::allgather) == Ratio(7, 2));
  CHECK(inverse_bisection_bound(z52, Collective::broadcast) == Ratio(1, 2));
  CHECK(inverse_bisection_bound(z52, Collective::alltoall) == Ratio(1));
  CHECK(inverse_bisection_bound(preset("dgx2"), Collective::allgather) == Ratio(15, 6));
}

TEST_CASE("a shared set tightens the bound") {
  Topology topology = preset("nvpairs4");
  CHECK(inverse_bisection_bound(topology, Collective::alltoall) == Ratio(1, 2));
  SharedSet bridge{1, {}};
  for (Rank rank = 0; rank < 4; ++rank) bridge.links.emplace_back(rank, 4);
  topology.shared.push_back(bridge);
  CHECK(inverse_bisection_bound(topology, Collective::alltoall) == Ratio(1));
}

TEST_CASE("minimum cuts find the same bounds as all cuts") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto exact = {Collective::allgather, Collective::gather,        Collective::broadcast, Collective::scatter,
                      Collective::reduce,    Collective::reducescatter, Collective::allreduce};
  for (int trial = 0; trial < 60; ++trial) {
    const Topology topology = random_topology(random, 2 + trial % 6);
    for (const Collective collective : exact) {
      INFO("trial " << trial << ' ' << info(collective).name);
      CHECK(inverse_bisection_bound(topology, collective) == inverse_bisection_bound(made_large(topology), collective));
    }
    const auto all_cuts = inverse_bisection_bound(topology, Collective::alltoall);
    const auto some_cuts = inverse_bisection_bound(made_large(topology), Collective::alltoall);
    CHECK(all_cuts.has_value() == some_cuts.has_value());
  }
  for (int trial = 0; trial < 30; ++trial) {  // nearly all pairs joined
    Topology topology = host(6);
    for (int i = 0; i < trial % 4; ++i) topology.links.erase(topology.links.begin() + random() % topology.links.size());
    for (int i = 0; i < 3; ++i) topology.links[random() % topology.links.size()].lanes = 3;
    for (const Collective collective : exact) {
      INFO("trial " << trial << ' ' << info(collective).name);
      CHECK(inverse_bisection_bound(topology, collective) == inverse_bisection_bound(made_large(topology), collective));
    }
  }
}

TEST_CASE("ranks of hosts that may be swapped are alike, and bounds are those of any numbering") {
  Topology cluster = preset("4*dgx1v");
  std::vector<Rank> alike = first_alike(cluster);
  for (Rank rank = 0; rank < cluster.ranks; ++rank) CHECK(alike[static_cast<std::size_t>(rank)] == rank % 8);
  CHECK(diameter(cluster) == 1);
  // A host that has one link fewer is like no other.
  std::erase_if(cluster.links, [](const Link& link) { return link.src == 8 && link.dst == 9; });
  alike = first_alike(cluster);
  CHECK(alike[9] == 9);
  CHECK(alike[17] == 1);
  const Topology one = preset("dgx1v");
  for (Rank rank = 0; rank < one.ranks; ++rank) CHECK(first_alike(one)[static_cast<std::size_t>(rank)] == rank);
}

TEST_CASE("hosts whose devices have NICs in another order are not taken for alike") {
  Topology two;
  two.ranks = 4;
  two.switches = 2;
  for (const auto& [a, b, lanes] : {std::array{0, 1, 1}, {2, 3, 1}})
    for (const auto& [src, dst] : {std::pair(a, b), {b, a}})
      two.links.push_back({src, dst, lanes, 1, 1, LinkClass::nvlink});
  for (const auto& [rank, network] : {std::pair(0, 4), {1, 5}, {2, 5}, {3, 4}})
    for (const auto& [src, dst] : {std::pair(rank, network), {network, rank}})
      two.links.push_back({src, dst, 1, 1, 1, LinkClass::net});
  const std::vector<Rank> alike = first_alike(two);
  CHECK(alike == std::vector<Rank>{0, 1, 2, 3});
}
