// Automorphisms and canonical forms, against brute force on small graphs and known groups of known machines.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <numeric>
#include <random>

#include "base/error.h"
#include "topology/formats/json.h"
#include "topology/presets.h"
#include "topology/symmetry/automorphisms.h"
#include "topology/symmetry/canonical.h"

using namespace sccl;
using namespace sccl::topology;

namespace {

Permutation shuffled(int ranks, int nodes, std::mt19937& random) {
  Permutation result(static_cast<std::size_t>(nodes));
  std::iota(result.begin(), result.end(), 0);
  std::shuffle(result.begin(), result.begin() + ranks, random);
  std::shuffle(result.begin() + ranks, result.end(), random);
  return result;
}

Topology random_topology(std::mt19937& random) {
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  Topology topology;
  topology.name = "random";
  topology.ranks = 2 + below(4);
  topology.switches = below(3);
  for (int i = 0, links = below(3 * topology.nodes()); i < links; ++i) {
    const Node src = below(topology.nodes()), dst = below(topology.nodes());
    if (src == dst) continue;
    const LinkClass link_class = below(4) == 0 ? LinkClass::pcie : LinkClass::nvlink;
    topology.links.push_back({src, dst, 1 + below(2), 1.0, 1.0, link_class});
    if (below(2) == 0) topology.links.push_back({dst, src, 1, 1.0, 1.0, link_class});
  }
  for (int i = 0, sets = below(3); i < sets && !topology.links.empty(); ++i) {
    SharedSet set{1 + below(2), {}};
    for (int member = 0; member < 1 + below(3); ++member) {
      const Link& link = topology.links[static_cast<std::size_t>(below(static_cast<int>(topology.links.size())))];
      set.links.emplace_back(link.src, link.dst);
    }
    topology.shared.push_back(set);
  }
  return topology;
}

// What a permutation has to keep, written down without the library's graph.
auto meaning(const Topology& topology, const Permutation& number) {
  const auto at = [&](Node node) { return number[static_cast<std::size_t>(node)]; };
  std::map<std::tuple<Node, Node, LinkClass>, int> lanes;
  for (const Link& link : topology.links) lanes[{at(link.src), at(link.dst), link.link_class}] += link.lanes;
  std::vector<std::pair<std::vector<std::pair<Node, Node>>, int>> sets;
  for (const SharedSet& set : topology.shared) {
    auto& [links, of_set] = sets.emplace_back();
    for (const auto& [src, dst] : set.links) links.emplace_back(at(src), at(dst));
    std::sort(links.begin(), links.end());
    of_set = set.lanes;
  }
  std::sort(sets.begin(), sets.end());
  return std::pair(lanes, sets);
}

std::vector<Permutation> all_permutations(int ranks, int nodes) {
  Permutation one(static_cast<std::size_t>(nodes));
  std::iota(one.begin(), one.end(), 0);
  std::vector<Permutation> result;
  do {
    do result.push_back(one);
    while (std::next_permutation(one.begin() + ranks, one.end()));
  } while (std::next_permutation(one.begin(), one.begin() + ranks));
  return result;
}

// Two rings of four, or one of eight: every node looks the same in both.
Topology rings(std::vector<std::vector<int>> cycles, int ranks) {
  Topology topology;
  topology.name = "rings";
  topology.ranks = ranks;
  for (const auto& cycle : cycles)
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const Node a = cycle[i], b = cycle[(i + 1) % cycle.size()];
      topology.links.push_back({a, b, 1, 1, 1, LinkClass::xgmi});
      topology.links.push_back({b, a, 1, 1, 1, LinkClass::xgmi});
    }
  return topology;
}

}  // namespace

TEST_CASE("automorphisms and isomorphism agree with brute force on random topologies") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<Topology> earlier;
  for (int trial = 0; trial < 300; ++trial) {
    const Topology topology = random_topology(random);
    const std::vector<Permutation> permutations = all_permutations(topology.ranks, topology.nodes());
    const auto own = meaning(topology, permutations.front());
    std::vector<Permutation> expected;
    for (const Permutation& one : permutations)
      if (meaning(topology, one) == own) expected.push_back(one);
    const Automorphisms found = automorphisms(topology);
    CHECK(found.complete);
    CHECK(found.all == expected);
    for (const std::size_t at_most : {std::size_t{1}, std::size_t{3}, expected.size(), std::size_t{4096}}) {
      const AutomorphismCount count = count_automorphisms(topology, at_most);
      CHECK(count.found == std::min(at_most, expected.size()));
      CHECK(count.complete == (expected.size() <= at_most));
    }

    const CanonicalForm form = canonical_form(topology);
    CHECK(form.exact);
    const Permutation number = shuffled(topology.ranks, topology.nodes(), random);
    const CanonicalForm of_relabelled = canonical_form(relabelled(topology, number));
    CHECK(of_relabelled.text == form.text);
    CHECK(of_relabelled.key == form.key);
    CHECK(meaning(topology, form.number) == meaning(relabelled(topology, number), of_relabelled.number));
    for (const Topology& other : earlier) {
      if (other.ranks != topology.ranks || other.switches != topology.switches) continue;
      const bool isomorphic = std::any_of(permutations.begin(), permutations.end(),
                                          [&](const Permutation& one) { return meaning(other, one) == own; });
      CHECK((canonical_form(other).text == form.text) == isomorphic);
    }
    if (earlier.size() < 40) earlier.push_back(topology);
  }
}

