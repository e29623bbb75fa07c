#include "platform/host/unforked_descriptor.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

#include "base/error.h"

namespace sccl::host {
namespace {

struct Registry {
  std::mutex mutex;  // held while this process forks
  std::set<int> descriptors;
};

// Never destroyed: communicators may outlive static destruction.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

// Neither allocates nor frees: another thread may have held the allocator's lock at the fork.
void part_in_child() {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : registry().descriptors) {
    if (nothing >= 0)
      ::dup3(nothing, descriptor, O_CLOEXEC);
    else
      ::close(descriptor);
  }
  if (nothing >= 0) ::close(nothing);
  registry().mutex.unlock();
}

void watch_forks() {
  static const int error =
      ::pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); }, part_in_child);
  if (error != 0) fail_errno(error, "pthread_atfork", "free memory");
}

}  // namespace

UnforkedDescriptor::UnforkedDescriptor(FileDescriptor descriptor) {
  if (!descriptor.valid()) return;
  watch_forks();
  const std::lock_guard lock(registry().mutex);
  registry().descriptors.insert(descriptor.get());
  fd_ = descriptor.release();
}

// Under the lock: a child between the two would have its number led elsewhere that is another file's by then.
void UnforkedDescriptor::reset() noexcept {
  if (fd_ < 0) return;
  const std::lock_guard lock(registry().mutex);
  registry().descriptors.erase(fd_);
  ::close(std::exchange(fd_, -1));
}

}  // namespace sccl::host
