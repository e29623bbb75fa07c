// A vendor's library for tests: another build of this library behind functions that fail, hang or count on request.
//
// FAULTY_VENDOR is a list of faults, each FUNCTION:FAULT or FUNCTION:FAULT:RANK, separated by commas; without a rank
// all ranks have it. FAULT is fail, hang or meet: it returns when all ranks are in it; version:NUMBER is another
// version; CommWindowRegister:virtual takes memory of cuMemCreate alone, as NCCL does. Calls that were served are
// counted in faulty_vendor_calls(), those that hang now in faulty_vendor_hanging().
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "nccl_shim/nccl.h"
#include "nccl_shim/nccl_device.h"

namespace {

std::atomic<int> calls{0};
std::atomic<int> hanging{0};

void* copy() {
  static void* const handle = ::dlopen(VENDOR_COPY, RTLD_NOW | RTLD_LOCAL);
  return handle;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(copy(), name));
}

struct Ranks {
  std::mutex mutex;
  std::map<ncclComm_t, int> of;
  int count = 0;                   // of the communicator that was made last
  std::map<std::string, int> met;  // calls that have begun, by function
  std::map<ncclWindow_t, void*> windows;
  std::map<void*, void*> buffers;  // by handle
};
Ranks& ranks() {
  static auto* const instance = new Ranks;
  return *instance;
}

int rank_of(ncclComm_t comm) {
  const std::lock_guard lock(ranks().mutex);
  return ranks().of[comm];
}

bool is_asked(const std::string& function, const std::string& fault, int rank) {
  const char* const text = std::getenv("FAULTY_VENDOR");
  const std::string list = "," + std::string(text == nullptr ? "" : text) + ",";
  const std::string wanted = "," + function + ":" + fault;
  return list.find(wanted + ",") != std::string::npos ||
         list.find(wanted + ":" + std::to_string(rank) + ",") != std::string::npos;
}

// Returns when every rank of the communicator has made as many calls, as NCCL does where a call connects its ranks.
void meet(const std::string& function) {
  std::unique_lock lock(ranks().mutex);
  const int own = ranks().met[function]++;
  const int wanted = (own / ranks().count + 1) * ranks().count;
  while (ranks().met[function] < wanted) {
    lock.unlock();
    ::usleep(2000);
    lock.lock();
  }
}

// Success unless the function is to fail.
ncclResult_t meet_fault(const std::string& function, int rank) {
  if (is_asked(function, "hang", rank)) {
    ++hanging;
    while (is_asked(function, "hang", rank)) ::usleep(20000);
    --hanging;
    return ncclInternalError;  // after the test: what it was called with is no more
  }
  if (is_asked(function, "meet", rank)) meet(function);
  return is_asked(function, "fail", rank) ? ncclInternalError : ncclSuccess;
}

bool is_virtual_memory(void* address) {
  using Retain = int(unsigned long long*, void*);
  using Release = int(unsigned long long);
  const auto retain = reinterpret_cast<Retain*>(::dlsym(RTLD_DEFAULT, "cuMemRetainAllocationHandle"));
  const auto release = reinterpret_cast<Release*>(::dlsym(RTLD_DEFAULT, "cuMemRelease"));
  unsigned long long handle = 0;
  return retain != nullptr && retain(&handle, address) == 0 && release(handle) == 0;
}

