#include "runtime/communicator/async_error.h"

#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/settings/log.h"
#include "runtime/gpu/kernel/device_executor.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {
namespace {

// A rank that is in a call learns it there. Kernels in flight are watched elsewhere, and their buffers must be taken
// back before the code is seen.
void look_for_lost_hosts(Communicator& communicator) {
  Lifecycle& lifecycle = communicator.lifecycle();
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

// The reason is known by then: of the watching thread's period and of the time that a peer has to give its own.
constexpr std::chrono::milliseconds kReasonLimit{1500};

// A kernel that was stopped has ended, and so may its stream: a program that asks now must not take the result for
// right. The watching thread tells the reason within a few milliseconds.
void await_reason_of_stop(Communicator& communicator) {
  DeviceExecutor* const device = communicator.on_device();
  if (device == nullptr || !device->in_flight().kernel_was_stopped()) return;
  const auto limit = std::chrono::steady_clock::now() + kReasonLimit;
  while (communicator.lifecycle().async_error() == 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

int async_error(Communicator& communicator) {
  Lifecycle& lifecycle = communicator.lifecycle();
  if (lifecycle.now() == Lifecycle::State::ready && !lifecycle.background().running()) {
    look_for_lost_hosts(communicator);
    await_reason_of_stop(communicator);
  }
  return lifecycle.async_error();
}

}  // namespace sccl::runtime
