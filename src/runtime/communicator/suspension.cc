#include "runtime/communicator/suspension.h"

#include "base/settings/env.h"
#include "runtime/communicator/communicator.h"
#include "runtime/control/control_all_gather.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

void suspend(Communicator& communicator) {
  const auto deadline = Deadline::in(init_timeout());
  // Barrier: no earlier call is in flight on any rank. No rank begins a new call before all ranks call resume().
  communicator.control_all_gather().all_gather("ncclCommSuspend", {}, deadline);
  const Membership& membership = communicator.membership();
  const MemoryLayout& layout = membership.layout;
  membership.peer(communicator.rank()).segment->release(layout.payloads_offset(), layout.payloads_bytes());
  communicator.lifecycle().enter(Lifecycle::State::ready, Lifecycle::State::suspended);
}

void resume(Communicator& communicator) {
  communicator.control_all_gather().all_gather("ncclCommResume", {}, Deadline::in(init_timeout()));
  communicator.lifecycle().enter(Lifecycle::State::suspended, Lifecycle::State::ready);
}

MemoryUse memory_use(Communicator& communicator) {
  const MemoryLayout& layout = communicator.made_membership().layout;
  return {layout.payloads_bytes(), layout.payloads_offset(),
          communicator.lifecycle().now() == Lifecycle::State::suspended};
}

}  // namespace sccl::runtime
