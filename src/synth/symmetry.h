// Groups of permutations of the ranks that leave a problem's hops and capacities as they are.
//
// A schedule that such a group maps onto itself is known from one chunk of each orbit, which shrinks the search by the
// group's order. Only groups that act freely on the chunks are of use here: otherwise a chunk's own route would have to
// be symmetric. They come in two kinds: groups without fixed ranks (every element but the identity moves every rank)
// serve the collectives in which all ranks are alike; groups that fix the root permute the pieces of its chunks.
#pragma once

#include <vector>

#include "synth/problem.h"

namespace sccl::synth {

using Permutation = std::vector<int>;

struct Group {
  std::vector<Permutation> ranks;  // elements[0] is the identity

  int order() const { return static_cast<int>(ranks.size()); }
};

// A group, what it does to hops and capacities, and the chunk each chunk is an image of.
struct Action {
  Group group;
  std::vector<Permutation> hops;        // by element
  std::vector<Permutation> capacities;  // by element

  // The orbits of chunks: `representative` is the chunk of commodity and piece, and element g maps it to images[g].
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

// Groups of a problem worth trying, without the trivial one. The search is cut short on large symmetric problems, so
// the groups are right but need not be all there are. They do not depend on the number of pieces.
std::vector<Group> groups(const Problem& problem);

// What those groups that act freely on the problem's chunks do, largest first, the trivial group last.
std::vector<Action> actions(const Problem& problem, std::vector<Group> groups);

}  // namespace sccl::synth
