// What ranks of one process share by address: a rank registers an object and sends the token to its peers; peers in the
// same process find the object by the token.
#pragma once

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"

namespace sccl {

template <typename T>
class ProcessRegistry {
 public:
  // The registry of this process. Never destroyed: communicators may outlive static destruction.
  static ProcessRegistry& instance() {
    static auto* const registry = new ProcessRegistry;
    return *registry;
  }

  std::uint64_t add(const std::shared_ptr<T>& entry) {
    std::uint64_t token = 0;
    if (::getrandom(&token, sizeof token, 0) != static_cast<ssize_t>(sizeof token))
      fail_errno(errno, "getrandom", "allow the system call");
    add(token, entry);
    return token;
  }

  void add(std::uint64_t token, const std::shared_ptr<T>& entry) {
    const std::lock_guard lock(mutex_);
    forget_parents();
    std::erase_if(entries_, [](const auto& known) { return known.second.expired(); });
    entries_[token] = entry;
  }

  std::shared_ptr<T> find(std::uint64_t token) {
    const std::lock_guard lock(mutex_);
    forget_parents();
    const auto found = entries_.find(token);
    return found == entries_.end() ? nullptr : found->second.lock();
  }

 private:
  // A forked child has copies of its parent's entries, but not the parent's buffers.
  void forget_parents() {
    if (process_ == ::getpid()) return;
    process_ = ::getpid();
    entries_.clear();
  }

  std::mutex mutex_;
  pid_t process_ = ::getpid();
  std::map<std::uint64_t, std::weak_ptr<T>> entries_;
};

// A random number that identifies the object in this process only.
template <typename T>
std::uint64_t register_shared(const std::shared_ptr<T>& object) {
  return ProcessRegistry<T>::instance().add(object);
}

// Registers this process's object for an object of another process, under the token of the other process.
template <typename T>
void register_shared(std::uint64_t token, const std::shared_ptr<T>& object) {
  ProcessRegistry<T>::instance().add(token, object);
}

// The object registered in this process under the token; null if there is none.
template <typename T>
std::shared_ptr<T> find_shared(std::uint64_t token) {
  return ProcessRegistry<T>::instance().find(token);
}

}  // namespace sccl
