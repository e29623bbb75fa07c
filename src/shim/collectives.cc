// Collectives, point-to-point transfers and groups: check, convert, submit.
#include "platform/host/exported_memory.h"
#include "runtime/communicator/group.h"
#include "shim/boundary.h"
#include "shim/call_lines.h"
#include "shim/coll_config.h"
#include "shim/collective_call.h"
#include "shim/handles.h"

using namespace sccl;
using namespace sccl::shim;

namespace {

DataType checked_type(ncclDataType_t type) {
  const int value = static_cast<int>(type);
  if (value < 0 || value >= kDataTypeCount)
    fail(ErrorCode::invalid_argument, "{} is no data type: types are 0..{}", value, kDataTypeCount - 1);
  return static_cast<DataType>(value);
}

// Arguments are checked in this order: communicator, root or peer, type, operation.
void check_root(const runtime::Communicator& communicator, int root, const char* what) {
  if (root < 0 || root >= communicator.ranks())
    fail(ErrorCode::invalid_argument, "rank {}: {} {} is not a rank of 0..{}", communicator.rank(), what, root,
         communicator.ranks() - 1);
}

[[noreturn]] void fail_count(const runtime::Communicator& communicator, size_t count, DataType type, int blocks) {
  const auto as_signed = static_cast<long long>(count);
  fail(ErrorCode::invalid_argument,
       "rank {}: count {}{} of {} for {} ranks is more than memory can hold: give the number of elements",
       communicator.rank(), count, as_signed < 0 ? fmt::format(" ({} as a signed number)", as_signed) : "",
       info(type).name, blocks);
}

void check_count(const runtime::Communicator& communicator, size_t count, DataType type, int blocks) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size_bytes(type) * static_cast<size_t>(blocks), &bytes) ||
      bytes > host::kMostAddressableBytes)
    fail_count(communicator, count, type, blocks);
}

void check_buffer(const runtime::Communicator& communicator, const void* buffer, size_t bytes, const char* name) {
  if (buffer == nullptr && bytes > 0)
    fail(ErrorCode::invalid_argument, "rank {}: {} is NULL where {} bytes are to be: pass a buffer",
         communicator.rank(), name, bytes);
}

template <typename Submit>
runtime::Completion checked_collective(Collective kind, const Buffers& buffers, int op, int root, ncclComm_t comm,
                                       cudaStream_t stream, Submit&& submit) {
  const Pin pin(comm);
  const auto& communicator = pin.communicator();
  communicator->lifecycle().check_usable();
  check_root(*communicator, root, "root");
  const DataType type = checked_type(buffers.type);
  runtime::CollectiveRequest request{kind, buffers.send, buffers.recv, buffers.count, type, {}, root, stream};
  log_collective(pin, request, op);
  if (info(kind).reduces) request.reduction = communicator->reductions().resolve(op, type);
  if (buffers.count == 0) return runtime::Completion::done;
  check_count(*communicator, buffers.count, type, communicator->ranks());
  if (buffers.send == nullptr || buffers.recv == nullptr) {
    const runtime::BufferBytes used = runtime::buffer_bytes(request, communicator->rank(), communicator->ranks());
    check_buffer(*communicator, buffers.send, used.input, "sendbuff");
    check_buffer(*communicator, buffers.recv, used.output, "recvbuff");
  }
  return submit(communicator, request);
}

runtime::Completion collective(Collective kind, const Buffers& buffers, int op, int root, ncclComm_t comm,
                               cudaStream_t stream) {
  return checked_collective(kind, buffers, op, root, comm, stream, [](const auto& communicator, const auto& request) {
    return runtime::submit(communicator, request);
  });
}

runtime::Completion transfer(runtime::Direction direction, void* buffer, size_t count, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t stream) {
  const Pin pin(comm);
  const auto& communicator = pin.communicator();
  communicator->lifecycle().check_usable();
  check_root(*communicator, peer, "peer");
  const DataType checked = checked_type(type);
  check_count(*communicator, count, checked, 1);
  check_buffer(*communicator, buffer, count * size_bytes(checked),
               direction == runtime::Direction::send ? "sendbuff" : "recvbuff");
  const runtime::PointToPointRequest request{direction, buffer, count, checked, peer, stream};
  log_transfer(pin, request);
  return runtime::submit(communicator, request);
}

}  // namespace

