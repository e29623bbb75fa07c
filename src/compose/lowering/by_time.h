// An order for the sends of a composite in which links wait for one another less than in the order of frames.
#pragma once

#include "compose/form/composite.h"
#include "schedule/host_share.h"
#include "schedule/simulation/simulate.h"

namespace sccl::compose {

struct Ordered {
  std::shared_ptr<const Order> order;
  schedule::Schedule flat;  // the flat form of the composite with this order
};

// Orders that are good for chunks of one lane are good for longer ones, and not the other way round. A chunk of several
// slices takes them one after the other, each after those of all other chunks: then orders are of little use.
inline constexpr double kChunkOfLane = schedule::kLaneBytes;
inline constexpr double kChunkOfSlice = 128 * 1024;

// The steps that schedule::steps_by_time() gives to the flat form, for chunks of this length. No order where a rank
// gets a chunk twice, as on a detour to a port: an order has no place for that. The composite must have passed verify()
// and have no order. A pure function of its argument; O(n log n) for n = sends of the flat form.
Ordered order_by_time(const Composite& composite, double chunk_bytes = kChunkOfLane);

// The same of the host that stands for all, where hosts do alike (Composite::alike): an order that each host's sends
// have, in a time that does not grow with the hosts. The share's sends get these steps. Null as above.
std::shared_ptr<const Order> order_by_time(const Composite& composite, schedule::HostShare& share, double chunk_bytes);

}  // namespace sccl::compose
