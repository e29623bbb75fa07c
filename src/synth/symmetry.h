// Groups of rank permutations that preserve a problem's hops and capacities.
//
// A schedule that such a group maps onto itself is determined by one chunk of each orbit, which shrinks the search by
// the group's order. Only groups that act freely on the chunks are used: otherwise a chunk's own route would have to be
// symmetric. There are two kinds. Groups without fixed ranks (every element but the identity moves every rank) serve
// collectives in which all ranks are alike. Groups that fix the root permute the pieces of its chunks.
#pragma once

#include <vector>

#include "synth/problem.h"

namespace sccl::synth {

using Permutation = std::vector<int>;

struct Group {
  std::vector<Permutation> ranks;  // by element; ranks[0] is the identity

  int order() const { return static_cast<int>(ranks.size()); }
};

// A group, its action on hops and capacities, and its orbits of chunks.
struct Action {
  Group group;
  std::vector<Permutation> hops;        // by element
  std::vector<Permutation> capacities;  // by element

  // An orbit of chunks: element g maps the chunk `representative` to images[g].
  struct Piece {
    int commodity = 0;
    int piece = 0;
  };
  struct Orbit {
    Piece representative;
    std::vector<Piece> images;  // by element; images[0] is the representative
  };
  std::vector<Orbit> orbits;
};

// Groups of the problem that are worth trying, without the trivial group. The search is cut short on large symmetric
// problems: every group found is correct, but some may be missing. The groups do not depend on the number of pieces.
std::vector<Group> groups(const Problem& problem);

// The actions of the groups that act freely on the problem's chunks, largest group first, the trivial group last.
std::vector<Action> actions(const Problem& problem, std::vector<Group> groups);

}  // namespace sccl::synth
