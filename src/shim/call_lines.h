// Logs every operation that a program calls, in the words of NCCL's own log: at INFO for NCCL_DEBUG_SUBSYS=COLL and
// P2P.
#pragma once

#include "base/settings/log.h"
#include "nccl_shim/nccl.h"
#include "runtime/call/requests.h"
#include "shim/boundary.h"
#include "shim/handles.h"

namespace sccl::shim {

// `op`: the value that the program passed.
void print_collective(const Pin& pin, const runtime::CollectiveRequest& request, int op);
void print_transfer(const Pin& pin, const runtime::PointToPointRequest& request);

inline void log_collective(const Pin& pin, const runtime::CollectiveRequest& request, int op) {
  if (has_call_lines()) print_collective(pin, request, op);
}
inline void log_transfer(const Pin& pin, const runtime::PointToPointRequest& request) {
  if (has_call_lines()) print_transfer(pin, request);
}

}  // namespace sccl::shim
