// Converts weighted trees to the schedule that sends each tree its share of the data.
#pragma once

#include "schedule/schedule.h"
#include "treegen/packing/pack.h"

namespace sccl::treegen {

// If few equal chunks suffice, weights become whole numbers of chunks, assigned in turn so that trees that share a link
// alternate on it in proportion to their weights (Blink 4.2.2). Otherwise each tree has one chunk with a weight. The
// schedule is pipelined: steps give the order along a route.
schedule::Schedule to_schedule(const Topology& topology, const Packing& packing);

// The planner: packs, then lowers. Nothing for collectives without trees, one rank, or unconnected ranks.
std::optional<schedule::Schedule> plan(const Topology& topology, Collective collective, Rank root,
                                       const PackOptions& options = {});

// An order of turns: `shares[i]` turns for i, spread evenly.
std::vector<int> take_turns(const std::vector<Amount>& shares);

// Sends of one chunk along a route, the reduction first. Returns the step after the last.
schedule::Step add_sends(const Route& route, schedule::ChunkId chunk, schedule::Step first_step,
                         std::vector<schedule::Send>& sends);

}  // namespace sccl::treegen
