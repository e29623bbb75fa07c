// The time of one message between two ranks, as the links' model foresees it: imbalance factors are multiples of it.
#pragma once

#include <cstddef>

#include "runtime/membership/membership.h"

namespace sccl::runtime {

// 0 if the links' model says nothing.
double message_us(const Membership& membership, std::size_t bytes);

}  // namespace sccl::runtime
