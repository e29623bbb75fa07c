// The order in which a schedule adds the ranks' contributions. Two schedules with the same order give the same bits in
// floating-point arithmetic.
#pragma once

#include <cstdint>

#include "schedule/schedule.h"

namespace sccl::schedule {

// A hash that is equal for schedules of one collective, root and number of ranks whose results have the same bits for
// every input. All schedules that only copy have the same hash. The schedule must be verified. `fused`: stars run as
// one operation (lower_direct). Where the order depends on the chunk that holds an element, so does the hash.
enum class Stars : std::uint8_t { by_step, fused };
std::uint64_t sum_order(const Schedule& schedule, Stars stars);

}  // namespace sccl::schedule
