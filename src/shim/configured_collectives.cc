// Collectives with a configuration for the call; without one they are the plain calls.
#include "shim/boundary.h"
#include "shim/coll_config.h"
#include "shim/collective_call.h"

using namespace sccl;
using namespace sccl::shim;

namespace {

struct Call {
  const char* name;
  Collective kind;
  int op;
  int root;
};

// NULL is a configuration that says nothing.
ncclResult_t configured(const Call& call, const Buffers& buffers, ncclComm_t comm, cudaStream_t stream,
                        const ncclCollConfig_t* config) {
  return queued(call.name, [&] {
    return submit_configured(call.kind, buffers, call.op, call.root, comm, stream, read_coll_config(config));
  });
}

}  // namespace

extern "C" {

ncclResult_t pncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                  const ncclCollConfig_t* config) {
  return configured({"ncclAllReduceConfig", Collective::allreduce, op, 0}, {sendbuff, recvbuff, count, datatype}, comm,
                    stream, config);
}

ncclResult_t pncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                               ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                               const ncclCollConfig_t* config) {
  return configured({"ncclReduceConfig", Collective::reduce, op, root}, {sendbuff, recvbuff, count, datatype}, comm,
                    stream, config);
}

ncclResult_t pncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                      const ncclCollConfig_t* config) {
  return configured({"ncclReduceScatterConfig", Collective::reducescatter, op, 0},
                    {sendbuff, recvbuff, recvcount, datatype}, comm, stream, config);
}

ncclResult_t pncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                                  ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return configured({"ncclAllGatherConfig", Collective::allgather, 0, 0}, {sendbuff, recvbuff, sendcount, datatype},
                    comm, stream, config);
}

ncclResult_t pncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                                  ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return configured({"ncclBroadcastConfig", Collective::broadcast, 0, root}, {sendbuff, recvbuff, count, datatype},
                    comm, stream, config);
}

ncclResult_t pncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return configured({"ncclAlltoAllConfig", Collective::alltoall, 0, 0}, {sendbuff, recvbuff, count, datatype}, comm,
                    stream, config);
}

ncclResult_t pncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                               ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return configured({"ncclGatherConfig", Collective::gather, 0, root}, {sendbuff, recvbuff, count, datatype}, comm,
                    stream, config);
}

ncclResult_t pncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                                ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return configured({"ncclScatterConfig", Collective::scatter, 0, root}, {sendbuff, recvbuff, count, datatype}, comm,
                    stream, config);
}

ncclResult_t pncclSetEncryption(const ncclEncryptionConfig_t* config) {
  return guarded("ncclSetEncryption", [&] {
    if (config == nullptr || config->magic != NCCL_API_MAGIC || config->size < sizeof *config)
      fail(ErrorCode::invalid_argument,
           "the ncclEncryptionConfig_t is NULL or not initialised: start from NCCL_ENCRYPTION_CONFIG_INITIALIZER");
    if (config->mode == NCCL_ENCRYPTION_MODE_NONE) return;
    if (config->mode != NCCL_ENCRYPTION_MODE_PSK)
      fail(ErrorCode::invalid_argument, "config.mode is {}: give NCCL_ENCRYPTION_MODE_NONE or _PSK", config->mode);
    fail(
        ErrorCode::invalid_usage,
        "connections are not encrypted by this library: pass NCCL_ENCRYPTION_MODE_NONE, and protect the network itself "
        "(WireGuard, IPsec)");
  });
}

SCCL_WEAK_NAME(AllReduceConfig);
SCCL_WEAK_NAME(ReduceConfig);
SCCL_WEAK_NAME(ReduceScatterConfig);
SCCL_WEAK_NAME(AllGatherConfig);
SCCL_WEAK_NAME(BroadcastConfig);
SCCL_WEAK_NAME(AlltoAllConfig);
SCCL_WEAK_NAME(GatherConfig);
SCCL_WEAK_NAME(ScatterConfig);
SCCL_WEAK_NAME(SetEncryption);

}  // extern "C"
