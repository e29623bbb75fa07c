#include "compose/form/tree.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <numeric>

namespace sccl::compose {
namespace {

int power(int base, int exponent) {
  int result = 1;
  for (; exponent > 0; --exponent) result *= base;
  return result;
}

// Rounded up.
int root_of(int members, int exponent) {
  int root = 1;
  while (power(root, exponent) < members) ++root;
  return root;
}

Tree root_only(int members) {
  Tree tree;
  tree.parent.assign(static_cast<std::size_t>(members), -1);
  tree.step.assign(static_cast<std::size_t>(members), -1);
  return tree;
}

// `place` gives parent and step of every position but 0.
template <typename Place>
Tree by_rule(int members, Place&& place) {
  Tree tree = root_only(members);
  for (int position = 1; position < members; ++position) {
    const auto [parent, step] = place(position);
    tree.parent[static_cast<std::size_t>(position)] = parent;
    tree.step[static_cast<std::size_t>(position)] = step;
  }
  index_children(tree);
  return tree;
}

// An in-order binary tree over positions low..high. The root of a range is its number with the most trailing zeros, so
// odd positions are leaves.
void hang(Tree& tree, int low, int high, int parent, int step) {
  if (low > high) return;
  int root = low;
  for (int at = low; at <= high; ++at)
    if (std::countr_zero(static_cast<unsigned>(at)) > std::countr_zero(static_cast<unsigned>(root))) root = at;
  tree.parent[static_cast<std::size_t>(root)] = parent;
  tree.step[static_cast<std::size_t>(root)] = step;
  hang(tree, low, root - 1, root, step + 1);
  hang(tree, root + 1, high, root, step + 1);
}

// The second tree renames positions so that the even ones become odd.
std::vector<Tree> two_trees(int members) {
  const int last = members - 1;
  Tree first = root_only(members);
  hang(first, 1, last, 0, 0);
  Tree second = root_only(members);
  const auto renamed = [&](int position) {
    if (position <= 0) return position;
    return last % 2 == 0 ? members - position : position % last + 1;
  };
  for (int position = 1; position < members; ++position) {
    const auto from = static_cast<std::size_t>(position);
    const auto to = static_cast<std::size_t>(renamed(position));
    second.parent[to] = renamed(first.parent[from]);
    second.step[to] = first.step[from];
  }
  index_children(first);
  index_children(second);
  return {std::move(first), std::move(second)};
}

// Members take places for children in turn; those of one tree with the most places come first. Position i of that order
// hangs on the owner of place i - 1, which comes before it, since every owner has a place.
Tree wide_tree(int members, int degree, int number) {
  const int others = members - 1;
  const int first_place = number * (others - 1);
  std::vector<std::pair<int, int>> owners;  // places in this tree, member
  for (int place = first_place; place < first_place + others - 1; ++place) {
    if (owners.empty() || owners.back().second != place / degree) owners.emplace_back(0, place / degree);
    ++owners.back().first;
  }
  std::stable_sort(owners.begin(), owners.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int> order;
  std::vector<bool> owns(static_cast<std::size_t>(others), false);
  for (const auto& [places, member] : owners) {
    order.push_back(member);
    owns[static_cast<std::size_t>(member)] = true;
  }
  for (int member = 0; member < others; ++member)
    if (!owns[static_cast<std::size_t>(member)]) order.push_back(member);
  Tree tree = root_only(members);
  const auto hang_on = [&](int member, int parent) {
    tree.parent[static_cast<std::size_t>(member + 1)] = parent;
    tree.step[static_cast<std::size_t>(member + 1)] = tree.step[static_cast<std::size_t>(parent)] + 1;
  };
  hang_on(order.front(), 0);
  std::size_t next = 1;
  for (const auto& [places, member] : owners)
    for (int place = 0; place < places; ++place) hang_on(order[next++], member + 1);
  index_children(tree);
  return tree;
}

// A position's parent is the position without its highest digit.
Tree by_digits(int members, int base) {
  return by_rule(members, [base](int position) {
    int digit = 0;
    int unit = 1;
    for (; position / unit >= base; unit *= base) ++digit;
    return std::pair(position % unit, digit);
  });
}

// A position's parent is the position without its lowest digit: those far from the root come first.
Tree by_digits_from_afar(int members, int base) {
  int digits = 0;
  for (int unit = 1; unit < members; unit *= base) ++digits;
  return by_rule(members, [=](int position) {
    int digit = 0;
    int unit = 1;
    for (; position / unit % base == 0; unit *= base) ++digit;
    return std::pair(position - position / unit % base * unit, digits - 1 - digit);
  });
}

Tree grid(int members) {
  const int columns = root_of(members, 2);
  return by_rule(members, [columns](int position) {
    const int row = position / columns;
    const int column = position % columns;
    return std::pair(column == 0 ? position - columns : position - 1, row + column - 1);
  });
}

std::vector<Tree> wide_trees(int members, int degree) {
  if (members < 2) return {by_rule(members, [](int) { return std::pair(0, 0); })};
  std::vector<Tree> result;
  for (int number = 0; number < degree; ++number) result.push_back(wide_tree(members, degree, number));
  return result;
}

}  // namespace

int Tree::most_children() const {
  int most = 0;
  for (std::size_t position = 0; position + 1 < first.size(); ++position)
    most = std::max(most, first[position + 1] - first[position]);
  return most;
}

std::string_view name(Shape shape) {
  switch (shape) {
    case Shape::ring:
      return "ring";
    case Shape::doubling:
      return "doubling";
    case Shape::quadrupling:
      return "quadrupling";
    case Shape::two_steps:
      return "two-steps";
    case Shape::three_steps:
      return "three-steps";
    case Shape::direct:
      return "direct";
    case Shape::grid:
      return "grid";
    case Shape::two_trees:
      return "two-trees";
    case Shape::trees_2_deep:
      return "trees-2-deep";
    case Shape::trees_3_deep:
      return "trees-3-deep";
    case Shape::trees_4_deep:
      return "trees-4-deep";
    case Shape::trees_5_deep:
      return "trees-5-deep";
  }
  return "";
}

void index_children(Tree& tree) {
  const auto members = static_cast<std::size_t>(tree.size());
  tree.steps = 0;
  tree.first.assign(members + 1, 0);
  for (std::size_t position = 0; position < members; ++position) {
    tree.steps = std::max(tree.steps, tree.step[position] + 1);
    if (const int parent = tree.parent[position]; parent >= 0 && parent < tree.size())
      ++tree.first[static_cast<std::size_t>(parent) + 1];
  }
  std::partial_sum(tree.first.begin(), tree.first.end(), tree.first.begin());
  std::vector<int> order(members);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return tree.step[static_cast<std::size_t>(a)] < tree.step[static_cast<std::size_t>(b)];
  });
  std::vector<int> next(tree.first);
  tree.children.assign(static_cast<std::size_t>(tree.first.back()), 0);
  for (const int position : order)
    if (const int parent = tree.parent[static_cast<std::size_t>(position)]; parent >= 0 && parent < tree.size())
      tree.children[static_cast<std::size_t>(next[static_cast<std::size_t>(parent)]++)] = position;
}

