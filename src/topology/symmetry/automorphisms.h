// Symmetries of a topology. Synthesis uses other groups (synth/symmetry.h): these preserve only the capacities of hops,
// and may fix a root.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "topology/symmetry/labelled_graph.h"

namespace sccl::topology {

// By node: its image. Ranks map to ranks, switches to switches, links and shared sets to ones with equal lanes and
// class.
using Permutation = std::vector<Node>;

struct Automorphisms {
  std::vector<Permutation> all;  // the identity first, then ascending
  bool complete = true;          // false: more exist than the bound allows; then `all` need not be a group
};

// Time: about one refinement for each automorphism found.
Automorphisms automorphisms(const Topology& topology, std::size_t at_most = 4096, Figures figures = Figures::ignored);

struct AutomorphismCount {
  std::size_t found = 0;
  bool complete = true;  // false: there are more than `found`
};

// How many automorphisms() finds. Takes no time for their number where nodes with equal neighbours tell that there are
// more.
AutomorphismCount count_automorphisms(const Topology& topology, std::size_t at_most = 4096,
                                      Figures figures = Figures::ignored);

// An automorphism that moves rank `from` to rank `to`; nothing when none exists.
std::optional<Permutation> automorphism_moving(const Topology& topology, Rank from, Rank to,
                                               Figures figures = Figures::ignored);

// (after * before)[node] = after[before[node]].
Permutation compose(const Permutation& after, const Permutation& before);
Permutation inverse(const Permutation& permutation);

}  // namespace sccl::topology
