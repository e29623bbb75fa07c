// How the root of a further id of ncclCommInitRankScalable joins the root of the first one.
#pragma once

#include "base/siphash.h"
#include "runtime/bootstrap/meeting/upstream.h"
#include "runtime/bootstrap/meeting/wire.h"

namespace sccl::runtime {

// `told` is the introduction of the first rank that has come here; `secret` is that of the first id. Blocks. Throws
// system_error, with the addresses that were tried, when the first root does not answer within seconds.
Upstream join_first_root(const wire::Join& told, const Secret& secret);

}  // namespace sccl::runtime