Tree one_by_one(Tree tree) {
  std::vector<int> turn(tree.step.size(), 0);
  for (std::size_t parent = 0; parent + 1 < tree.first.size(); ++parent)
    for (int at = tree.first[parent] + 1; at < tree.first[parent + 1]; ++at) {
      const auto child = static_cast<std::size_t>(tree.children[static_cast<std::size_t>(at)]);
      const auto before = static_cast<std::size_t>(tree.children[static_cast<std::size_t>(at) - 1]);
      if (tree.step[child] == tree.step[before]) turn[child] = turn[before] + 1;
      tree.turns = std::max(tree.turns, turn[child] + 1);
    }
  for (std::size_t position = 1; position < turn.size(); ++position)
    tree.step[position] = tree.turns * tree.step[position] + turn[position];
  index_children(tree);
  return tree;
}

// As the others turn round, each of them has all positions: all pass on as much. One leaf is the last of a ring.
Tree with_leaves(const Tree& tree, int leaves) {
  Tree result = tree;
  const std::int64_t members = tree.size();
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    const std::int64_t parent = members - 1 - leaf * members / leaves;
    result.parent.push_back(static_cast<int>(parent));
    result.step.push_back(tree.step[static_cast<std::size_t>(parent)] + 1);
  }
  index_children(result);
  return result;
}

int base_of(Shape shape, int members) {
  if (shape == Shape::doubling) return 2;
  if (shape == Shape::quadrupling) return 4;
  if (shape == Shape::two_steps) return std::max(2, root_of(members, 2));
  return shape == Shape::three_steps ? std::max(2, root_of(members, 3)) : 0;
}

int children_of(Shape shape, int members) {
  const auto wide = std::ranges::find(kWideShapes, shape);
  if (wide == std::end(kWideShapes)) return 1;
  const auto depth = 2 + (wide - std::begin(kWideShapes));
  for (int degree = 1;; ++degree) {
    std::int64_t reached = 0;  // the root has one child
    std::int64_t level = 1;
    for (std::ptrdiff_t step = 0; step < depth && reached < members; ++step, level *= degree) reached += level;
    if (reached >= members - 1) return degree;
  }
}

std::vector<Tree> trees(Shape shape, int members) {
  switch (shape) {
    case Shape::ring:
      return {by_rule(members, [](int position) { return std::pair(position - 1, position - 1); })};
    case Shape::doubling:
    case Shape::quadrupling:
      return {by_digits(members, base_of(shape, members))};
    case Shape::two_steps:
    case Shape::three_steps:
      return {by_digits_from_afar(members, base_of(shape, members))};
    case Shape::direct:
      return {by_rule(members, [](int) { return std::pair(0, 0); })};
    case Shape::grid:
      return {grid(members)};
    case Shape::two_trees:
      return two_trees(members);
    case Shape::trees_2_deep:
    case Shape::trees_3_deep:
    case Shape::trees_4_deep:
    case Shape::trees_5_deep:
      return wide_trees(members, children_of(shape, members));
  }
  return {};
}

}  // namespace sccl::compose
