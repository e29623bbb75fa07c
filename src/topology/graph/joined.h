// Whether a job's devices reach one another, and which devices of a machine its ranks take.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace sccl::topology {

// True if links lead from every rank to every other rank, over switches or over ranks that forward.
bool joined(const Topology& topology);

// Reduces a machine to some of its devices: subset() or part_of().
using Part = std::function<Topology(std::span<const int> devices)>;

struct Places {
  std::vector<int> devices;  // by rank; empty: no choice of devices is joined
  std::string remark;        // for the user: why the ranks do not take the first devices, or why there are none
};

// `inherited`: the device that each rank already has; negative: none. If every rank has a different device, these
// devices are the only choice. Else the ranks take the machine's first devices if these are joined, else the first
// neighbourhood of a device that is large enough and joined, in ascending order. At worst O(devices x nodes x links),
// and one call of `part` for each device.
Places places_on(const Topology& machine, std::span<const int> inherited, const Part& part);

}  // namespace sccl::topology
