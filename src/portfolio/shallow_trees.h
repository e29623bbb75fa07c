// Trees of bounded depth on the links of a host, for composites: shortest paths ignore the load of links, packings
// (treegen) ignore depth, and every step on a host delays the first slice of a call.
#pragma once

#include <optional>

#include "schedule/schedule.h"

namespace sccl::portfolio {

// AllGather or ReduceScatter by several trees for each owner, none deeper than the deepest shortest path plus
// `more_steps`. Subtrees move from parent to parent as long as that relieves the busiest link, then by chance (the same
// for the same links). `beside`: null, or a
// schedule without weights whose data passes the links at the same time, as an AllReduce's AllGather does beside its
// ReduceScatter. Nothing if some device does not reach another one.
std::optional<schedule::Schedule> shallow_trees(const topology::Topology& links, Collective collective, int more_steps,
                                                const schedule::Schedule* beside = nullptr);

// The ReduceScatter by the same trees, read backwards. Nothing if the links that lead back are missing or slower.
std::optional<schedule::Schedule> backwards(const schedule::Schedule& allgather);

// Of the busiest link or set of links, when all data passes both schedules.
double busiest_of_both(const schedule::Schedule& in, const schedule::Schedule& out);

}  // namespace sccl::portfolio
