// Drives the calls of one thread to their end, for one communicator or for several at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "platform/gpu/foreign_stream.h"
#include "runtime/call/requests.h"
#include "runtime/settings/call_wish.h"
#include "runtime/windows/one_sided.h"

namespace sccl::runtime {

class Communicator;

struct AskedCall {
  std::size_t index;  // of its collective
  CallOptions options;
};

// What one communicator has to do, in NCCL's order within a group: collectives one after another, then all transfers
// together. One-sided work goes round both.
struct Workload {
  std::shared_ptr<Communicator> communicator;
  std::vector<CollectiveRequest> collectives;
  std::vector<AskedCall> asked;  // collectives with options, in the same order
  std::vector<PointToPointRequest> transfers;
  std::vector<PutRequest> puts;            // before collectives and transfers
  std::vector<SignalWait> waits;           // after collectives and transfers
  std::vector<StreamHandle> wait_streams;  // one of each call that waits
  std::vector<gpu::ForeignStream> behind;  // on the host: everything comes after what is on them

  // Null where the collective has none.
  const CallOptions* options_of(std::size_t index) const {
    for (const AskedCall& one : asked)
      if (one.index == index) return &one.options;
    return nullptr;
  }
};

enum class RestOfGroup : std::uint8_t { not_made, under_way };

// Between a put and its group's end a program may have deregistered the window. Throws invalid_usage, whose text says
// what has become of the group's other calls.
void check_windows(const Workload& work, RestOfGroup rest = RestOfGroup::not_made);

// Returns when all work is done. If a communicator fails, it is marked as failed and its remaining work is dropped. The
// other communicators' work still ends: it completes, or the failure reaches it. Then the first error is thrown.
void drive(std::vector<Workload>& work);

// The common cases, without allocation: one call of one communicator, or transfers of one communicator on the host that
// no profiler wants to know of.
void drive(Communicator& communicator, const CollectiveRequest& request);
void drive(Communicator& communicator, std::span<const PointToPointRequest> transfers);

}  // namespace sccl::runtime
