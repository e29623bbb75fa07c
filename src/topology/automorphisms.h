// Symmetries of a topology. The groups under which synthesis looks for schedules are its own (synth/symmetry.h): they
// keep less, namely the capacities of hops, and may fix a root.
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

// (after * before)[node] = after[before[node]].
Permutation compose(const Permutation& after, const Permutation& before);
Permutation inverse(const Permutation& permutation);

}  // namespace sccl::topology
