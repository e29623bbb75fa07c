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

ncclResult_t pncclCommRevoke(ncclComm_t, int) {
  return unsupported("ncclCommRevoke", "abort the communicator with ncclCommAbort and make a new one");
}
ncclResult_t pncclCommSplit(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*) {
  return unsupported("ncclCommSplit", "make the smaller communicator with ncclCommInitRank and an id of its own");
}
ncclResult_t pncclCommShrink(ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int) {
  return unsupported("ncclCommShrink", "make a communicator of the remaining ranks with ncclCommInitRank and a new id");
}
ncclResult_t pncclCommGetUniqueId(ncclComm_t, ncclUniqueId*) {
  return unsupported("ncclCommGetUniqueId", "use ncclGetUniqueId");
}
ncclResult_t pncclCommGrow(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*) {
  return unsupported("ncclCommGrow", "make the larger communicator with ncclCommInitRank and a new id");
}
ncclResult_t pncclCommSuspend(ncclComm_t, int) {
  return unsupported("ncclCommSuspend", "destroy the communicator to release its memory and make it again later");
}
ncclResult_t pncclCommResume(ncclComm_t) {
  return unsupported("ncclCommResume", "destroy the communicator to release its memory and make it again later");
}
ncclResult_t pncclCommMemStats(ncclComm_t, ncclCommMemStat_t, uint64_t*) {
  return unsupported("ncclCommMemStats", "read the process's memory from the system");
}
ncclResult_t pncclPutSignal(const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned int, ncclComm_t, cudaStream_t) {
  return unsupported("ncclPutSignal", "use ncclSend and ncclRecv");
}
ncclResult_t pncclSignal(int, int, int, unsigned int, ncclComm_t, cudaStream_t) {
  return unsupported("ncclSignal", "use ncclSend and ncclRecv");
}
ncclResult_t pncclWaitSignal(int, ncclWaitSignalDesc_t*, ncclComm_t, cudaStream_t) {
  return unsupported("ncclWaitSignal", "use ncclSend and ncclRecv");
}
ncclResult_t pncclCommWindowRegister(ncclComm_t, void*, size_t, ncclWindow_t*, int) {
  return unsupported("ncclCommWindowRegister", "pass the buffer to the collective without a window");
}
ncclResult_t pncclWinGetUserPtr(ncclComm_t, ncclWindow_t, void**) {
  return unsupported("ncclWinGetUserPtr", "keep the pointer that was to be registered");
}
SCCL_WEAK_NAME(CommRevoke);
SCCL_WEAK_NAME(CommSplit);
SCCL_WEAK_NAME(CommShrink);
SCCL_WEAK_NAME(CommGetUniqueId);
SCCL_WEAK_NAME(CommGrow);
SCCL_WEAK_NAME(CommSuspend);
SCCL_WEAK_NAME(CommResume);
SCCL_WEAK_NAME(CommMemStats);
SCCL_WEAK_NAME(PutSignal);
SCCL_WEAK_NAME(Signal);
SCCL_WEAK_NAME(WaitSignal);
SCCL_WEAK_NAME(CommWindowRegister);
SCCL_WEAK_NAME(WinGetUserPtr);
SCCL_WEAK_NAME(GroupSimulateEnd);

}  // extern "C"
