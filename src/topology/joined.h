// Whether a job's devices reach one another, and which devices of a machine its ranks take.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

// Links lead from every rank to every other, over switches or ranks that forward.
bool joined(const Topology& topology);

// What is left of a machine for some of its devices: subset() or part_of().
using Part = std::function<Topology(std::span<const int> devices)>;

struct Places {
  std::vector<int> devices;  // by rank; empty: no links serve these ranks
  std::string remark;        // what a user should know: why not the first devices, or why none
};

// `inherited` are devices that the ranks have already, negative where they have none: kept when there is one for every
// rank. Else the first devices of the machine if these are joined, else a neighbourhood of the first device that has
// one so large, ascending. O(devices x links) at worst.
Places places_on(const Topology& machine, std::span<const int> inherited, const Part& part);

}  // namespace sccl::topology
