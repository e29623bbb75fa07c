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

ncclResult_t pncclParamBind(ncclParamHandle_t*, const char*) {
  return unsupported("ncclParamBind", "read the environment variable");
}
ncclResult_t pncclParamGetI8(ncclParamHandle_t, int8_t*) {
  return unsupported("ncclParamGetI8", "read the environment variable");
}
ncclResult_t pncclParamGetI16(ncclParamHandle_t, int16_t*) {
  return unsupported("ncclParamGetI16", "read the environment variable");
}
ncclResult_t pncclParamGetI32(ncclParamHandle_t, int32_t*) {
  return unsupported("ncclParamGetI32", "read the environment variable");
}
ncclResult_t pncclParamGetI64(ncclParamHandle_t, int64_t*) {
  return unsupported("ncclParamGetI64", "read the environment variable");
}
ncclResult_t pncclParamGetU8(ncclParamHandle_t, uint8_t*) {
  return unsupported("ncclParamGetU8", "read the environment variable");
}
ncclResult_t pncclParamGetU16(ncclParamHandle_t, uint16_t*) {
  return unsupported("ncclParamGetU16", "read the environment variable");
}
ncclResult_t pncclParamGetU32(ncclParamHandle_t, uint32_t*) {
  return unsupported("ncclParamGetU32", "read the environment variable");
}
ncclResult_t pncclParamGetU64(ncclParamHandle_t, uint64_t*) {
  return unsupported("ncclParamGetU64", "read the environment variable");
}
ncclResult_t pncclParamGetStr(ncclParamHandle_t, const char**) {
  return unsupported("ncclParamGetStr", "read the environment variable");
}
ncclResult_t pncclParamGet(ncclParamHandle_t, void*, int, int*) {
  return unsupported("ncclParamGet", "read the environment variable");
}
ncclResult_t pncclParamGetParameter(const char*, const char**, int*) {
  return unsupported("ncclParamGetParameter", "read the environment variable");
}
ncclResult_t pncclParamGetAllParameterKeys(const char***, int*) {
  return unsupported("ncclParamGetAllParameterKeys", "run: sccl env");
}
void pncclParamDumpAll(void) { unsupported("ncclParamDumpAll", "run: sccl env"); }

SCCL_WEAK_NAME(ParamBind);
SCCL_WEAK_NAME(ParamGetI8);
SCCL_WEAK_NAME(ParamGetI16);
SCCL_WEAK_NAME(ParamGetI32);
SCCL_WEAK_NAME(ParamGetI64);
SCCL_WEAK_NAME(ParamGetU8);
SCCL_WEAK_NAME(ParamGetU16);
SCCL_WEAK_NAME(ParamGetU32);
SCCL_WEAK_NAME(ParamGetU64);
SCCL_WEAK_NAME(ParamGetStr);
SCCL_WEAK_NAME(ParamGet);
SCCL_WEAK_NAME(ParamGetParameter);
SCCL_WEAK_NAME(ParamGetAllParameterKeys);
SCCL_WEAK_NAME(GroupSimulateEnd);
SCCL_WEAK_NAME(ParamDumpAll);

}  // extern "C"
