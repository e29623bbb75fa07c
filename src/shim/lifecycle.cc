// Makes and ends communicators.
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/bootstrap/unique_id.h"
#include "shim/boundary.h"
#include "shim/config.h"
#include "shim/handles.h"
#include "shim/join.h"
#include "shim/version.h"

using namespace sccl;
using namespace sccl::shim;

namespace {

ncclUniqueId make_id() {
  tell_version();
  const runtime::UniqueId made = runtime::create_unique_id();
  ncclUniqueId id;
  std::memcpy(id.internal, made.bytes.data(), sizeof id);
  return id;
}

template <typename T>
void require_pointer(const T* pointer, const char* name) {
  if (pointer == nullptr) fail(ErrorCode::invalid_argument, "{} is NULL: pass a place for the result", name);
}

runtime::Completion init_rank(ncclComm_t* comm, int ranks, std::span<const ncclUniqueId> ids, int rank, int device,
                              const ncclConfig_t* config) {
  require_pointer(comm, "comm");
  return join(comm, ids, rank, ranks, [&] {
    tell_version();
    const ncclConfig_t read = read_config(config);
    runtime::CommunicatorOptions options{to_runtime(ids.front()), rank, ranks, device, -1, "", is_blocking(read)};
    for (const ncclUniqueId& id : ids.subspan(1)) options.further_ids.push_back(to_runtime(id));
    options.blocks = block_wishes(read);
    options.timeout_ms = timeout_ms(config);
    if (read.commName != nullptr) options.name = read.commName;
    if (read.netName != nullptr) options.net_name = read.netName;
    return options;
  });
}

runtime::Completion init_all(ncclComm_t* comms, int count, const int* devices) {
  require_pointer(comms, "comm");
  if (count < 1) fail(ErrorCode::invalid_argument, "ndev is {}: give at least 1", count);
  for (int i = 0; devices != nullptr && i < count; ++i)
    if (devices[i] < 0) fail(ErrorCode::invalid_argument, "devlist[{}] is {}: devices count from 0", i, devices[i]);
  const ncclUniqueId id = make_id();
  runtime::group_start();
  try {
    kept_in_group([&] {
      for (int rank = 0; rank < count; ++rank)
        init_rank(&comms[rank], count, {&id, 1}, rank, devices == nullptr ? rank : devices[rank], nullptr);
    });
  } catch (const std::exception&) {
    // The group's end throws it.
  }
  return runtime::group_end();
}

}  // namespace

extern "C" {

ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId) {
  return guarded("ncclGetUniqueId", [&] {
    require_pointer(uniqueId, "uniqueId");
    *uniqueId = make_id();
  });
}

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return queued("ncclCommInitRank", [&] { return init_rank(comm, nranks, {&commId, 1}, rank, 0, nullptr); });
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t* config) {
  return queued("ncclCommInitRankConfig", [&] { return init_rank(comm, nranks, {&commId, 1}, rank, 0, config); });
}

// Each id's root serves an equal part of the ranks: docs/multihost.md.
ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                                       ncclConfig_t* config) {
  return queued("ncclCommInitRankScalable", [&] {
    if (nId < 1 || nId > nranks)
      fail(ErrorCode::invalid_argument, "nId is {} for {} ranks: give 1 to the number of ranks", nId, nranks);
    require_pointer(commIds, "commIds");
    return init_rank(newcomm, nranks, {commIds, static_cast<std::size_t>(nId)}, myrank, 0, config);
  });
}

ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return queued("ncclCommInitAll", [&] { return init_all(comm, ndev, devlist); });
}

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  return guarded("ncclCommFinalize", [&] {
    if (comm != nullptr) communicator_of(comm)->finalize();
  });
}

ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  return guarded("ncclCommDestroy", [&] {
    if (comm == nullptr || is_left_to_parent(comm)) return;
    const std::shared_ptr<runtime::Communicator> communicator = take_communicator(comm);
    runtime::Lifecycle& lifecycle = communicator->lifecycle();
    // An init that waits for peers ends: nobody can use what it would make.
    if (lifecycle.now() == runtime::Lifecycle::State::created && lifecycle.background().running())
      return communicator->abort();
    lifecycle.background().settle();
  });
}

ncclResult_t pncclCommAbort(ncclComm_t comm) {
  return guarded("ncclCommAbort", [&] {
    if (comm == nullptr || is_left_to_parent(comm)) return;
    // The handle stays good until the end, so that a thread that asks for the state of its call learns when that call
    // has ended and its buffers are free.
    const std::shared_ptr<runtime::Communicator> communicator = begin_to_end(comm);
    communicator->abort();
    retire(comm);
  });
}

SCCL_WEAK_NAME(GetUniqueId);
SCCL_WEAK_NAME(CommInitRank);
SCCL_WEAK_NAME(CommInitRankConfig);
SCCL_WEAK_NAME(CommInitRankScalable);
SCCL_WEAK_NAME(CommInitAll);
SCCL_WEAK_NAME(CommFinalize);
SCCL_WEAK_NAME(CommDestroy);
SCCL_WEAK_NAME(CommAbort);

}  // extern "C"
