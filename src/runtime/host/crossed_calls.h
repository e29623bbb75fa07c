// Two ranks that use two communicators in opposite order wait for each other for ever: each is in a call of one
// communicator that the other will make only after a call of the other communicator. A rank that has waited for long
// looks for that: shared memory tells of every communicator of this process which ranks wait there, and for whom.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/membership/membership.h"

namespace sccl::runtime {

// What to tell of a rank that waits for `awaited` in a call of `mine`, and for which a rank of another communicator
// waits meanwhile. Nothing where no rank does.
std::optional<std::string> crossing_text(const Membership& mine, const std::vector<Rank>& awaited);

}  // namespace sccl::runtime
