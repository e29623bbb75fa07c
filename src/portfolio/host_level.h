// The lower level of composites: what the devices of one kind of host do, planned for that host's links alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compose/composite.h"

namespace sccl::portfolio {

struct HostLevel {
  std::string name;  // the planner of the kind's AllGather
  std::shared_ptr<const compose::HostKind> kind;
  int steps = 0;  // of the kind's ReduceScatter and AllGather together
};

// Up to three levels: the one with the least busy links, one with few steps whose links are hardly busier, and the one
// with the fewest steps. Without search: rings, one hop, doubling, shortest paths, packed trees. Takes a tenth of a
// second for the largest hosts. Throws invalid_argument when some device cannot reach another.
std::vector<HostLevel> host_levels(const topology::Topology& links);

// Likewise for Broadcast from one device of a host, or Reduce to it.
std::vector<std::shared_ptr<const schedule::Schedule>> root_levels(const topology::Topology& links,
                                                                   Collective collective, Rank root);

// The chunks of a schedule that strands of the data take in turn, in proportion to the chunks' weights.
std::vector<schedule::ChunkId> all_turns(const schedule::Schedule& schedule);

}  // namespace sccl::portfolio
