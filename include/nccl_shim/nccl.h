/* The C interface of the library: compatible with programs built for NCCL up to 2.32.3.
 *
 * Every function has a twin with the prefix pnccl, by which a profiling tool that defines the nccl name reaches the
 * library. Functions return ncclSuccess or an error whose story ncclGetLastError tells.
 *
 * Where no GPU is used, buffers are host memory, `stream` must be NULL (or a default-stream handle), and work is
 * complete when the call, or the outermost ncclGroupEnd, returns.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* As NCCL's own header does, where CUDA's are to be found; a program may use their types without including them. */
#if defined(__has_include) && !defined(SCCL_WITHOUT_CUDA_HEADERS)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#if __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#endif
#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif
#if defined(__cplusplus) && __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif
#endif
#endif

#if !defined(__CUDA_RUNTIME_H__) && !defined(__DRIVER_TYPES_H__) && !defined(CUDART_VERSION)
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 23203
/* Codes had four digits up to 2.8. */
#define NCCL_VERSION(major, minor, patch) \
  (((major) <= 2 && (minor) <= 8) ? (major)*1000 + (minor)*100 + (patch) : (major)*10000 + (minor)*100 + (patch))

#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_COMM_NULL NULL
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_API_MAGIC 0xcafebeef
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct ncclParamHandle* ncclParamHandle_t;

typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,
  ncclNumResults = 9
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/* Values from ncclNumOps on are operations made by ncclRedOpCreatePreMulSum. */
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

typedef enum {
  ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
  ncclHostCftEnable = 1,
  ncclHostCftDisable = 2,
  ncclHostCftFallback = 3
} ncclHostCftMode_t;

typedef enum {
  ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
  ncclNvlsHostModeEnable = 0,
  ncclNvlsHostModeDisableTransport = 1 << 0,
  ncclNvlsHostModeDisableSymmetricMultimem = 1 << 1,
  ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

/* Start from NCCL_CONFIG_INITIALIZER, which also records the size and version a program was compiled with. */
typedef struct ncclConfig_v23100 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig;
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
} ncclConfig_t;

#define SCCL_CONFIG_FIELDS_(bytes)                                                                               \
  bytes, NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
      NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
      NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
      NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
      NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
      NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT

#define NCCL_CONFIG_INITIALIZER \
  { SCCL_CONFIG_FIELDS_(sizeof(ncclConfig_t)) }

/* What this library adds: start from SCCL_CONFIG_INITIALIZER and pass &config.nccl. Another library reads that part.
 * timeoutMs: as SCCL_TIMEOUT_MS, for the calls of this communicator; 0 is none, and each rank may have its own. */
#define SCCL_CONFIG_MAGIC 0x7363636cu
typedef struct scclConfig {
  ncclConfig_t nccl;
  unsigned int scclMagic;
  int timeoutMs;
} scclConfig_t;

#define SCCL_CONFIG_INITIALIZER \
  { {SCCL_CONFIG_FIELDS_(sizeof(scclConfig_t))}, SCCL_CONFIG_MAGIC, NCCL_CONFIG_UNDEF_INT }

/* An option for one vendor's library, in a list without cycles or duplicate keys. Those of others are passed over. */
typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

/* Options of this library in such a list. The first three are to be the same on every rank: val.s is a schedule as in
 * SCCL_ALGO, which must serve the call; val.s is a protocol as in SCCL_PROTO; val.i is the bytes of a slice as in
 * SCCL_CHUNK. The last one is the rank's own: val.i milliseconds as in SCCL_TIMEOUT_MS. */
#define SCCL_CONFIG_VENDOR 0x5343434c
#define SCCL_CONFIG_SCHEDULE 1
#define SCCL_CONFIG_PROTOCOL 2
#define SCCL_CONFIG_SLICE_BYTES 3
#define SCCL_CONFIG_TIMEOUT_MS 4

/* What one call may ask for. Start from NCCL_COLLCONFIG_INITIALIZER.
 *
 * `algSelection`, the same on every rank, names an algorithm as NCCL_ALGO or SCCL_ALGO does. Where it cannot be had the
 * call is ncclInvalidUsage, or served as usual if forceAlgSelection is 0. `maxCTAs` bounds the blocks of the call's
 * kernel on a device; the other numbers of blocks are checked and have no effect. `userProfilerTag` is written into the
 * trace (SCCL_TRACE). `launchCompletionEvent` is for devices, with CUDA 12.3 and later.
 */
