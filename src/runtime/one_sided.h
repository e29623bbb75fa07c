// Windows, and transfers in which only one side takes part: data written into a peer's window, and signals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/assembly.h"
#include "runtime/membership.h"

namespace sccl::runtime {

// A buffer of every rank, known to all of them.
struct Window {
  void* base = nullptr;  // this rank's
  std::size_t bytes = 0;
  std::vector<std::uint64_t> bases;  // by rank
};

struct SignalAddress {
  Rank peer = 0;
  int signal = 0;
  int context = 0;
};

struct SignalWait {
  SignalAddress from;
  std::uint64_t count = 1;
};

// One rank's. Windows and registrations may be looked up by any thread, the rest is for the thread that makes calls.
class OneSided {
 public:
  // Both must outlive it.
  OneSided(const Membership& membership, Assembly& assembly);

  // Collective; null, with one line that says why, where ranks cannot write into one another's memory. Throws
  // invalid_argument when the ranks' sizes differ.
  const Window* register_window(void* base, std::size_t bytes);
  void deregister_window(const Window* window);    // invalid_usage for one that is not registered
  const Window& window(const Window* handle) const;  // the same

  // Registration of a buffer gains nothing on the host platform; the handles are kept so that a wrong one is noticed.
  void* register_buffer(void* base, std::size_t bytes);
  void deregister_buffer(void* handle);

  // Complete when it returns: the peer can read the data, and sees the signal after it.
  void put(std::span<const std::byte> data, const Window& window, std::size_t offset, const SignalAddress& to);
  void signal(const SignalAddress& to);

  // Returns when all signals have come; they are used up then. Throws as Assembly does.
  void wait(std::span<const SignalWait> waits);

  void check(const SignalAddress& address) const;

 private:
  std::uint64_t arrived(const SignalAddress& from) const;

  const Membership& membership_;
  Assembly& assembly_;
  std::vector<std::uint64_t> used_;  // signals that wait() has used up, by peer, signal and context
  mutable std::mutex mutex_;         // guards what follows
  std::map<const Window*, std::unique_ptr<Window>> windows_;
  std::map<void*, std::unique_ptr<std::pair<void*, std::size_t>>> buffers_;
};

}  // namespace sccl::runtime
