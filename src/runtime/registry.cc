#include "runtime/registry.h"

#include <sys/random.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "base/error.h"

namespace sccl::runtime {
namespace {

struct Registry {
  std::mutex mutex;
  pid_t process = ::getpid();
  std::map<std::uint64_t, std::weak_ptr<host::Segment>> segments;

  // A forked child has copies of its parent's entries but not its parent's buffers.
  void forget_parents() {
    if (process == ::getpid()) return;
    process = ::getpid();
    segments.clear();
  }
};

// Never destroyed: communicators may outlive static destruction.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

}  // namespace

std::uint64_t register_segment(const std::shared_ptr<host::Segment>& segment) {
  std::uint64_t token = 0;
  if (::getrandom(&token, sizeof token, 0) != static_cast<ssize_t>(sizeof token))
    fail_errno(errno, "getrandom", "allow the system call");
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.forget_parents();
  std::erase_if(all.segments, [](const auto& entry) { return entry.second.expired(); });
  all.segments[token] = segment;
  return token;
}

std::shared_ptr<host::Segment> find_segment(std::uint64_t token) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.forget_parents();
  const auto found = all.segments.find(token);
  return found == all.segments.end() ? nullptr : found->second.lock();
}

}  // namespace sccl::runtime