template <typename... Arguments>
ncclResult_t served(const char* function, ncclComm_t comm, Arguments... arguments) {
  ++calls;
  const ncclResult_t fault = meet_fault(function, rank_of(comm));
  if (fault != ncclSuccess) return fault;
  return real<ncclResult_t(Arguments...)>(("nccl" + std::string(function)).c_str())(arguments...);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int faulty_vendor_calls() { return calls.exchange(0); }
int faulty_vendor_hanging() { return hanging.load(); }

// How many of its communicators know the buffer.
int faulty_vendor_knows(const void* buffer) {
  const std::lock_guard lock(ranks().mutex);
  return static_cast<int>(std::count_if(ranks().buffers.begin(), ranks().buffers.end(),
                                        [&](const auto& known) { return known.second == buffer; }));
}

ncclResult_t ncclGetVersion(int* version) {
  const ncclResult_t result = real<decltype(ncclGetVersion)>("ncclGetVersion")(version);
  if (is_asked("version", "other", -1)) *version = 22809;
  return result;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const ncclResult_t fault = meet_fault("GetUniqueId", 0);
  return fault != ncclSuccess ? fault : real<decltype(ncclGetUniqueId)>("ncclGetUniqueId")(id);
}

const char* ncclGetErrorString(ncclResult_t result) {
  return real<decltype(ncclGetErrorString)>("ncclGetErrorString")(result);
}

const char* ncclGetLastError(ncclComm_t) { return "the test asked for it"; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const ncclResult_t fault = meet_fault("CommInitRankConfig", rank); fault != ncclSuccess) return fault;
  const ncclResult_t result =
      real<decltype(ncclCommInitRankConfig)>("ncclCommInitRankConfig")(comm, nranks, id, rank, config);
  const std::lock_guard lock(ranks().mutex);
  if (result == ncclSuccess) ranks().of[*comm] = rank;
  ranks().count = nranks;
  return result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const ncclResult_t fault = meet_fault("CommDestroy", rank_of(comm));
  return fault != ncclSuccess ? fault : real<decltype(ncclCommDestroy)>("ncclCommDestroy")(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) { return real<decltype(ncclCommAbort)>("ncclCommAbort")(comm); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  *result = ncclSystemError;
  if (is_asked("CommGetAsyncError", "fail", rank_of(comm))) return ncclSuccess;
  return real<decltype(ncclCommGetAsyncError)>("ncclCommGetAsyncError")(comm, result);
}

#ifndef LACKS_ALL_REDUCE
ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return served("AllReduce", comm, send, recv, count, type, op, comm, stream);
}
#endif

ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return served("Reduce", comm, send, recv, count, type, op, root, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return served("ReduceScatter", comm, send, recv, count, type, op, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return served("AllGather", comm, send, recv, count, type, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return served("Broadcast", comm, send, recv, count, type, root, comm, stream);
}

#ifdef HAS_RCCL_NAMES
#define ncclAlltoAll ncclAllToAll
#endif
ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return served("AlltoAll", comm, send, recv, count, type, comm, stream);
}

ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return served("Gather", comm, send, recv, count, type, root, comm, stream);
}

ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  return served("Scatter", comm, send, recv, count, type, root, comm, stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return real<decltype(ncclRedOpCreatePreMulSum)>("ncclRedOpCreatePreMulSum")(op, scalar, type, residence, comm);
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return real<decltype(ncclRedOpDestroy)>("ncclRedOpDestroy")(op, comm);
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t size, void** handle) {
  const ncclResult_t fault = meet_fault("CommRegister", rank_of(comm));
  if (fault != ncclSuccess) return fault;
  const ncclResult_t result = real<decltype(ncclCommRegister)>("ncclCommRegister")(comm, buffer, size, handle);
  const std::lock_guard lock(ranks().mutex);
  if (result == ncclSuccess) ranks().buffers[*handle] = buffer;
  return result;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  {
    const std::lock_guard lock(ranks().mutex);
    if (ranks().buffers.erase(handle) == 0) return ncclInvalidArgument;
  }
  return real<decltype(ncclCommDeregister)>("ncclCommDeregister")(comm, handle);
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window, int flags) {
  const ncclResult_t fault = meet_fault("CommWindowRegister", rank_of(comm));
  if (fault != ncclSuccess) return fault;
  if (is_asked("CommWindowRegister", "virtual", rank_of(comm)) && !is_virtual_memory(buffer))
    return ncclUnhandledCudaError;
  const ncclResult_t result =
      real<decltype(ncclCommWindowRegister)>("ncclCommWindowRegister")(comm, buffer, size, window, flags);
  const std::lock_guard lock(ranks().mutex);
  ranks().windows[*window] = buffer;
  return result;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  {
    const std::lock_guard lock(ranks().mutex);
    if (ranks().windows.erase(window) == 0) return ncclInvalidArgument;
  }
  return real<decltype(ncclCommWindowDeregister)>("ncclCommWindowDeregister")(comm, window);
}

// A device communicator of this library is the rank.
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements*, ncclDevComm* out) {
  const ncclResult_t fault = meet_fault("DevCommCreate", rank_of(comm));
  if (fault != ncclSuccess) return fault;
  const std::lock_guard lock(ranks().mutex);
  if (!ranks().of.contains(comm)) return ncclInvalidArgument;
  out->rank = ranks().of[comm];
  return ncclSuccess;
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm* made) {
  const std::lock_guard lock(ranks().mutex);
  return ranks().of.contains(comm) && made->rank == ranks().of[comm] ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* properties) {
  properties->rank = rank_of(comm);
  properties->deviceApiSupport = true;
  return ncclSuccess;
}

ncclTeam ncclTeamLsa(ncclComm_t comm) { return {2, rank_of(comm), 1}; }

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int, void** out) {
  const std::lock_guard lock(ranks().mutex);
  if (!ranks().windows.contains(window)) return ncclInvalidArgument;
  *out = static_cast<char*>(ranks().windows[window]) + offset;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() { return real<decltype(ncclGroupStart)>("ncclGroupStart")(); }
ncclResult_t ncclGroupEnd() { return real<decltype(ncclGroupEnd)>("ncclGroupEnd")(); }

}  // extern "C"
#pragma GCC visibility pop
