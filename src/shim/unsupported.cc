// Functions that this version has not: each says so, names what to use instead, and does nothing.
#include "shim/boundary.h"

using namespace sccl;
using namespace sccl::shim;

namespace {

ncclResult_t unsupported(const char* call, const char* remedy) {
  return guarded(call, [&] { fail(ErrorCode::invalid_usage, "this version does not serve it: {}", remedy); });
}

}  // namespace

extern "C" {

// Closes the group, so that the thread is not left inside it.
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t*) {
  runtime::group_fail(Error(ErrorCode::invalid_usage, "the group was to be simulated"));
  const ncclResult_t ended = pncclGroupEnd();
  return ended == ncclSuccess ? unsupported("ncclGroupSimulateEnd", "time the group with ncclGroupEnd") : ended;
}

SCCL_WEAK_NAME(GroupSimulateEnd);

}  // extern "C"
