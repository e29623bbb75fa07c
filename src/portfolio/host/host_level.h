// The lower level of composites: what the devices of one kind of host do, planned for that host's links alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compose/form/composite.h"

namespace sccl::portfolio {

inline constexpr std::string_view kScattered = "scattered";

struct HostLevel {
  std::string name;  // the planner of the kind's AllGather or, where both were planned together, ReduceScatter
  std::shared_ptr<const compose::HostKind> kind;
  int steps = 0;  // of the kind's ReduceScatter and AllGather together
};

// How much is tried. Clusters of many kinds of hosts have no time for more than a little for each.
enum class Effort : std::uint8_t { full, little };

// A few levels: from the one with the least busy links to the one with the fewest steps, with two between them; first,
// if it makes links less busy, one for AllReduce whose two halves leave the links to each other. Without search: rings,
// one hop, doubling, shortest paths, packed and shallow trees. Takes a tenth of a second for the largest hosts. `parts`
// of the host's data come and go at each device, in proportion to the NICs (portfolio/host/shallow_trees.h). Throws
// invalid_argument when some device cannot reach another.
std::vector<HostLevel> host_levels(const topology::Topology& links, std::span<const double> parts = {},
                                   Effort effort = Effort::full);

// Likewise for Broadcast from one device of a host, or Reduce to it.
std::vector<std::shared_ptr<const schedule::Schedule>> root_levels(const topology::Topology& links,
                                                                   Collective collective, Rank root);

// Broadcast in two steps: the chunks go from the root to one other device each, and from there to all others, so the
// root sends every byte once. Reduce: the same backwards. Null when some device reaches another one only over a third.
std::shared_ptr<const schedule::Schedule> scattered(const topology::Topology& links, Collective collective, Rank root);

// The chunks of a schedule of root_levels() that chunks of the cluster take in turn, as often as all_turns() says, so
// that they come to the ports that they take in turn, too, in few steps: NICs begin early.
std::vector<schedule::ChunkId> turns_near_ports(const schedule::Schedule& schedule, const std::vector<int>& ports);

// The chunks of a schedule that strands of the data take in turn, in proportion to the chunks' weights.
std::vector<schedule::ChunkId> all_turns(const schedule::Schedule& schedule);

}  // namespace sccl::portfolio
