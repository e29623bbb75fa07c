// A packed tree as `sccl pack` prints it, with --json and without, for one machine and for clusters.
#pragma once

#include <nlohmann/json.hpp>

#include "treegen/packing/pack.h"

namespace sccl::tools {

// {"root", "weight", "weight_exact", "depth", "edges": [[parent, child], ...]}; "in_edges" too if data is reduced over
// other edges than it is copied over.
nlohmann::json tree_of(const treegen::Route& route, const treegen::Rational& weight);

// A line: weight, root, and edges as parent-child.
void print_tree(const treegen::Route& route, const treegen::Rational& weight);

}  // namespace sccl::tools
