// Canonical numbering: all topologies that differ only in the numbers of their nodes get the same form. Jobs on
// equivalent devices can thus share one job's schedules.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "topology/symmetry/labelled_graph.h"

namespace sccl::topology {

struct CanonicalForm {
  std::string text;          // equal exactly for isomorphic topologies (when both are `exact`)
  std::string key;           // a hash of `text`: 128 bits in hexadecimal
  std::vector<Node> number;  // canonical number of each node; ranks stay below switches
  bool exact = true;         // false: the search was cut off, so an isomorphic topology may get another text
};

// Ignores names and device ids; ignores gbytes_per_s and alpha_us unless `figures` is compared. Time is almost linear
// for real machines. For graphs made to be hard, the search stops after a bounded number of steps, and the form is not
// exact.
CanonicalForm canonical_form(const Topology& topology, Figures figures = Figures::ignored);

// The topology with node v renamed to number[v], links and shared sets sorted. Ranks must stay below switches.
Topology relabelled(const Topology& topology, std::span<const Node> number);

// Subsets of a machine's devices that form isomorphic graphs.
struct SubsetClass {
  std::vector<int> devices;  // the first such subset, lexicographically
  long long subsets = 0;     // number of subsets in the class
  std::string key;           // key of their canonical form
};

// Classes of isomorphic device subsets that a cluster scheduler may give to a job. Counts the subsets of `smallest` to
// `largest` devices that the machine's own links join (nvlink and xgmi; all links where the machine has neither).
// Sorted by size, then by first subset. Throws invalid_argument when there are too many subsets to enumerate.
std::vector<SubsetClass> subset_classes(const Topology& topology, int smallest, int largest);

}  // namespace sccl::topology
