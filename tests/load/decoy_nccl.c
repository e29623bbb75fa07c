/* Takes the place of a real NCCL at link time; every call fails. */
#include "nccl_shim/nccl.h"

ncclResult_t ncclGetVersion(int* version) {
  *version = 0;
  return ncclInternalError;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  (void)id;
  return ncclInternalError;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  (void)comm, (void)ranks, (void)id, (void)rank;
  return ncclInternalError;
}
ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)stream;
  return ncclInternalError;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  (void)comm;
  return ncclInternalError;
}
const char* ncclGetErrorString(ncclResult_t result) {
  (void)result;
  return "the decoy was called";
}
const char* ncclGetLastError(ncclComm_t comm) {
  (void)comm;
  return "the decoy was called";
}