typedef struct ncclCollConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
  cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                                            \
  {                                                                                                            \
    sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, 1,         \
        NCCL_CONFIG_UNDEF_INT, 0, NCCL_CONFIG_UNDEF_PTR                                                        \
  }

typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;

typedef struct ncclEncryptionConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode;
  const char* psk;
} ncclEncryptionConfig_t;

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                                                        \
  {                                                                                               \
    sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_ENCRYPTION_MODE_NONE, \
        NCCL_CONFIG_UNDEF_PTR                                                                     \
  }

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

/* Declares a function and its profiling twin. */
#define NCCL_DECLARE_(result, name, ...) \
  result nccl##name(__VA_ARGS__);        \
  result pnccl##name(__VA_ARGS__);

/* -- version and errors -- */

/* The code of the NCCL version whose interface this is, five digits. */
NCCL_DECLARE_(ncclResult_t, GetVersion, int* version)
NCCL_DECLARE_(const char*, GetErrorString, ncclResult_t result)
/* The last warning or error of this process, with what to do about it. `comm` is ignored and may be NULL. */
NCCL_DECLARE_(const char*, GetLastError, ncclComm_t comm)
/* The first error that work of the communicator met. Never blocks; callable from any thread. */
NCCL_DECLARE_(ncclResult_t, CommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError)
/* Obsolete: reads NCCL_DEBUG again. */
NCCL_DECLARE_(void, ResetDebugInit, void)

/* -- life of a communicator -- */

/* Called by one rank; the 128 bytes reach the others by any means. */
NCCL_DECLARE_(ncclResult_t, GetUniqueId, ncclUniqueId* uniqueId)
/* Collective over all ranks of the new communicator. */
NCCL_DECLARE_(ncclResult_t, CommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank)
NCCL_DECLARE_(ncclResult_t, CommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
              ncclConfig_t* config)
NCCL_DECLARE_(ncclResult_t, CommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank, int nId,
              ncclUniqueId* commIds, ncclConfig_t* config)
/* All ranks as one process; devlist may be NULL. */
NCCL_DECLARE_(ncclResult_t, CommInitAll, ncclComm_t* comm, int ndev, const int* devlist)
NCCL_DECLARE_(ncclResult_t, CommFinalize, ncclComm_t comm)
NCCL_DECLARE_(ncclResult_t, CommDestroy, ncclComm_t comm)
/* Ends whatever the communicator is doing, from any thread, without its peers. */
NCCL_DECLARE_(ncclResult_t, CommAbort, ncclComm_t comm)
NCCL_DECLARE_(ncclResult_t, CommRevoke, ncclComm_t comm, int revokeFlags)
NCCL_DECLARE_(ncclResult_t, CommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config)
NCCL_DECLARE_(ncclResult_t, CommShrink, ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
              ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags)
NCCL_DECLARE_(ncclResult_t, CommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId)
NCCL_DECLARE_(ncclResult_t, CommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
              ncclComm_t* newcomm, ncclConfig_t* config)
NCCL_DECLARE_(ncclResult_t, CommSuspend, ncclComm_t comm, int flags)
NCCL_DECLARE_(ncclResult_t, CommResume, ncclComm_t comm)
NCCL_DECLARE_(ncclResult_t, CommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value)
NCCL_DECLARE_(ncclResult_t, CommCount, const ncclComm_t comm, int* count)
NCCL_DECLARE_(ncclResult_t, CommCuDevice, const ncclComm_t comm, int* device)
NCCL_DECLARE_(ncclResult_t, CommUserRank, const ncclComm_t comm, int* rank)

/* -- reductions -- */

/* A sum of each rank's data times its own scalar, of type `datatype`. */
NCCL_DECLARE_(ncclResult_t, RedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
              ncclScalarResidence_t residence, ncclComm_t comm)
NCCL_DECLARE_(ncclResult_t, RedOpDestroy, ncclRedOp_t op, ncclComm_t comm)

/* -- collectives; counts are in elements -- */

NCCL_DECLARE_(ncclResult_t, AllReduce, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, Reduce, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, ReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
              ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, AllGather, const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
              ncclComm_t comm, cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, Broadcast, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              int root, ncclComm_t comm, cudaStream_t stream)
/* Broadcast in place. */
NCCL_DECLARE_(ncclResult_t, Bcast, void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
              cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, AlltoAll, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclComm_t comm, cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, Gather, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              int root, ncclComm_t comm, cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, Scatter, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              int root, ncclComm_t comm, cudaStream_t stream)

