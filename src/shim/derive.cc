// Makes communicators from communicators, and ends communicators without destroying them.
#include "runtime/communicator/derive.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/os/out_of_memory.h"
#include "runtime/communicator/group.h"
#include "runtime/communicator/suspension.h"
#include "shim/boundary.h"
#include "shim/config.h"
#include "shim/handles.h"
#include "shim/join.h"

using namespace sccl;
using namespace sccl::shim;

namespace {

using Parent = std::shared_ptr<runtime::Communicator>;
using Begin = std::function<void()>;

// NULL: the child inherits the parent's configuration.
runtime::ChildOptions child_options(const runtime::Communicator* parent, const ncclConfig_t* config) {
  runtime::ChildOptions options;
  if (parent != nullptr)
    options = {parent->options().name, parent->options().blocking, parent->options().blocks,
               parent->options().timeout_ms};
  if (config == nullptr) return options;
  const ncclConfig_t read = read_config(config);
  if (read.commName != nullptr) options.name = read.commName;
  options.blocking = is_blocking(read);
  options.blocks = block_wishes(read);
  options.timeout_ms = timeout_ms(config);
  return options;
}

void require_place(ncclComm_t* newcomm) {
  if (newcomm == nullptr) fail(ErrorCode::invalid_argument, "newcomm is NULL: pass a place for the result");
}

// Programs poll this place while a library thread makes the communicator.
void deliver(ncclComm_t* newcomm, const Parent& child) {
  ncclComm_t handle = nullptr;
  try {
    if (child) handle = make_handle(child);
  } catch (const std::bad_alloc&) {
    child->record_failure(Error(ErrorCode::system_error, kOutOfMemory));
    throw;
  }
  std::atomic_ref<ncclComm_t>(*newcomm).store(handle, std::memory_order_release);  // pairs with the program's polling
}

runtime::Completion split(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, const ncclConfig_t* config) {
  const Parent parent = communicator_of(comm);
  require_place(newcomm);
  parent->lifecycle().check_parent();
  return runtime::submit_setup(parent, runtime::GiveUp{&runtime::give_up_split}, [&] {
    const auto options = child_options(parent.get(), config);
    return Begin([=] { deliver(newcomm, runtime::split(*parent, color, key, options)); });
  });
}

runtime::Completion shrink(ncclComm_t comm, const int* excluded, int count, ncclComm_t* newcomm,
                           const ncclConfig_t* config, int flags) {
  const Parent parent = communicator_of(comm);
  require_place(newcomm);
  if (excluded == nullptr || count < 1)
    fail(ErrorCode::invalid_argument, "{} ranks are to be excluded, at {}: name at least one", count,
         static_cast<const void*>(excluded));
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
    fail(ErrorCode::invalid_argument, "shrinkFlags is {}: give NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT", flags);
  if (flags == NCCL_SHRINK_ABORT && parent->lifecycle().now() != runtime::Communicator::State::revoked)
    parent->revoke();
  parent->lifecycle().check_parent();
  const std::span<const int> all(excluded, static_cast<std::size_t>(count));
  return runtime::submit_setup(parent, runtime::giving_up_shrink(*parent, all), [&] {
    const auto options = child_options(parent.get(), config);
    const std::vector<int> list(all.begin(), all.end());
    return Begin([=] { deliver(newcomm, runtime::shrink(*parent, list, options)); });
  });
}

runtime::Completion join_grown(int ranks, const ncclUniqueId* id, int rank, ncclComm_t* newcomm,
                               const ncclConfig_t* config) {
  if (id == nullptr)
    fail(ErrorCode::invalid_argument, "uniqueId is NULL: a new rank needs the id of the growing ranks");
  return join(newcomm, {id, 1}, rank, ranks, [&] {
    const auto options = child_options(nullptr, config);
    runtime::CommunicatorOptions made{to_runtime(*id), rank, ranks, 0, -1, options.name, options.blocking};
    made.blocks = options.blocks;
    made.timeout_ms = options.timeout_ms;
    return made;
  });
}

runtime::Completion grow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* newcomm,
                         const ncclConfig_t* config) {
  require_place(newcomm);
  if (comm == nullptr) return join_grown(ranks, id, rank, newcomm, config);
  const Parent parent = communicator_of(comm);
  if (rank != -1 && rank != parent->rank())
    fail(ErrorCode::invalid_argument, "rank {} keeps its number: pass -1 instead of {}", parent->rank(), rank);
  parent->lifecycle().check_parent();
  std::optional<runtime::UniqueId> given;
  if (id != nullptr) given = to_runtime(*id);
  return runtime::submit_setup(parent, runtime::GiveUp{&runtime::give_up_grow, 0, given, ranks}, [&] {
    const auto options = child_options(parent.get(), config);
    return Begin([=] { deliver(newcomm, runtime::grow(*parent, ranks, given, options)); });
  });
}

}  // namespace

extern "C" {

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  return queued("ncclCommSplit", [&] { return split(comm, color, key, newcomm, config); });
}

ncclResult_t pncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                             ncclConfig_t* config, int shrinkFlags) {
  return queued("ncclCommShrink",
                [&] { return shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags); });
}

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId) {
  return guarded("ncclCommGetUniqueId", [&] {
    const auto communicator = communicator_of(comm);
    if (uniqueId == nullptr) fail(ErrorCode::invalid_argument, "uniqueId is NULL: pass a place for the result");
    communicator->lifecycle().check_usable();
    const runtime::UniqueId made = communicator->grow_id().create(communicator->rank());
    std::memcpy(uniqueId->internal, made.bytes.data(), sizeof *uniqueId);
  });
}

ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  return queued("ncclCommGrow", [&] { return grow(comm, nRanks, uniqueId, rank, newcomm, config); });
}

ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  return guarded("ncclCommRevoke", [&] {
    if (comm == nullptr) return;
    const auto communicator = communicator_of(comm);
    if (revokeFlags != NCCL_REVOKE_DEFAULT)
      fail(ErrorCode::invalid_argument, "revokeFlags is {}: give NCCL_REVOKE_DEFAULT", revokeFlags);
    communicator->revoke();
  });
}

ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags) {
  return guarded("ncclCommSuspend", [&] {
    const auto communicator = communicator_of(comm);
    if (flags != NCCL_SUSPEND_MEM) fail(ErrorCode::invalid_argument, "flags is {}: give NCCL_SUSPEND_MEM", flags);
    communicator->lifecycle().check_usable();
    return runtime::submit_setup(communicator, [communicator] { runtime::suspend(*communicator); });
  });
}

ncclResult_t pncclCommResume(ncclComm_t comm) {
  return guarded("ncclCommResume", [&] {
    const auto communicator = communicator_of(comm);
    communicator->lifecycle().check_suspended();
    return runtime::submit_setup(communicator, [communicator] { runtime::resume(*communicator); });
  });
}

SCCL_WEAK_NAME(CommSplit);
SCCL_WEAK_NAME(CommShrink);
SCCL_WEAK_NAME(CommGetUniqueId);
SCCL_WEAK_NAME(CommGrow);
SCCL_WEAK_NAME(CommRevoke);
SCCL_WEAK_NAME(CommSuspend);
SCCL_WEAK_NAME(CommResume);

}  // extern "C"
