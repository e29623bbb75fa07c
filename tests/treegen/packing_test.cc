// Packings: exact optima, the fewest trees, and what every packing must hold to.
#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "machines.h"
#include "topology/presets.h"
#include "treegen/packing/fewest.h"
#include "treegen/packing/pack.h"

using namespace sccl;
using namespace sccl::treegen;

namespace {

// The optimum by the theorem itself: the least cut over all subsets of ranks that hold the root and not all.
Amount least_cut(const Links& links, Rank root) {
  Amount least = std::numeric_limits<Amount>::max();
  for (unsigned set = 0; set + 1 < 1u << links.nodes(); ++set) {
    if ((set >> root & 1) == 0) continue;
    std::vector<Node> nodes;
    bool all = true;
    for (Node node = 0; node < links.nodes(); ++node) {
      if (set >> node & 1) nodes.push_back(node);
      all = all && (node >= links.ranks() || (set >> node & 1) != 0);
    }
    if (!all) least = std::min(least, leaving(links, nodes));
  }
  return least;
}

// min over all subsets of B+(S) / |S|.
Rational least_share(const Links& links) {
  Rational least(std::numeric_limits<std::int32_t>::max());
  for (unsigned set = 1; set + 1 < 1u << links.nodes(); ++set) {
    std::vector<Node> nodes;
    int ranks = 0;
    for (Node node = 0; node < links.nodes(); ++node)
      if (set >> node & 1) {
        nodes.push_back(node);
        ranks += node < links.ranks() ? 1 : 0;
      }
    if (ranks > 0 && ranks < links.ranks()) least = std::min(least, Rational(leaving(links, nodes), ranks));
  }
  return least;
}

// min over all partitions P of c(P) / (|P| - 1), by listing them (restricted growth strings). No switches.
Rational strength(const Links& links) {
  Rational least(std::numeric_limits<std::int32_t>::max());
  std::vector<int> set_of(static_cast<std::size_t>(links.ranks()), 0);
  const std::function<void(int, int)> extend = [&](int rank, int sets) {
    if (rank < links.ranks()) {
      for (int set = 0; set <= sets; ++set) {
        set_of[static_cast<std::size_t>(rank)] = set;
        extend(rank + 1, std::max(sets, set + 1));
      }
      return;
    }
    if (sets < 2) return;
    Amount crossing = 0;
    for (std::size_t edge = 0; edge < links.edges().size(); ++edge)
      if (set_of[static_cast<std::size_t>(links.edges()[edge].first)] !=
          set_of[static_cast<std::size_t>(links.edges()[edge].second)])
        crossing += links.capacities()[edge].amount;
    least = std::min(least, Rational(crossing, 2 * (sets - 1)));
  };
  extend(0, 0);
  return least;
}

}  // namespace

TEST_CASE("every allocation of a DGX-1, every root: Edmonds' optimum with the fewest trees, proved") {
  int rooted = 0;
  for (const char* machine : {"dgx1p", "dgx1v"})
    for (const auto& devices : connected_subsets(machine))
      for (Rank root = 0; root < static_cast<Rank>(devices.size()); ++root) {
        const auto topology = topology::subset(topology::preset(machine), devices);
        INFO(machine << " " << text(devices) << " root " << root);
        const Packing packing = pack(topology, Collective::broadcast, root);
        const Links links(topology);
        CHECK(packing.rate == least_cut(links, root));
        CHECK(packing.proof == Proof::cut);
        CHECK(packing.bound.crossing == leaving(links, packing.bound.sets.front()));
        CHECK(packing.fewest_proved);
        CHECK(packing.least_depth_proved);
        ++rooted;
      }
  CHECK(rooted == 1664);
}

TEST_CASE("a DGX-1V broadcasts 6 lanes over 4 trees, or over 6 of one lane each") {
  const auto machine = topology::preset("dgx1v");
  const Packing fewest = pack(machine, Collective::broadcast, 0);
  CHECK(fewest.rate == 6);
  REQUIRE(fewest.routes.size() == 4);
  CHECK(fewest.routes[0].weight == 2);
  CHECK(fewest.routes[3].weight == 1);
  CHECK(fewest.least_trees == 4);
  CHECK(fewest.depth() == 7);
  const Packing unit = pack(machine, Collective::broadcast, 0, {CapacityUnit::lanes, TreeWeights::unit});
  CHECK(unit.rate == 6);
  CHECK(unit.routes.size() == 6);
  for (const WeightedRoute& route : unit.routes) CHECK(route.weight == 1);
}