/* The same with a configuration of the call; NULL is the plain call. */
NCCL_DECLARE_(ncclResult_t, AllReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
              ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
              const ncclCollConfig_t* config)
NCCL_DECLARE_(ncclResult_t, ReduceConfig, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)
NCCL_DECLARE_(ncclResult_t, ReduceScatterConfig, const void* sendbuff, void* recvbuff, size_t recvcount,
              ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
              const ncclCollConfig_t* config)
NCCL_DECLARE_(ncclResult_t, AllGatherConfig, const void* sendbuff, void* recvbuff, size_t sendcount,
              ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)
NCCL_DECLARE_(ncclResult_t, BroadcastConfig, const void* sendbuff, void* recvbuff, size_t count,
              ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)
NCCL_DECLARE_(ncclResult_t, AlltoAllConfig, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)
NCCL_DECLARE_(ncclResult_t, GatherConfig, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)
NCCL_DECLARE_(ncclResult_t, ScatterConfig, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)

/* -- point to point and one-sided -- */

NCCL_DECLARE_(ncclResult_t, Send, const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
              ncclComm_t comm, cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, Recv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
              cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, PutSignal, const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
              ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
              cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, Signal, int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
              cudaStream_t stream)
NCCL_DECLARE_(ncclResult_t, WaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
              cudaStream_t stream)

/* -- groups: calls between Start and End run together at the outermost End -- */

NCCL_DECLARE_(ncclResult_t, GroupStart, void)
NCCL_DECLARE_(ncclResult_t, GroupEnd, void)
NCCL_DECLARE_(ncclResult_t, GroupSimulateEnd, ncclSimInfo_t* simInfo)

/* -- memory and registration -- */

NCCL_DECLARE_(ncclResult_t, MemAlloc, void** ptr, size_t size)
NCCL_DECLARE_(ncclResult_t, MemFree, void* ptr)
NCCL_DECLARE_(ncclResult_t, CommRegister, const ncclComm_t comm, void* buff, size_t size, void** handle)
NCCL_DECLARE_(ncclResult_t, CommDeregister, const ncclComm_t comm, void* handle)
NCCL_DECLARE_(ncclResult_t, CommWindowRegister, ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
              int winFlags)
NCCL_DECLARE_(ncclResult_t, CommWindowDeregister, ncclComm_t comm, ncclWindow_t win)
NCCL_DECLARE_(ncclResult_t, WinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void** outUserPtr)

/* -- encryption -- */

/* Mode NONE succeeds. Mode PSK is ncclInvalidUsage: connections are not encrypted here. */
NCCL_DECLARE_(ncclResult_t, SetEncryption, const ncclEncryptionConfig_t* config)

/* -- parameters -- */

NCCL_DECLARE_(ncclResult_t, ParamBind, ncclParamHandle_t* out, const char* key)
NCCL_DECLARE_(ncclResult_t, ParamGetI8, ncclParamHandle_t h, int8_t* out)
NCCL_DECLARE_(ncclResult_t, ParamGetI16, ncclParamHandle_t h, int16_t* out)
NCCL_DECLARE_(ncclResult_t, ParamGetI32, ncclParamHandle_t h, int32_t* out)
NCCL_DECLARE_(ncclResult_t, ParamGetI64, ncclParamHandle_t h, int64_t* out)
NCCL_DECLARE_(ncclResult_t, ParamGetU8, ncclParamHandle_t h, uint8_t* out)
NCCL_DECLARE_(ncclResult_t, ParamGetU16, ncclParamHandle_t h, uint16_t* out)
NCCL_DECLARE_(ncclResult_t, ParamGetU32, ncclParamHandle_t h, uint32_t* out)
NCCL_DECLARE_(ncclResult_t, ParamGetU64, ncclParamHandle_t h, uint64_t* out)
NCCL_DECLARE_(ncclResult_t, ParamGetStr, ncclParamHandle_t h, const char** out)
NCCL_DECLARE_(ncclResult_t, ParamGet, ncclParamHandle_t h, void* out, int maxLen, int* len)
NCCL_DECLARE_(ncclResult_t, ParamGetParameter, const char* key, const char** value, int* valueLen)
NCCL_DECLARE_(ncclResult_t, ParamGetAllParameterKeys, const char*** table, int* tableLen)
NCCL_DECLARE_(void, ParamDumpAll, void)

#undef NCCL_DECLARE_

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
