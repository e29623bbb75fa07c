// Windows and one-sided calls.
#include "runtime/windows/one_sided.h"

#include <vector>

#include "platform/host/exported_memory.h"
#include "runtime/communicator/device_interface.h"
#include "runtime/communicator/group.h"
#include "shim/boundary.h"
#include "shim/handles.h"

using namespace sccl;
using namespace sccl::shim;

namespace {

runtime::Completion register_window(ncclComm_t comm, void* base, size_t bytes, ncclWindow_t* win, int flags) {
  constexpr int kKnownFlags = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING;
  const auto communicator = communicator_of(comm);
  communicator->lifecycle().check_usable();
  if (win == nullptr) fail(ErrorCode::invalid_argument, "win is NULL: pass a place for the result");
  if ((flags & ~kKnownFlags) != 0)
    fail(ErrorCode::invalid_argument, "winFlags is {:#x}: only the flags NCCL_WIN_... of nccl.h are known", flags);
  if ((base == nullptr && bytes > 0) || bytes > host::kMostAddressableBytes)
    fail(ErrorCode::invalid_argument, "a window of {} bytes at {}: pass a buffer of that size", bytes,
         static_cast<const void*>(base));
  const auto use =
      (flags & NCCL_WIN_COLL_SYMMETRIC) != 0 ? runtime::WindowUse::symmetric : runtime::WindowUse::one_sided;
  return runtime::submit_setup(communicator,
                               [=] { *win = runtime::register_window(*communicator, base, bytes, use, flags); });
}

// The program chooses the numbers of contexts and signals; the flags are reserved.
runtime::SignalAddress checked_address(runtime::Communicator& communicator, int peer, int signal, int context,
                                       unsigned flags) {
  if (flags != 0) fail(ErrorCode::invalid_argument, "flags is {:#x}: it is reserved, pass 0", flags);
  const runtime::SignalAddress address{peer, signal, context};
  communicator.one_sided().check(address);
  return address;
}

runtime::Completion put_signal(const void* data, size_t count, ncclDataType_t datatype, ncclWindow_t win, size_t offset,
                               int peer, int signal, int context, unsigned flags, ncclComm_t comm,
                               cudaStream_t stream) {
  const auto communicator = communicator_of(comm);
  communicator->lifecycle().check_usable();
  const int type = static_cast<int>(datatype);
  if (type < 0 || type >= kDataTypeCount) fail(ErrorCode::invalid_argument, "{} is no data type", type);
  const runtime::SignalAddress to = checked_address(*communicator, peer, signal, context, flags);
  const runtime::Window& window = runtime::window_of(*communicator, win);
  const std::size_t element_bytes = size_bytes(static_cast<DataType>(type));
  if (offset > window.bytes || count > (window.bytes - offset) / element_bytes)
    fail(ErrorCode::invalid_argument, "{} elements at offset {} do not fit into a window of {} bytes", count, offset,
         window.bytes);
  if (data == nullptr && count > 0)
    fail(ErrorCode::invalid_argument, "localbuff is NULL where {} elements are to be read: pass a buffer", count);
  const std::span bytes(static_cast<const std::byte*>(data), count * element_bytes);
  return runtime::submit(communicator, runtime::PutRequest{bytes, &window, offset, to, stream});
}

runtime::Completion wait_signal(int count, const ncclWaitSignalDesc_t* descriptions, ncclComm_t comm,
                                cudaStream_t stream) {
  const auto communicator = communicator_of(comm);
  communicator->lifecycle().check_usable();
  if (count < 0 || (count > 0 && descriptions == nullptr))
    fail(ErrorCode::invalid_argument, "{} descriptions at {}: give an array of that length", count,
         static_cast<const void*>(descriptions));
  std::vector<runtime::SignalWait> waits;
  for (int i = 0; i < count; ++i) {
    const ncclWaitSignalDesc_t& one = descriptions[i];
    if (one.opCnt < 0) fail(ErrorCode::invalid_argument, "description {} waits for {} signals", i, one.opCnt);
    waits.push_back(
        {checked_address(*communicator, one.peer, one.sigIdx, one.ctx, 0), static_cast<std::uint64_t>(one.opCnt)});
  }
  return runtime::submit(communicator, std::move(waits), stream);
}

}  // namespace

extern "C" {

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags) {
  return queued("ncclCommWindowRegister", [&] { return register_window(comm, buff, size, win, winFlags); });
}

// NULL is the window that a registration without effect returned.
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return guarded("ncclCommWindowDeregister", [&] {
    if (win != nullptr) runtime::deregister_window(*communicator_of(comm), win);
  });
}

ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr) {
  return guarded("ncclWinGetUserPtr", [&] {
    if (outUserPtr == nullptr) fail(ErrorCode::invalid_argument, "outUserPtr is NULL: pass a place for the result");
    *outUserPtr = runtime::window_of(*communicator_of(comm), win).base;
  });
}

ncclResult_t pncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags,
                            ncclComm_t comm, cudaStream_t stream) {
  return queued("ncclPutSignal", [&] {
    return put_signal(localbuff, count, datatype, peerWin, peerWinOffset, peer, sigIdx, ctx, flags, comm, stream);
  });
}

ncclResult_t pncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
  return queued("ncclSignal", [&] {
    const auto communicator = communicator_of(comm);
    communicator->lifecycle().check_usable();
    const auto to = checked_address(*communicator, peer, sigIdx, ctx, flags);
    return runtime::submit(communicator, runtime::PutRequest{{}, nullptr, 0, to, stream});
  });
}

ncclResult_t pncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm, cudaStream_t stream) {
  return queued("ncclWaitSignal", [&] { return wait_signal(nDesc, signalDescs, comm, stream); });
}

SCCL_WEAK_NAME(CommWindowRegister);
SCCL_WEAK_NAME(CommWindowDeregister);
SCCL_WEAK_NAME(WinGetUserPtr);
SCCL_WEAK_NAME(PutSignal);
SCCL_WEAK_NAME(Signal);
SCCL_WEAK_NAME(WaitSignal);

}  // extern "C"
