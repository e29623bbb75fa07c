// The same numbering for all topologies that differ only in how their nodes are numbered: jobs on equivalent devices
// share what was planned for one of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "topology/labelled_graph.h"

namespace sccl::topology {

struct CanonicalForm {
  std::string text;          // equal exactly for isomorphic topologies (when both are `exact`)
  std::string key;           // 128 bits of it in hexadecimal
  std::vector<Node> number;  // canonical number of each node; ranks stay below switches
  bool exact = true;         // false: the search was cut off, and an isomorphic topology may get another text
};

// Names, ids of devices and, unless compared, gbytes_per_s and alpha_us do not count. Practically linear for the
// machines there are; gives up being exact after a bounded number of steps for graphs made to be hard.
CanonicalForm canonical_form(const Topology& topology, Figures figures = Figures::ignored);

// The topology with node v renamed to number[v], links and shared sets sorted. Ranks must stay below switches.
Topology relabelled(const Topology& topology, std::span<const Node> number);

// Subsets of a machine's devices that are the same graph.
struct SubsetClass {
  std::vector<int> devices;  // the first such subset, lexicographically
  long long subsets = 0;     // how many there are
  std::string key;           // of its canonical form
};

// What a scheduler may leave a job, up to isomorphism: the classes of subsets of `smallest` to `largest` devices that
// the machine's own links (nvlink and xgmi; all links where there are none) join, by size, then by first subset.
// Throws invalid_argument when there are too many subsets to look at.
std::vector<SubsetClass> subset_classes(const Topology& topology, int smallest, int largest);

}  // namespace sccl::topology
