// Where islands stand in trees: never beside another one of their host.
#include "portfolio/links/islands_apart.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

using namespace sccl;

namespace {

int pairs_of_one_host(const std::vector<int>& order, const std::vector<compose::Tree>& trees) {
  int pairs = 0;
  for (const compose::Tree& tree : trees)
    for (std::size_t position = 1; position < order.size(); ++position)
      pairs += order[position] / 2 == order[static_cast<std::size_t>(tree.parent[position])] / 2 ? 1 : 0;
  return pairs;
}

}  // namespace

TEST_CASE("no island passes data on to another one of its host, whatever the tree and its root") {
  for (const compose::Shape shape : {compose::Shape::ring, compose::Shape::two_trees, compose::Shape::trees_2_deep,
                                     compose::Shape::trees_3_deep, compose::Shape::trees_5_deep})
    for (const int hosts : {4, 5, 8, 16, 64, 256}) {
      std::vector<int> host_of(static_cast<std::size_t>(2 * hosts));
      for (std::size_t island = 0; island < host_of.size(); ++island) host_of[island] = static_cast<int>(island / 2);
      const std::vector<compose::Tree> trees = compose::trees(shape, 2 * hosts);
      std::vector<int> order(host_of.size());
      std::iota(order.begin(), order.end(), 0);
      for (const int root : {0, 1, hosts, 2 * hosts - 1}) {
        const auto [placed, apart] =
            portfolio::islands_apart(order, root, trees, host_of, portfolio::Returns::from_last);
        INFO(compose::name(shape) << " of " << hosts << " hosts, root " << root);
        CHECK(placed.front() == root);
        CHECK(std::ranges::is_permutation(placed, order));
        CHECK(apart == (shape != compose::Shape::trees_2_deep));  // there everyone is beside everyone
        if (!apart) continue;
        CHECK(placed.back() / 2 != root / 2);  // it gives back to the root's devices
        CHECK(pairs_of_one_host(placed, trees) == 0);
      }
    }
}

TEST_CASE("islands of a single host stay where they are, and are not apart") {
  const auto [placed, apart] =
      portfolio::islands_apart({1, 0}, 0, compose::trees(compose::Shape::ring, 2), {0, 0}, portfolio::Returns::none);
  CHECK(placed == std::vector<int>{0, 1});
  CHECK(!apart);
}
