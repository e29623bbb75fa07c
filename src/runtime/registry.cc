#include "runtime/registry.h"

#include <sys/random.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "base/error.h"

namespace sccl::runtime {
namespace {

template <typename T>
class Registry {
 public:
  std::uint64_t add(const std::shared_ptr<T>& entry) {
    std::uint64_t token = 0;
    if (::getrandom(&token, sizeof token, 0) != static_cast<ssize_t>(sizeof token))
      fail_errno(errno, "getrandom", "allow the system call");
    const std::lock_guard lock(mutex_);
    forget_parents();
    std::erase_if(entries_, [](const auto& known) { return known.second.expired(); });
    entries_[token] = entry;
    return token;
  }

  std::shared_ptr<T> find(std::uint64_t token) {
    const std::lock_guard lock(mutex_);
    forget_parents();
    const auto found = entries_.find(token);
    return found == entries_.end() ? nullptr : found->second.lock();
  }

 private:
  // A forked child has copies of its parent's entries but not its parent's buffers.
  void forget_parents() {
    if (process_ == ::getpid()) return;
    process_ = ::getpid();
    entries_.clear();
  }

  std::mutex mutex_;
  pid_t process_ = ::getpid();
  std::map<std::uint64_t, std::weak_ptr<T>> entries_;
};

// Never destroyed: communicators may outlive static destruction.
template <typename T>
Registry<T>& registry() {
  static auto* const instance = new Registry<T>;
  return *instance;
}

}  // namespace

std::uint64_t register_segment(const std::shared_ptr<host::Segment>& segment) {
  return registry<host::Segment>().add(segment);
}
std::shared_ptr<host::Segment> find_segment(std::uint64_t token) { return registry<host::Segment>().find(token); }

std::uint64_t register_memory(const std::shared_ptr<gpu::DeviceMemory>& memory) {
  return registry<gpu::DeviceMemory>().add(memory);
}
std::shared_ptr<gpu::DeviceMemory> find_memory(std::uint64_t token) {
  return registry<gpu::DeviceMemory>().find(token);
}

std::uint64_t register_flags(const std::shared_ptr<FlagPage>& page) { return registry<FlagPage>().add(page); }
std::shared_ptr<FlagPage> find_flags(std::uint64_t token) { return registry<FlagPage>().find(token); }

std::uint64_t register_staged(const std::shared_ptr<StagedMemory>& memory) {
  return registry<StagedMemory>().add(memory);
}
std::shared_ptr<StagedMemory> find_staged(std::uint64_t token) { return registry<StagedMemory>().find(token); }

std::uint64_t register_neighbour(const std::shared_ptr<DeviceNeighbour>& neighbour) {
  return registry<DeviceNeighbour>().add(neighbour);
}
std::shared_ptr<DeviceNeighbour> find_neighbour(std::uint64_t token) { return registry<DeviceNeighbour>().find(token); }

}  // namespace sccl::runtime
