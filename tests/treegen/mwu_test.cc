// Multiplicative weights and the selection among their candidates, as Blink published them.
#include "treegen/packing/mwu.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "machines.h"
#include "topology/symmetry/canonical.h"
#include "treegen/graph/bounds.h"
#include "treegen/packing/fewest.h"

using namespace sccl;
using namespace sccl::treegen;

namespace {

// Loads of the weighted trees never exceed a capacity.
double fullest(const Links& links, const MwuPacking& packing) {
  std::vector<double> load(links.capacities().size(), 0);
  for (std::size_t tree = 0; tree < packing.trees.size(); ++tree)
    for (const Use& use : links.uses(packing.trees[tree]))
      load[static_cast<std::size_t>(use.capacity)] +=
          packing.weights[tree] * use.times * to_double(links.units_per_lane());
  double most = 0;
  for (std::size_t index = 0; index < load.size(); ++index)
    most = std::max(most, load[index] / static_cast<double>(links.capacities()[index].amount));
  return most;
}

}  // namespace

TEST_CASE("multiplicative weights come within epsilon of Edmonds' optimum on every class of allocations of a DGX-1V") {
  for (const auto& one : topology::subset_classes(topology::preset("dgx1v"), 3, 8)) {
    const auto& devices = one.devices;
    const Links links(topology::subset(topology::preset("dgx1v"), devices));
    for (Rank root = 0; root < links.ranks(); ++root) {
      INFO(text(devices) << " root " << root);
      const double optimum = to_double(broadcast_bound(links, root).rate);
      const MwuPacking packing = pack_by_weights(links, root, {});
      CHECK(packing.rate >= (1 - packing.epsilon) * optimum);
      CHECK(packing.rate <= optimum * (1 + 1e-9));
      CHECK(packing.bound >= optimum * (1 - 1e-9));
      CHECK(fullest(links, packing) <= 1 + 1e-9);
    }
  }
}

TEST_CASE("a smaller epsilon takes more iterations and gets closer") {
  const Links links(topology::preset("mi250x"));
  const MwuPacking rough = pack_by_weights(links, 0, {0.2, 100000});
  const MwuPacking fine = pack_by_weights(links, 0, {0.02, 100000});
  CHECK(fine.iterations > rough.iterations);
  CHECK(fine.rate > rough.rate);
  CHECK(fine.rate >= 0.98 * 6);
  CHECK(fine.trees.size() > 6);  // more than the fewest, which is why Blink selects
}

TEST_CASE("switches, shared sets and capacities in GB/s are packed alike") {
  for (const char* name : {"dgx2", "pcie8", "z52-full", "nvpairs4", "2*dgx-a100"})
    for (const CapacityUnit unit : {CapacityUnit::lanes, CapacityUnit::gbytes_per_s}) {
      INFO(name);
      const Links links(topology::preset(name), unit);
      const MwuPacking packing = pack_by_weights(links, 0, {});
      CHECK(packing.rate >= (1 - packing.epsilon) * packing.bound);
      CHECK(fullest(links, packing) <= 1 + 1e-9);
    }
}

TEST_CASE("candidates are thinned out to a few trees with at most a threshold of loss") {
  for (const char* name : {"dgx1p", "dgx1v", "mi250x", "2*dgx1v"}) {
    INFO(name);
    const Links links(topology::preset(name));
    const double optimum = to_double(broadcast_bound(links, 0).rate);
    const MwuPacking packing = pack_by_weights(links, 0, {});
    const SelectedTrees few = select_candidates(links, packing.trees, packing.rate, 0.05);
    CHECK(few.rate >= 0.95 * packing.rate);
    CHECK(few.rate <= optimum);
    CHECK(few.trees.size() <= packing.trees.size());
    std::vector<Amount> load(links.capacities().size(), 0);
    for (const WholeTree& tree : few.trees)
      for (const Use& use : links.uses(tree.tree))
        load[static_cast<std::size_t>(use.capacity)] += tree.weight * use.times;
    for (std::size_t index = 0; index < load.size(); ++index)
      CHECK(load[index] <= links.capacities()[index].amount * few.scale);
  }
}

TEST_CASE("no root, no way, no accuracy: each is refused") {
  const Links links(topology::preset("dgx1v"));
  CHECK_THROWS_AS(pack_by_weights(links, 8, {}), Error);
  CHECK_THROWS_AS(pack_by_weights(links, 0, {0, 100}), Error);
  CHECK_THROWS_AS(pack_by_weights(links, 0, {1, 100}), Error);
  CHECK_THROWS_AS(pack_by_weights(links, 0, {0.001, 10}), Error);  // not in ten iterations
  CHECK_THROWS_AS(pack_by_weights(Links(topology::host(1)), 0, {}), Error);
}