TEST_CASE("a packing is the same without the proof of how many trees there are at the least") {
  for (const char* name : {"dgx1v", "host:8"}) {  // all trees are listed on the first one
    const auto machine = topology::preset(name);
    PackOptions options;
    const Packing proved = pack(machine, Collective::broadcast, 1, options);
    options.least_number = LeastNumber::where_it_helps;
    const Packing packed = pack(machine, Collective::broadcast, 1, options);
    INFO(name);
    REQUIRE(packed.routes.size() == proved.routes.size());
    for (std::size_t i = 0; i < packed.routes.size(); ++i) {
      CHECK(packed.routes[i].route == proved.routes[i].route);
      CHECK(packed.routes[i].weight == proved.routes[i].weight);
    }
    CHECK((packed.least_trees == proved.least_trees) == (std::string(name) == "dgx1v"));
  }
}

TEST_CASE("fewer trees are impossible: the number agrees with a search over all sets of trees") {
  // Small machines, where all pairs of trees with all weights can be tried: one tree, then two.
  for (const auto& devices : connected_subsets("dgx1v", 3, 4))
    for (Rank root = 0; root < static_cast<Rank>(devices.size()); ++root) {
      INFO(text(devices) << " root " << root);
      const Links links(topology::subset(topology::preset("dgx1v"), devices));
      const Amount rate = least_cut(links, root);
      const auto trees = all_trees(links, root, 1000);
      REQUIRE(trees);
      const auto narrowest = [&](const std::vector<Use>& uses) {
        Amount least = std::numeric_limits<Amount>::max();
        for (const Use& use : uses)
          least = std::min(least, links.capacities()[static_cast<std::size_t>(use.capacity)].amount / use.times);
        return least;
      };
      const bool one = std::any_of(trees->begin(), trees->end(),
                                   [&](const Tree& tree) { return narrowest(links.uses(tree)) >= rate; });
      bool two = one;
      for (const Tree& a : *trees)
        for (const Tree& b : *trees) {
          const auto in_a = links.uses(a);
          const auto in_b = links.uses(b);
          // The best sum of two weights: each below its narrowest link, both together below what they share.
          Amount best = narrowest(in_a) + narrowest(in_b);
          for (const Use& x : in_a)
            for (const Use& y : in_b)
              if (x.capacity == y.capacity)
                best = std::min(best, links.capacities()[static_cast<std::size_t>(x.capacity)].amount);
          two = two || best >= rate;
        }
      const auto found = pack(topology::subset(topology::preset("dgx1v"), devices), Collective::broadcast, root);
      CHECK((found.routes.size() == 1) == one);
      CHECK((found.routes.size() <= 2) == two);
    }
}

TEST_CASE("AllReduce reaches the strength of every allocation of a DGX-1") {
  for (const char* machine : {"dgx1p", "dgx1v"})
    for (const auto& devices : connected_subsets(machine)) {
      INFO(machine << " " << text(devices));
      const auto topology = topology::subset(topology::preset(machine), devices);
      const Packing packing = pack(topology, Collective::allreduce, 0);
      CHECK(packing.rate == strength(Links(topology)));
      CHECK(packing.proof == Proof::cut);
    }
}

TEST_CASE("AllGather and ReduceScatter reach the least B+(S) / |S| of every allocation of a DGX-1") {
  for (const char* machine : {"dgx1p", "dgx1v"})
    for (const auto& devices : connected_subsets(machine)) {
      INFO(machine << " " << text(devices));
      const auto topology = topology::subset(topology::preset(machine), devices);
      const Rational best = least_share(Links(topology));
      for (const Collective collective : {Collective::allgather, Collective::reducescatter}) {
        const Packing packing = pack(topology, collective, 0);
        CHECK(packing.rate == best);
        CHECK(packing.proof == Proof::cut);
      }
    }
}

TEST_CASE("AllReduce of known machines: 24/7, 16/7, 8/7 lanes") {
  CHECK(pack(topology::preset("dgx1v"), Collective::allreduce, 0).rate == Rational(24, 7));
  CHECK(pack(topology::preset("dgx1p"), Collective::allreduce, 0).rate == Rational(16, 7));
  CHECK(pack(topology::preset("z52"), Collective::allreduce, 0).rate == Rational(8, 7));
}

TEST_CASE("machines with switches reach their cut, and the cut is one") {
  const struct {
    const char* name;
    Rational all_gather;
    Rational all_reduce;
  } expected[] = {{"dgx2", {2, 5}, {16, 5}},
                  {"dgx-a100", {12, 7}, {48, 7}},
                  {"mi250x", {3, 7}, {24, 7}},
                  {"pcie8", {1, 7}, {4, 7}},
                  {"2*dgx-a100", {1, 1}, {8, 1}}};
  for (const auto& machine : expected) {
    INFO(machine.name);
    const auto topology = topology::preset(machine.name);
    for (const Collective collective : {Collective::allgather, Collective::reducescatter}) {
      const Packing packing = pack(topology, collective, 0);
      CHECK(packing.rate == machine.all_gather);
      CHECK(packing.proof == Proof::cut);
      const auto& cut = packing.bound.sets.front();
      const auto ranks = std::count_if(cut.begin(), cut.end(), [&](Node node) { return node < topology.ranks; });
      CHECK(packing.bound.crossings_per_unit == ranks);
      const Links links(topology);
      const bool inward = collective == Collective::reducescatter;
      CHECK(Rational(leaving(inward ? links.reversed() : links, cut), ranks) == packing.rate);
    }
    CHECK(pack(topology, Collective::allreduce, 0).rate == machine.all_reduce);
  }
}