runtime::Completion sccl::shim::submit_configured(Collective kind, const Buffers& buffers, int op, int root,
                                                  ncclComm_t comm, cudaStream_t stream,
                                                  const ncclCollConfig_t& config) {
  const runtime::CallOptions options = options_of(config, kind);
  return checked_collective(kind, buffers, op, root, comm, stream, [&](const auto& communicator, const auto& request) {
    return runtime::submit(communicator, request, options);
  });
}

extern "C" {

ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream) {
  return queued_short("ncclAllReduce", [&] {
    return collective(Collective::allreduce, {sendbuff, recvbuff, count, datatype}, op, 0, comm, stream);
  });
}

ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                         int root, ncclComm_t comm, cudaStream_t stream) {
  return queued_short("ncclReduce", [&] {
    return collective(Collective::reduce, {sendbuff, recvbuff, count, datatype}, op, root, comm, stream);
  });
}

ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return queued_short("ncclReduceScatter", [&] {
    return collective(Collective::reducescatter, {sendbuff, recvbuff, recvcount, datatype}, op, 0, comm, stream);
  });
}

ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                            ncclComm_t comm, cudaStream_t stream) {
  return queued_short("ncclAllGather", [&] {
    return collective(Collective::allgather, {sendbuff, recvbuff, sendcount, datatype}, 0, 0, comm, stream);
  });
}

ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                            ncclComm_t comm, cudaStream_t stream) {
  return queued_short("ncclBroadcast", [&] {
    return collective(Collective::broadcast, {sendbuff, recvbuff, count, datatype}, 0, root, comm, stream);
  });
}

ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return queued_short("ncclBcast", [&] {
    return collective(Collective::broadcast, {buff, buff, count, datatype}, 0, root, comm, stream);
  });
}

ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream) {
  return queued_short("ncclAlltoAll", [&] {
    return collective(Collective::alltoall, {sendbuff, recvbuff, count, datatype}, 0, 0, comm, stream);
  });
}

ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return queued_short("ncclGather", [&] {
    return collective(Collective::gather, {sendbuff, recvbuff, count, datatype}, 0, root, comm, stream);
  });
}

ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                          ncclComm_t comm, cudaStream_t stream) {
  return queued_short("ncclScatter", [&] {
    return collective(Collective::scatter, {sendbuff, recvbuff, count, datatype}, 0, root, comm, stream);
  });
}

ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return queued_short("ncclSend", [&] {
    return transfer(runtime::Direction::send, const_cast<void*>(sendbuff), count, datatype, peer, comm, stream);
  });
}

ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  return queued_short(
      "ncclRecv", [&] { return transfer(runtime::Direction::recv, recvbuff, count, datatype, peer, comm, stream); });
}

ncclResult_t pncclGroupStart(void) {
  return guarded("ncclGroupStart", [] { runtime::group_start(); });
}

ncclResult_t pncclGroupEnd(void) {
  return guarded("ncclGroupEnd", [] { return runtime::group_end(); });
}

SCCL_WEAK_NAME(AllReduce);
SCCL_WEAK_NAME(Reduce);
SCCL_WEAK_NAME(ReduceScatter);
SCCL_WEAK_NAME(AllGather);
SCCL_WEAK_NAME(Broadcast);
SCCL_WEAK_NAME(Bcast);
SCCL_WEAK_NAME(AlltoAll);
SCCL_WEAK_NAME(Gather);
SCCL_WEAK_NAME(Scatter);
SCCL_WEAK_NAME(Send);
SCCL_WEAK_NAME(Recv);
SCCL_WEAK_NAME(GroupStart);
SCCL_WEAK_NAME(GroupEnd);

}  // extern "C"
