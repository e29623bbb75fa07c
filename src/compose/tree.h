// The shapes in which the members of a group pass something on: trees over positions, position 0 being the root.
//
// A member's position is its distance from the root member round the group, so that one shape serves every root and
// all roots together load all members alike: the ring, doubling and direct trees of all roots are the ring AllGather,
// Bruck's AllGather (recursive doubling for any number of members) and the direct exchange. Read backwards they are
// their ReduceScatters; halving is doubling read backwards.
#pragma once

#include <string_view>
#include <vector>

namespace sccl::compose {

struct Tree {
  std::vector<int> parent;    // by position; -1 at position 0
  std::vector<int> step;      // by position: when it hears from its parent; -1 at position 0
  int steps = 0;              // one more than the last of them
  std::vector<int> first;     // by position, of its children in `children`; one more at the end
  std::vector<int> children;  // ascending by step

  int size() const { return static_cast<int>(parent.size()); }
};

enum class Shape { ring, doubling, direct, two_trees };

std::string_view name(Shape shape);

// The trees a group of `members` uses in turn: one, or of two_trees two binary ones in which every member but the root
// passes data on in at most one, so that nobody sends more than it receives (Sanders, Speck and Traeff). Deep ones of
// at most log2(members) + 1 steps.
std::vector<Tree> trees(Shape shape, int members);

// Fills steps, first and children from parent and step.
void index_children(Tree& tree);

}  // namespace sccl::compose