TEST_CASE("behind one switch the trees are one hop deep, one for every root") {
  for (const char* name : {"dgx2", "dgx-a100", "dgx-h100"}) {
    const auto topology = topology::preset(name);
    const Packing packing = pack(topology, Collective::allreduce, 0);
    CHECK(packing.routes.size() == static_cast<std::size_t>(topology.ranks));
    CHECK(packing.depth() == 2);  // one hop in, one hop out
    CHECK(pack(topology, Collective::allgather, 0).depth() == 1);
  }
}

TEST_CASE("thirty-two devices are packed with a proof", "[slow]") {
  // Reduce and ReduceScatter are Broadcast and AllGather on links turned round.
  for (const Collective collective : {Collective::broadcast, Collective::allreduce, Collective::allgather})
    CHECK(pack(topology::preset("2*mi250x"), collective, 0).proof == Proof::cut);
}

TEST_CASE("shared sets keep packings below every cut, and the linear program says how far") {
  const auto machine = topology::preset("z52-full");
  const Packing broadcast = pack(machine, Collective::broadcast, 0);
  CHECK(broadcast.proof == Proof::linear_program);
  CHECK(broadcast.rate == Rational(4, 3));
  CHECK(broadcast.bound.rate == 2);
  CHECK(pack(machine, Collective::allreduce, 0).rate == 1);
}

// Scaling each root's rounded weights to one rate once gave sums whose fractions leave 64 bits.
TEST_CASE("roots whose rounded trees differ end at one rate, and sums stay exact") {
  const auto machine = topology::preset("2*z52-full");
  for (const Collective collective : {Collective::allgather, Collective::reducescatter}) {
    const Packing packing = pack(machine, collective, 0, {CapacityUnit::lanes, TreeWeights::any});
    CHECK(packing.rate > 0);
    CHECK(packing.rate <= packing.bound.rate);
    CHECK(packing.routes.size() >= static_cast<std::size_t>(machine.ranks));
  }
}

TEST_CASE("links that are wider one way: AllReduce takes different trees in and out") {
  // A ring of three, two lanes one way round and one the other.
  topology::Topology machine;
  machine.name = "lopsided";
  machine.ranks = 3;
  for (Rank rank = 0; rank < 3; ++rank) {
    machine.links.push_back({rank, (rank + 1) % 3, 2, 50, 1, topology::LinkClass::nvlink});
    machine.links.push_back({(rank + 1) % 3, rank, 1, 25, 1, topology::LinkClass::nvlink});
  }
  const Packing packing = pack(machine, Collective::allreduce, 0);
  // Four hops a unit, nine lanes in all.
  CHECK(packing.rate == Rational(9, 4));
  CHECK(pack(machine, Collective::reduce, 1).rate == 3);
}

TEST_CASE("capacities in GB/s: mixed links keep their fractions") {
  const auto machine = topology::preset("nvpairs4");
  const Packing lanes = pack(machine, Collective::broadcast, 0);
  const Packing measured = pack(machine, Collective::broadcast, 0, {CapacityUnit::gbytes_per_s, TreeWeights::any});
  CHECK(lanes.rate == 2);
  CHECK(measured.rate > 0);
  CHECK(measured.rate <= measured.bound.rate);
  CHECK(measured.proof == Proof::cut);
}

TEST_CASE("random directed graphs: the packing reaches the cut, or says why not") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    INFO("seed 7, round " << round);
    topology::Topology machine;
    machine.name = "random";
    machine.ranks = 2 + static_cast<int>(random() % 5);
    for (Rank a = 0; a < machine.ranks; ++a)
      for (Rank b = 0; b < machine.ranks; ++b)
        if (a != b && (random() % 3 != 0 || b == (a + 1) % machine.ranks))
          machine.links.push_back({a, b, 1 + static_cast<int>(random() % 3), 25, 1, topology::LinkClass::nvlink});
    const Links links(machine);
    for (Rank root = 0; root < machine.ranks; ++root) {
      CHECK(pack(machine, Collective::broadcast, root).rate == least_cut(links, root));
      CHECK(pack(machine, Collective::reduce, root).rate == least_cut(links.reversed(), root));
    }
    CHECK(pack(machine, Collective::allgather, 0).rate == least_share(links));
    const Packing both = pack(machine, Collective::allreduce, 0);
    CHECK(both.rate <= both.bound.rate);
    // Reducing to one root, then copying from it, each with half of every capacity, is one way.
    const Rational in = pack(machine, Collective::reduce, 0).rate;
    const Rational out = pack(machine, Collective::broadcast, 0).rate;
    CHECK(both.rate >= std::min(in, out) / 2);
  }
}
