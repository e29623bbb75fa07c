// The trees in which members of a group pass data on.
#include "compose/form/tree.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "compose/form/rack_trees.h"

namespace sccl {
namespace {

TEST_CASE("quadrupling reaches all members in half as many steps as doubling, each once") {
  for (const int members : {1, 2, 3, 4, 5, 16, 17, 63, 64, 100, 257}) {
    const compose::Tree tree = compose::trees(compose::Shape::quadrupling, members).front();
    const compose::Tree doubling = compose::trees(compose::Shape::doubling, members).front();
    INFO(members << " members");
    CHECK(tree.steps == (doubling.steps + 1) / 2);
    for (int position = 1; position < members; ++position) {
      const int parent = tree.parent[static_cast<std::size_t>(position)];
      REQUIRE((parent >= 0 && parent < position));
      CHECK(tree.step[static_cast<std::size_t>(parent)] < tree.step[static_cast<std::size_t>(position)]);
    }
  }
}

TEST_CASE("two steps and three steps are enough for all members, with as few messages to each distance as that takes") {
  for (const auto& [shape, steps] :
       {std::pair(compose::Shape::two_steps, 2), std::pair(compose::Shape::three_steps, 3)})
    for (const int members : {1, 2, 3, 5, 17, 64, 65, 100, 256, 257}) {
      const compose::Tree tree = compose::trees(shape, members).front();
      const int base = compose::base_of(shape, members);
      INFO(members << " members, base " << base);
      CHECK(std::pow(base, steps) >= members);
      CHECK((base == 2 || std::pow(base - 1, steps) < members));
      CHECK(tree.steps <= steps);
      for (int position = 1; position < members; ++position) {
        const int parent = tree.parent[static_cast<std::size_t>(position)];
        REQUIRE((parent >= 0 && parent < position));
        CHECK(tree.step[static_cast<std::size_t>(parent)] < tree.step[static_cast<std::size_t>(position)]);
      }
      CHECK(tree.most_children() <= steps * (base - 1));
    }
}

TEST_CASE("in a grid data goes down the first column and along each row") {
  CHECK(compose::trees(compose::Shape::grid, 8).front().parent == std::vector<int>{-1, 0, 1, 0, 3, 4, 3, 6});
  for (const int members : {1, 2, 5, 17, 64, 100, 257}) {
    const compose::Tree tree = compose::trees(compose::Shape::grid, members).front();
    INFO(members << " members");
    CHECK(tree.steps <= 2 * std::ceil(std::sqrt(members)) - 2);
    CHECK(tree.most_children() <= 2);
    for (int position = 1; position < members; ++position) {
      const auto at = static_cast<std::size_t>(position);
      REQUIRE((tree.parent[at] >= 0 && tree.parent[at] < position));
      CHECK(tree.step[at] == tree.step[static_cast<std::size_t>(tree.parent[at])] + 1);
    }
  }
}

TEST_CASE("with several trees no member sends more than it receives, and none is deeper than the shape's name says") {
  for (const auto& [shape, depth] :
       {std::pair(compose::Shape::trees_2_deep, 2), std::pair(compose::Shape::trees_3_deep, 3),
        std::pair(compose::Shape::trees_4_deep, 4), std::pair(compose::Shape::trees_5_deep, 5)})
    for (const int members : {1, 2, 3, 4, 5, 8, 9, 16, 17, 63, 64, 100, 256, 257}) {
      const int degree = compose::children_of(shape, members);
      INFO(members << " members, degree " << degree);
      const auto trees = compose::trees(shape, members);
      REQUIRE(static_cast<int>(trees.size()) == std::max(1, std::min(degree, members - 1)));
      std::vector<std::size_t> sends(static_cast<std::size_t>(members), 0);
      for (const compose::Tree& tree : trees) {
        std::size_t reached = 0;
        for (int position = 0; position < members; ++position) {
          const auto at = static_cast<std::size_t>(position);
          sends[at] += static_cast<std::size_t>(tree.first[at + 1] - tree.first[at]);
          if (position == 0) continue;
          REQUIRE(tree.parent[at] >= 0);
          CHECK(tree.step[at] == tree.step[static_cast<std::size_t>(tree.parent[at])] + 1);
          ++reached;
        }
        CHECK(reached == static_cast<std::size_t>(members - 1));
        CHECK(tree.most_children() <= degree);
        CHECK(tree.steps <= depth);
      }
      for (const std::size_t one : sends) CHECK(one <= trees.size());
    }
}

TEST_CASE("leaves hang evenly on the other members, which stand as without them") {
  for (const compose::Shape shape : {compose::Shape::ring, compose::Shape::doubling, compose::Shape::grid})
    for (const int members : {1, 2, 7, 20})
      for (const int leaves : {0, 1, 3, 20, 50}) {
        const compose::Tree tree = compose::trees(shape, members).front();
        const compose::Tree more = compose::with_leaves(tree, leaves);
        INFO(members << " members and " << leaves << " leaves in shape " << compose::name(shape));
        REQUIRE(more.size() == members + leaves);
        CHECK(std::equal(tree.parent.begin(), tree.parent.end(), more.parent.begin()));
        CHECK(std::equal(tree.step.begin(), tree.step.end(), more.step.begin()));
        std::vector<int> hung(static_cast<std::size_t>(members), 0);
        for (std::size_t leaf = tree.parent.size(); leaf < more.parent.size(); ++leaf) {
          const int parent = more.parent[leaf];
          REQUIRE((parent >= 0 && parent < members));
          CHECK(more.step[leaf] > tree.step[static_cast<std::size_t>(parent)]);
          ++hung[static_cast<std::size_t>(parent)];
        }
        const auto [least, most] = std::minmax_element(hung.begin(), hung.end());
        CHECK(*most - *least <= 1);
      }
}

TEST_CASE("trees of racks send data into each rack once, and load hosts and racks evenly") {
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{{1, 1},
                                                                     {2, 2},
                                                                     {4, 4, 4},
                                                                     {1, 2, 4},
                                                                     {5, 1, 1, 3},
                                                                     {3, 3, 3, 3, 3},
                                                                     {8, 8, 8, 8, 8, 8, 8, 8},
                                                                     {1, 7, 2, 1}}) {
    std::vector<int> rack_of;
    for (std::size_t rack = 0; rack < sizes.size(); ++rack)
      rack_of.insert(rack_of.end(), static_cast<std::size_t>(sizes[rack]), static_cast<int>(rack));
    const auto rack = [&](int position) {
      return static_cast<std::size_t>(rack_of[static_cast<std::size_t>(position)]);
    };
    std::vector<int> sends(rack_of.size(), 0);        // of a host, in both trees
    std::vector<int> sends_of_rack(sizes.size(), 0);  // to other racks
    const std::vector<compose::Tree> both = compose::trees_of_racks(sizes);
    REQUIRE(both.size() == 2);
    for (const compose::Tree& tree : both) {
      REQUIRE(tree.size() == static_cast<int>(rack_of.size()));
      CHECK(tree.parent.front() == -1);
      std::vector<int> arrivals(sizes.size(), 0);
      for (int position = 1; position < tree.size(); ++position) {
        const auto at = static_cast<std::size_t>(position);
        const int parent = tree.parent[at];
        REQUIRE((parent >= 0 && parent < tree.size()));
        CHECK(tree.step[at] > tree.step[static_cast<std::size_t>(parent)]);
        ++sends[static_cast<std::size_t>(parent)];
        if (rack(parent) == rack(position)) continue;
        ++sends_of_rack[rack(parent)];
        ++arrivals[rack(position)];
      }
      CHECK(arrivals.front() == 0);
      CHECK(std::all_of(arrivals.begin() + 1, arrivals.end(), [](int times) { return times == 1; }));
    }
    CHECK(*std::max_element(sends.begin(), sends.end()) <= 2);
    CHECK(sends.front() == 2);
    CHECK(*std::max_element(sends_of_rack.begin(), sends_of_rack.end()) <= 2);
  }
}

TEST_CASE("the way over trees of racks grows with the logarithms of racks and hosts") {
  for (const compose::Tree& tree : compose::trees_of_racks(std::vector<int>(64, 16))) CHECK(tree.steps <= 2 * 7 + 5);
}

}  // namespace
}  // namespace sccl
