// The shapes in which members of a group pass data on: trees over positions; position 0 is the root.
//
// A member's position is its distance from the root member round the group. So one shape serves every root, and all
// roots together load all members equally: the ring, doubling and direct trees of all roots are the ring AllGather,
// Bruck's AllGather (recursive doubling for any number of members) and the direct exchange. Read backwards they are the
// matching ReduceScatters; halving is doubling read backwards. Quadrupling is doubling with three messages in a step,
// to members at distances 1, 2 and 3, then 4, 8 and 12, and so on: half as many steps. Two steps and three steps are
// like it, with as many messages in a step as that takes, and the longest distances first: so the members that pass on
// one chunk are spread over all, and those of the next chunk are others. A grid lays the members out in rows: data goes
// down the first column from row to row, and from there along each row. That has about 2 sqrt(members) steps, and like
// in a ring every member passes on one or two messages at a time.
#pragma once

#include <string_view>
#include <vector>

namespace sccl::compose {

struct Tree {
  std::vector<int> parent;    // by position; -1 at position 0
  std::vector<int> step;      // by position: the step in which it receives from its parent; -1 at position 0
  int steps = 0;              // one more than the last step
  int turns = 1;              // so many steps stand for one, in which members send to several others
  std::vector<int> first;     // by position: index of its first child in `children`; one more entry at the end
  std::vector<int> children;  // ascending by step

  int steps_at_once() const { return (steps + turns - 1) / turns; }
  int size() const { return static_cast<int>(parent.size()); }
  int most_children() const;
  bool operator==(const Tree&) const = default;
};

enum class Shape {
  ring,
  doubling,
  quadrupling,
  two_steps,
  three_steps,
  direct,
  grid,
  two_trees,
  trees_2_deep,
  trees_3_deep,
  trees_4_deep,
  trees_5_deep
};

// The shapes named for their depth.
inline constexpr Shape kWideShapes[] = {Shape::trees_2_deep, Shape::trees_3_deep, Shape::trees_4_deep,
                                        Shape::trees_5_deep};

std::string_view name(Shape shape);

// Whether members pass data on to one or two others, so that the messages of many steps are under way together.
inline bool is_chain(Shape shape) { return shape == Shape::ring || shape == Shape::grid; }

// The trees that a group of `members` uses in turn. One tree; for two_trees two binary trees: every member but the root
// sends in at most one of them, so no member sends more than it receives (Sanders, Speck and Traeff). Their depth is at
// most log2(members) + 1 steps. trees_2_deep and so on are the same with k trees in which members have k children: a
// member has k places for children, and the trees take places one after the other, so that all trees together fill no
// place twice. k is the least with which the trees are no deeper than the shape's name says.
std::vector<Tree> trees(Shape shape, int members);

// The tree with so many members more, which get the data last: after its own ones, and hung evenly on these.
Tree with_leaves(const Tree& tree, int leaves);

// In each step of such a shape the number of members that have the data grows so many times. Of two_steps and
// three_steps: the least number whose second or third power is at least `members`. 0 for other shapes.
int base_of(Shape shape, int members);

// k of trees_2_deep and so on; 1 for other shapes.
int children_of(Shape shape, int members);

// A tree with `turns` of 1, with a step of its own for each child of a member. If all hosts went through their chunks
// in the order of the chunks' numbers, they would all send to the first root's host at once, then to the next one. So
// each step has one distance: all send to different hosts.
Tree one_by_one(Tree tree);

// Fills steps, first and children from parent and step.
void index_children(Tree& tree);

}  // namespace sccl::compose
