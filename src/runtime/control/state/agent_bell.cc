#include "runtime/control/state/agent_bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace sccl::runtime {

FileDescriptor AgentBell::make_wake() {
  FileDescriptor made(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!made.valid()) fail_errno(errno, "opening an event descriptor", "raise the limit on open files (ulimit -n)");
  return made;
}

void AgentBell::ring(Rank rank) const {
  if (rank < 0 || !wakes[static_cast<std::size_t>(rank)]) return;
  const std::uint64_t one = 1;
  // The write fails only if the counter is full; then the agent is to wake anyway.
  [[maybe_unused]] const ssize_t written = ::write(descriptor(rank), &one, sizeof one);
}

void AgentBell::drain(Rank rank) const {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(descriptor(rank), &count, sizeof count);
}

}  // namespace sccl::runtime
