// From weighted trees to the schedule that sends each tree its share of the data.
#pragma once

#include "schedule/schedule.h"
#include "treegen/packing/pack.h"

namespace sccl::treegen {

// Weights become whole numbers of equal chunks where few suffice, dealt out in turn so that trees which share a link
// alternate on it in proportion to their weights (Blink 4.2.2); otherwise each tree has one chunk with a weight.
// The schedule is pipelined: steps give the order along a route.
schedule::Schedule to_schedule(const Topology& topology, const Packing& packing);

// The planner: packs and lowers. Nothing for collectives without trees, one rank, or ranks that are not connected.
std::optional<schedule::Schedule> plan(const Topology& topology, Collective collective, Rank root,
                                       const PackOptions& options = {});

// Chunk by chunk, whose turn it is: `shares[i]` turns for i, spread evenly.
std::vector<int> take_turns(const std::vector<Amount>& shares);

// Sends of one chunk along a route, its reduction first. Returns the step after the last.
schedule::Step add_sends(const Route& route, schedule::ChunkId chunk, schedule::Step first_step,
                         std::vector<schedule::Send>& sends);

}  // namespace sccl::treegen
