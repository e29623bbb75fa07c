// Why a long wait may never end.
//
// A process that a signal or a debugger has stopped keeps all others waiting. Two ranks that use two communicators in
// opposite order wait for each other for ever: each rank is in a call of one communicator, and the other rank makes
// that call only after its call of the other communicator. For every communicator of this process, shared memory tells
// which ranks wait, and for which ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/membership/membership.h"

namespace sccl::runtime {

// The cause for a rank that waits for `awaited` in a call of `mine`: a stopped process in any communicator of this
// process; else two communicators that are used in opposite order; else nothing.
std::optional<std::string> stall_cause(const Membership& mine, const std::vector<Rank>& awaited);

// Over hosts, the ranks at which the chains of waits that begin at `awaited` end, with their hosts and calls: ", while
// rank 3 (process 12 on node1) is in no call". "" if there are none, or within one host.
std::string absent_text(const Membership& mine, const std::vector<Rank>& awaited);

}  // namespace sccl::runtime
