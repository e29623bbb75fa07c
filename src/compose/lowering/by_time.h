// An order for the sends of a composite in which links wait for one another less than in the order of frames.
#pragma once

#include "compose/form/composite.h"

namespace sccl::compose {

struct Ordered {
  std::shared_ptr<const Order> order;
  schedule::Schedule flat;  // the flat form of the composite with this order
};

// The steps that schedule::steps_by_time() gives to the flat form. No order where a rank gets a chunk twice, as on a
// detour to a port: an order has no place for that. The composite must have passed verify() and have no order. A pure
// function of its argument; O(n log n) for n = sends of the flat form.
Ordered order_by_time(const Composite& composite);

}  // namespace sccl::compose
