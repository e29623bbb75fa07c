// The lower level of composites: what the devices of one kind of host do, planned for its own links alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compose/composite.h"

namespace sccl::portfolio {

struct HostLevel {
  std::string name;  // of the planner of its AllGather
  std::shared_ptr<const compose::HostKind> kind;
  int steps = 0;  // of its ReduceScatter and AllGather together
};

// Those with the fewest steps and with the least busy links; one when they are the same. Without search: rings, one
// hop, doubling, shortest paths, packed trees. A tenth of a second for the largest hosts. Throws invalid_argument when
// some device cannot reach another one.
std::vector<HostLevel> host_levels(const topology::Topology& links);

}  // namespace sccl::portfolio
