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

// The one with the least busy links, one with few steps whose links are hardly busier, and the one with the fewest
// steps; each once. Without search: rings, one
// hop, doubling, shortest paths, packed trees. A tenth of a second for the largest hosts. Throws invalid_argument when
// some device cannot reach another one.
std::vector<HostLevel> host_levels(const topology::Topology& links);

// Likewise for Broadcast or Reduce of one host from or to one device.
std::vector<std::shared_ptr<const schedule::Schedule>> root_levels(const topology::Topology& links,
                                                                   Collective collective, Rank root);

// The chunks of a schedule that strands of the data take in turn, as often as their weights say.
std::vector<schedule::ChunkId> all_turns(const schedule::Schedule& schedule);

}  // namespace sccl::portfolio
