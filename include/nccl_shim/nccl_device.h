/* The names of NCCL's device interface, so that programs which also hold kernels of their own for it compile unchanged.
 *
 * Nothing of it works in a program that is compiled with this header: kernels for that interface read NCCL's internal
 * structures, which are not declared here. Such a program is told so on the host, where it has a choice:
 * ncclDevCommCreate returns ncclInvalidUsage, and without an ncclDevComm no such kernel can be launched. Functions of
 * the device are here for the compiler; were one reached after all, it would stop the kernel (__trap). Programs that
 * are compiled with NCCL's own header get what they need from NCCL's library beside this one (docs/vendor.md).
 */
#ifndef NCCL_DEVICE_H_
#define NCCL_DEVICE_H_

#include <stdbool.h>

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam;
typedef ncclTeam ncclTeam_t;

typedef enum { NCCL_GIN_TYPE_NONE = 0 } ncclGinType_t;
typedef enum {
  NCCL_GIN_CONNECTION_NONE = 0,
  NCCL_GIN_CONNECTION_FULL = 1,
  NCCL_GIN_CONNECTION_RAIL = 2
} ncclGinConnectionType_t;

/* Start from the initializer; the library fills in what is behind `version`. */
typedef struct ncclCommProperties {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport; /* false without NCCL's library */
  bool multimemSupport;
  ncclGinType_t ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  ncclGinType_t railedGinType;
  uint64_t commHash;
  int ginMinStride;
  ncclGinConnectionType_t ginConnectionType;
  bool ginSupport[64];
  size_t devCommRuntimeVersionSize;
  bool cftSupport;
  bool cftMulticastSupport;
  bool cftCountedSupport;
} ncclCommProperties_t;
#define NCCL_COMM_PROPERTIES_INITIALIZER \
  { sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH) }

typedef struct ncclLsaBarrierHandle {
  int nBarriers;
} ncclLsaBarrierHandle_t;

/* Never made. */
typedef struct ncclDevComm {
  int rank, nRanks;
  int lsaRank, lsaSize;
  ncclLsaBarrierHandle_t lsaBarrier;
} ncclDevComm;
typedef ncclDevComm ncclDevComm_t;

/* Never looked at. */
typedef struct ncclDevCommRequirements {
  size_t size;
  unsigned int magic;
  unsigned int version;
  bool lsaMultimem;
  int barrierCount;
  int lsaBarrierCount;
  int railGinBarrierCount;
  int lsaLLA2ABlockCount;
  int lsaLLA2ASlotCount;
  bool ginForceEnable;
  int ginContextCount;
  int ginSignalCount;
  int ginCounterCount;
  ncclGinConnectionType_t ginConnectionType;
} ncclDevCommRequirements;
typedef ncclDevCommRequirements ncclDevCommRequirements_t;
/* Tells requirements of this header from NCCL's, whose ncclDevComm is longer. */
#define SCCL_DEV_COMM_MAGIC 0x7363636du
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                                       \
  {                                                                                                                  \
    sizeof(ncclDevCommRequirements), SCCL_DEV_COMM_MAGIC, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), 0, 0, 0, \
        0, 0, 0, 0, 0, 0, 0, NCCL_GIN_CONNECTION_NONE                                                                \
  }

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* props);
ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* props);
/* ncclInvalidUsage with requirements of this header. */
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements* reqs, ncclDevComm* out);
ncclResult_t pncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements* reqs, ncclDevComm* out);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm* devComm);
ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const ncclDevComm* devComm);

/* Ranks that share device memory as that interface needs it: without NCCL's library every rank alone. */
ncclTeam ncclTeamLsa(ncclComm_t comm);
ncclTeam ncclTeamWorld(ncclComm_t comm);
ncclTeam ncclTeamRail(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam team, int rank);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && defined(__CUDACC__)
#include <cuda/atomic>

struct ncclTeamTagWorld {};
struct ncclTeamTagLsa {};
struct ncclTeamTagRail {};

struct ncclCoopThread {};
struct ncclCoopWarp {};
struct ncclCoopCta {};

namespace nccl_device_missing {
template <typename T>
__device__ inline T* nothing() {
  __trap();
  return nullptr;
}
}  // namespace nccl_device_missing

__device__ inline ncclTeam ncclTeamWorld(const ncclDevComm& comm) { return {comm.nRanks, comm.rank, 1}; }
__device__ inline ncclTeam ncclTeamLsa(const ncclDevComm& comm) { return {comm.lsaSize, comm.lsaRank, 1}; }
__device__ inline void* ncclGetLocalPointer(ncclWindow_t, size_t) { return nccl_device_missing::nothing<void>(); }
__device__ inline void* ncclGetLsaPointer(ncclWindow_t, size_t, int) { return nccl_device_missing::nothing<void>(); }
__device__ inline void* ncclGetPeerPointer(ncclWindow_t, size_t, int) { return nccl_device_missing::nothing<void>(); }
__device__ inline void* ncclGetLsaMultimemPointer(ncclWindow_t, size_t, const ncclDevComm&) {
  return nccl_device_missing::nothing<void>();
}

template <typename Coop>
struct ncclLsaBarrierSession {
  __device__ ncclLsaBarrierSession(Coop, const ncclDevComm&, ncclTeam, ncclLsaBarrierHandle_t, uint32_t, bool = false) {
    __trap();
  }
  __device__ ncclLsaBarrierSession(Coop, const ncclDevComm&, ncclTeamTagLsa, uint32_t, bool = false) { __trap(); }
  __device__ void arrive(Coop, cuda::memory_order) { __trap(); }
  __device__ void wait(Coop, cuda::memory_order) { __trap(); }
  __device__ void sync(Coop, cuda::memory_order) { __trap(); }
};

enum class ncclGinFenceLevel { Relaxed };
struct ncclGin_None {};
struct ncclGin_SignalInc {
  uint32_t signal;
};

struct ncclGin {
  __device__ ncclGin(const ncclDevComm&, int) { __trap(); }
  __device__ uint64_t readSignal(uint32_t) const { return *nccl_device_missing::nothing<uint64_t>(); }
  template <typename... More>
  __device__ void put(ncclTeam, int, ncclWindow_t, size_t, ncclWindow_t, size_t, size_t, More...) const {
    __trap();
  }
  template <typename Coop>
  __device__ void waitSignal(Coop, uint32_t, uint64_t) const {
    __trap();
  }
  template <typename Coop>
  __device__ void flush(Coop) const {
    __trap();
  }
};

template <typename Coop>
struct ncclBarrierSession {
  template <typename Team>
  __device__ ncclBarrierSession(Coop, Team, const ncclGin&, uint32_t) {
    __trap();
  }
  __device__ void sync(Coop, cuda::memory_order, ncclGinFenceLevel) { __trap(); }
};
#endif

#endif
