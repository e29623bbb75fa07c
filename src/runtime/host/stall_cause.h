// Why a wait may never end, for a rank that has waited for long.
//
// A process that a signal or a debugger has stopped keeps all others waiting. Two ranks that use two communicators in
// opposite order wait for each other for ever: each is in a call of one communicator that the other will make only
// after a call of the other communicator. Shared memory tells of every communicator of this process which ranks wait
// there, and for whom.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/membership/membership.h"

namespace sccl::runtime {

// What to tell of a rank that waits for `awaited` in a call of `mine`: first the stopped process, in any communicator
// of this process; else the crossing of communicators. Nothing where there is neither.
std::optional<std::string> stall_cause(const Membership& mine, const std::vector<Rank>& awaited);

}  // namespace sccl::runtime
