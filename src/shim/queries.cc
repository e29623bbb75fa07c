// Queries about the library, a communicator or an error, and the creation of user-defined reductions.
#include <array>
#include <cstring>

#include "runtime/communicator/async_error.h"
#include "shim/boundary.h"
#include "shim/handles.h"

using namespace sccl;
using namespace sccl::shim;

namespace {

// NCCL's texts; programs and log scrapers compare them.
constexpr std::array<const char*, 9> kErrorTexts{
    "no error",
    "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    "unhandled system error (run with NCCL_DEBUG=INFO for details)",
    "internal error - please report this issue to the NCCL developers",
    "invalid argument (run with NCCL_DEBUG=WARN for details)",
    "invalid usage (run with NCCL_DEBUG=WARN for details)",
    "remote process exited or there was a network error",
    "NCCL operation in progress",
    "timeout",
};

void answer(ncclComm_t comm, int* place, int (*question)(const runtime::Communicator& of)) {
  const auto communicator = communicator_of(comm);
  if (place == nullptr) fail(ErrorCode::invalid_argument, "the place for the result is NULL");
  if (communicator->lifecycle().now() == runtime::Communicator::State::created)
    communicator->lifecycle().check_usable();
  *place = question(*communicator);
}

int create_premul_sum(void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm) {
  const auto communicator = communicator_of(comm);
  const int type = static_cast<int>(datatype);
  if (type < 0 || type >= kDataTypeCount) fail(ErrorCode::invalid_argument, "{} is no data type", type);
  if (scalar == nullptr) fail(ErrorCode::invalid_argument, "the scalar is NULL: pass its address");
  if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
    fail(ErrorCode::invalid_argument, "residence {} is neither ncclScalarDevice nor ncclScalarHostImmediate",
         static_cast<int>(residence));
  std::uint64_t bits = 0;
  if (residence == ncclScalarHostImmediate) std::memcpy(&bits, scalar, size_bytes(static_cast<DataType>(type)));
  communicator->lifecycle().check_usable();
  return communicator->reductions().create(static_cast<DataType>(type), bits,
                                           residence == ncclScalarDevice ? scalar : nullptr);
}

}  // namespace

extern "C" {

ncclResult_t pncclGetVersion(int* version) {
  return guarded("ncclGetVersion", [&] {
    if (version == nullptr) fail(ErrorCode::invalid_argument, "version is NULL: pass a place for the result");
    *version = NCCL_VERSION_CODE;
  });
}

const char* pncclGetErrorString(ncclResult_t result) {
  const auto index = static_cast<std::size_t>(result);
  return index < kErrorTexts.size() ? kErrorTexts[index] : "unknown result code";
}

const char* pncclGetLastError(ncclComm_t) { return log::last_error(); }

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return guarded("ncclCommGetAsyncError", [&] {
    const auto communicator = communicator_of(comm);
    if (asyncError == nullptr) fail(ErrorCode::invalid_argument, "asyncError is NULL: pass a place for the result");
    *asyncError = static_cast<ncclResult_t>(runtime::async_error(*communicator));
  });
}

void pncclResetDebugInit(void) { reset_log(); }

ncclResult_t pncclCommCount(const ncclComm_t comm, int* count) {
  return guarded("ncclCommCount", [&] { answer(comm, count, [](const auto& of) { return of.ranks(); }); });
}

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device) {
  return guarded("ncclCommCuDevice", [&] { answer(comm, device, [](const auto& of) { return of.options().device; }); });
}

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  return guarded("ncclCommUserRank", [&] { answer(comm, rank, [](const auto& of) { return of.rank(); }); });
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded("ncclRedOpCreatePreMulSum", [&] {
    if (op == nullptr) fail(ErrorCode::invalid_argument, "op is NULL: pass a place for the result");
    *op = static_cast<ncclRedOp_t>(create_premul_sum(scalar, datatype, residence, comm));
  });
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return guarded("ncclRedOpDestroy", [&] { communicator_of(comm)->reductions().destroy(static_cast<int>(op)); });
}

SCCL_WEAK_NAME(GetVersion);
SCCL_WEAK_NAME(GetErrorString);
SCCL_WEAK_NAME(GetLastError);
SCCL_WEAK_NAME(CommGetAsyncError);
SCCL_WEAK_NAME(ResetDebugInit);
SCCL_WEAK_NAME(CommCount);
SCCL_WEAK_NAME(CommCuDevice);
SCCL_WEAK_NAME(CommUserRank);
SCCL_WEAK_NAME(RedOpCreatePreMulSum);
SCCL_WEAK_NAME(RedOpDestroy);

// NCCL exports this name beside the documented one.
__attribute__((visibility("default"))) void ncclResetDebugInitInternal(void) { reset_log(); }

}  // extern "C"
