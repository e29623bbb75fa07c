// In which order a schedule adds up the contributions of the ranks: what two schedules must have in common to give the
// same bits in floating arithmetic.
#pragma once

#include <cstdint>

#include "schedule/schedule.h"

namespace sccl::schedule {

// Equal for schedules of one collective, root and number of ranks whose results have the same bits for every input.
// Schedules that only copy all have the same. A verified schedule; `fused` when stars run as one operation
// (lower_direct). Where the order also depends on which chunk an element lies in, so does the value.
enum class Stars : std::uint8_t { by_step, fused };
std::uint64_t sum_order(const Schedule& schedule, Stars stars);

}  // namespace sccl::schedule
