#include "messages/descriptor.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace sccl_torch {
namespace {

struct Registry {
  std::mutex mutex;  // held while this process forks
  std::set<int> descriptors;
};

// Never destroyed: groups may outlive static destruction.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

// The numbers stay taken, since the child's copies of their owners know them. Neither allocates nor frees: another
// thread may have held the allocator's lock at the fork.
void part_in_child() {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : registry().descriptors)
    if (nothing >= 0) ::dup3(nothing, fd, O_CLOEXEC);
  if (nothing >= 0) ::close(nothing);
  registry().mutex.unlock();
}

void watch_forks() {
  static const int registered =
      ::pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); }, part_in_child);
  (void)registered;
}

}  // namespace

Descriptor::Descriptor(int fd) : fd_(fd) {
  if (fd < 0) return;
  watch_forks();
  const std::lock_guard<std::mutex> lock(registry().mutex);
  registry().descriptors.insert(fd);
}

// Under the lock: a child between the two would lose another file's descriptor of the same number.
void Descriptor::reset() noexcept {
  if (fd_ < 0) return;
  const std::lock_guard<std::mutex> lock(registry().mutex);
  registry().descriptors.erase(fd_);
  ::close(std::exchange(fd_, -1));
}

}  // namespace sccl_torch
