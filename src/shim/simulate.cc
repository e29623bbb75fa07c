// ncclGroupSimulateEnd: drops the group's work and estimates its time.
#include <cstddef>

#include "runtime/communicator/estimate.h"
#include "runtime/communicator/group.h"
#include "shim/boundary.h"

using namespace sccl;
using namespace sccl::shim;

namespace {

constexpr unsigned kMagic = 0x74685283;

// The caller's struct may have an older, shorter form or a newer, longer one.
void store_estimate(ncclSimInfo_t* info, double time_us) {
  const ncclSimInfo_t made = NCCL_SIM_INFO_INITIALIZER;
  static_assert(offsetof(ncclSimInfo_t, estimatedTime) == 16);
  if (info->magic != kMagic || info->size < offsetof(ncclSimInfo_t, estimatedTime) + sizeof made.estimatedTime)
    fail(ErrorCode::invalid_argument,
         "the ncclSimInfo_t has size {} and magic {:#x}: initialise it with NCCL_SIM_INFO_INITIALIZER", info->size,
         info->magic);
  info->estimatedTime = static_cast<float>(time_us);
}

}  // namespace

extern "C" {

// The group is closed even if the arguments are wrong.
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  return guarded("ncclGroupSimulateEnd", [&] {
    const auto work = runtime::group_discard();
    if (simInfo == nullptr) fail(ErrorCode::invalid_argument, "simInfo is NULL: pass a place for the result");
    store_estimate(simInfo, runtime::estimate_us(work));
  });
}

SCCL_WEAK_NAME(GroupSimulateEnd);

}  // extern "C"
