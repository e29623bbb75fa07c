#include "runtime/communicator/async_error.h"

#include "base/error.h"
#include "base/settings/log.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {
namespace {

// A rank that is in a call learns it there. Kernels in flight are watched elsewhere, and their buffers must be taken
// back before the code is seen.
void look_for_lost_hosts(Communicator& communicator) {
  Lifecycle& lifecycle = communicator.lifecycle();
  if (lifecycle.now() != Lifecycle::State::ready || lifecycle.background().running()) return;
  const Membership& membership = communicator.membership();
  if (!membership.hosts.are_several() || communicator.on_host() == nullptr) return;
  if (Communicator::RunningCall::exists(communicator)) return;
  try {
    membership.control.health().check_lost("no call");
  } catch (const Error& error) {
    log::set_last_error(error.what());
    lifecycle.note_text(error.what());
    lifecycle.begin_failure(error.code());
    lifecycle.end_failure();
  }
}

}  // namespace

int async_error(Communicator& communicator) {
  look_for_lost_hosts(communicator);
  return communicator.lifecycle().async_error();
}

}  // namespace sccl::runtime