TEST_CASE("graphs that refinement alone cannot tell apart get different forms") {
  const CanonicalForm two = canonical_form(rings({{0, 1, 2, 3}, {4, 5, 6, 7}}, 8));
  const CanonicalForm one = canonical_form(rings({{0, 1, 2, 3, 4, 5, 6, 7}}, 8));
  CHECK(two.text != one.text);
  CHECK(canonical_form(rings({{0, 5, 2, 7}, {4, 1, 6, 3}}, 8)).text == two.text);
}

TEST_CASE("every preset keeps its form when renumbered, and no two presets share one but for their figures") {
  std::mt19937 random(1);
  std::map<std::string, std::string> by_text;
  std::vector<std::string> names{"host:40", "2*dgx1v", "8*dgx1v", "4*pcie8", "16*dgx-h100", "3*mi250x"};
  for (const Preset& one : presets()) names.emplace_back(one.name);
  for (const std::string& name : names) {
    INFO(name);
    const Topology topology = preset(name);
    const CanonicalForm form = canonical_form(topology, Figures::compared);
    CHECK(form.exact);
    const auto start = std::chrono::steady_clock::now();
    for (int trial = 0; trial < 3; ++trial) {
      const Topology other = relabelled(topology, shuffled(topology.ranks, topology.nodes(), random));
      CHECK(canonical_form(other, Figures::compared).text == form.text);
    }
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
    CHECK(by_text.emplace(form.text, name).second);
  }
}

TEST_CASE("the canonical numbering makes one topology of all relabelled ones") {
  std::mt19937 random(2);
  const Topology topology = preset("z52-full");
  const CanonicalForm form = canonical_form(topology);
  const Topology other = relabelled(topology, shuffled(8, 8, random));
  CHECK(to_json(relabelled(topology, form.number)) == to_json(relabelled(other, canonical_form(other).number)));
}

TEST_CASE("groups of known machines have their known orders") {
  CHECK(automorphisms(preset("dgx1v")).all.size() == 4);
  CHECK(automorphisms(preset("dgx1p")).all.size() == 48);  // K4 x K2
  CHECK(automorphisms(preset("z52")).all.size() == 4);     // a ring of eight with two PCIe links opposite each other
  CHECK(automorphisms(preset("pcie4")).all.size() == 24);
  CHECK(automorphisms(preset("mi300x"), 50000).all.size() == 40320);
  CHECK(automorphisms(preset("2*dgx1v")).all.size() == 32);
  const AutomorphismCount many = count_automorphisms(host(400), 2000);
  CHECK(!many.complete);
  CHECK(many.found == 2000);
  const Automorphisms cut = automorphisms(preset("mi300x"), 100);
  CHECK(!cut.complete);
  CHECK(cut.all.size() == 100);
}

TEST_CASE("figures count only when they are compared") {
  Topology slow_link = preset("mi300x");
  slow_link.links[0].gbytes_per_s /= 2;
  CHECK(automorphisms(slow_link, 50000).all.size() == 40320);
  CHECK(automorphisms(slow_link, 50000, Figures::compared).all.size() == 720);
  CHECK(canonical_form(slow_link).text == canonical_form(preset("mi300x")).text);
  CHECK(canonical_form(slow_link, Figures::compared).text != canonical_form(preset("mi300x"), Figures::compared).text);
}

TEST_CASE("an automorphism that moves one rank to another is found where there is one") {
  for (const char* name : {"dgx1v", "dgx2", "mi250x", "nvpairs4", "z52-full"}) {
    INFO(name);
    const Topology topology = preset(name);
    const LabelledGraph graph(topology, Figures::ignored);
    const Automorphisms all = automorphisms(topology);
    for (Rank to = 0; to < topology.ranks; ++to) {
      const auto moving = automorphism_moving(topology, 1, to);
      const bool exists = !all.complete || std::any_of(all.all.begin(), all.all.end(),
                                                       [&](const Permutation& one) { return one[1] == to; });
      CHECK(moving.has_value() == exists);
      if (!moving) continue;
      CHECK((*moving)[1] == to);
      if (topology.shared.empty()) CHECK(graph.is_automorphism(*moving));
      CHECK(compose(inverse(*moving), *moving) == compose(*moving, inverse(*moving)));
    }
  }
}

TEST_CASE("a path has one symmetry, and none when its links lead one way") {
  Topology path;
  path.name = "path";
  path.ranks = 3;
  path.links = {{0, 1, 1, 1, 1, LinkClass::shm}, {1, 2, 1, 1, 1, LinkClass::shm}};
  CHECK(automorphisms(path).all.size() == 1);
  CHECK(!automorphism_moving(path, 0, 2));
  path.links.push_back({1, 0, 1, 1, 1, LinkClass::shm});
  path.links.push_back({2, 1, 1, 1, 1, LinkClass::shm});
  CHECK(automorphism_moving(path, 0, 2) == Permutation{2, 1, 0});
}

TEST_CASE("a DGX-1V leaves jobs 46 different NVLink graphs of three to eight devices, a DGX-1P 14") {
  CHECK(subset_classes(preset("dgx1v"), 3, 8).size() == 46);
  CHECK(subset_classes(preset("dgx1p"), 3, 8).size() == 14);
}

TEST_CASE("classes of subsets count every connected subset once") {
  long long subsets = 0;
  for (const SubsetClass& one : subset_classes(preset("mi300x"), 1, 8)) subsets += one.subsets;
  CHECK(subsets == 255);
  const std::vector<SubsetClass> pairs = subset_classes(preset("nvpairs4"), 2, 4);
  REQUIRE(pairs.size() == 1);  // only a bridged pair is joined by NVLink
  CHECK(pairs[0].devices == std::vector<int>{0, 1});
  CHECK(pairs[0].subsets == 2);
  CHECK_THROWS_AS(subset_classes(preset("host:64"), 3, 8), Error);
}
