// Symmetries of a topology, and groups of them that move every rank: schedules that repeat under such a group are found
// much faster, because one chunk stands for its whole orbit.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "topology/labelled_graph.h"

namespace sccl::topology {

// Where each node goes. Ranks go to ranks, switches to switches, links and shared sets to ones with equal lanes and
// class.
using Permutation = std::vector<Node>;

struct Automorphisms {
  std::vector<Permutation> all;  // the identity first, then ascending
  bool complete = true;          // false: there are more than the bound; then `all` need not be a group
};

// Time grows with the number found: about one refinement each.
Automorphisms automorphisms(const Topology& topology, std::size_t at_most = 4096, Figures figures = Figures::ignored);

// One that moves rank `from` to rank `to`; nothing when there is none.
std::optional<Permutation> automorphism_moving(const Topology& topology, Rank from, Rank to,
                                               Figures figures = Figures::ignored);

// A group of automorphisms of which only the identity leaves a rank where it is (semiregular on the ranks; regular when
// its order is the number of ranks). Its order divides the number of ranks.
struct FreeGroup {
  std::vector<Permutation> elements;  // the identity first, then ascending
};

struct FreeGroupLimits {
  std::size_t groups = 32;           // most groups returned
  std::size_t automorphisms = 2048;  // looked at; symmetric machines have many more
};

// Largest first, without the trivial group; not all of them where limits are met, but always some of those that rotate
// or exchange blocks of ranks, where the topology allows that.
std::vector<FreeGroup> free_groups(const Topology& topology, const FreeGroupLimits& limits = {},
                                   Figures figures = Figures::ignored);

// The group's sets of ranks that it moves to each other, each ascending.
std::vector<std::vector<Rank>> rank_orbits(const FreeGroup& group, int ranks);

// (after * before)[node] = after[before[node]].
Permutation compose(const Permutation& after, const Permutation& before);
Permutation inverse(const Permutation& permutation);

}  // namespace sccl::topology
