// What the functions of the fake driver share: its state, streams that are threads, injected failures.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "gpu/fake_cuda.h"
#include "gpu/host_device.h"

namespace fake {

using u64 = unsigned long long;

inline constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidContext = 201,
                     kPeerAccessUnsupported = 217, kInvalidHandle = 400, kNotReady = 600, kCaptureUnsupported = 900,
                     kCaptureIsolation = 905;
inline constexpr std::size_t kGranularity = 65536;
inline constexpr sccl::device::u32 kThreads = 2;      // of a block, whatever is asked for
inline constexpr sccl::device::u32 kLineThreads = 8;  // of one whose messages are lines

struct Marker {
  std::atomic<bool> done{false};
  double at_us = 0;  // of the stream's counted work
};

struct UserObject {
  void* pointer;
  void (*destroy)(void*);
};

struct Graph {
  u64 id = 0;
  int mode = 0;
  std::vector<std::function<void()>> work;
  std::vector<std::shared_ptr<UserObject>> objects;
};

struct FakeStream;
inline thread_local FakeStream* working = nullptr;  // whose worker this is

struct FakeStream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool busy = false, ending = false;
  double worked_us = 0;  // what its copies and moves would have taken; of the worker
  std::shared_ptr<Graph> capture;
  std::thread worker{[this] { run(); }};

  ~FakeStream() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    worker.join();
  }
  void run() {
    working = this;
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !queue.empty(); });
      if (queue.empty()) return;
      const auto work = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      work();
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
  void push(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex);
      if (capture) {
        capture->work.push_back(std::move(work));
        return;
      }
      queue.push_back(std::move(work));
    }
    changed.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return queue.empty() && !busy; });
  }
};

struct FakeEvent {
  std::shared_ptr<Marker> marker;
  u64 capture = 0;
};

struct Allocation {
  std::size_t bytes;
  int descriptor;  // of the memfd behind it; -1 of host memory that was only pinned
  bool host;
  int device = 0;
};

struct Handle {
  int descriptor;  // of a memfd
  int device;
};

struct Module {
  std::string image;
};
struct Function {
  std::string name;
};
struct Failure {
  int skip, count, code;
};

struct State {
  std::mutex mutex;
  std::string calls, launched;
  std::map<std::string, Failure> failures;
  std::atomic<int> version{13000}, violations{0}, devices{1}, peer_access{kFakePeerAccess};
  std::atomic<bool> vmm{true}, any_memory{false}, stream_values{true}, delays{false};
  std::atomic<int> process_service{1};
  std::atomic<double> engine_begin_us{10}, engine_kib_us{0.01}, kernel_begin_us{5}, kernel_kib_us{0.01}, simple_us{10},
      ll_us{10};
  std::string refused_pairs;
  std::map<u64, Allocation> allocations;
  std::map<u64, Handle> handles;        // virtual memory
  std::map<u64, std::size_t> reserved;  // addresses
  struct Mapping {
    std::size_t bytes;
    int device;
  };
  std::map<u64, Mapping> mapped;
  std::map<void*, std::shared_ptr<FakeStream>> streams;
  std::set<FakeEvent*> events;
  std::set<Module*> modules;
  std::vector<std::unique_ptr<Function>> functions;
  std::map<void*, std::shared_ptr<Graph>> graphs;
  std::map<void*, std::shared_ptr<Graph>> executables;
  std::map<void*, std::shared_ptr<UserObject>> objects;
  u64 next = 1;
  int global_captures = 0;
  std::atomic<long> kernels{0}, line_kernels{0};
  std::atomic<int> capability{9};
};

// Never destroyed: worker threads outlive main.
inline State& state() {
  static State* const instance = new State;
  return *instance;
}

inline thread_local void* current = nullptr;
inline thread_local int capture_mode = 0;
inline thread_local int thread_captures = 0;  // begun in this thread, for itself only
inline constexpr int kMostDevices = 8;
inline char contexts[kMostDevices];  // by device, at addresses that are nothing else's

// Of the context that is current; 0 without one.
inline int current_device() {
  const auto* const at = static_cast<const char*>(current);
  return at >= contexts && at < contexts + kMostDevices ? static_cast<int>(at - contexts) : 0;
}

// Whose memory lies behind a descriptor is in its name.
inline std::string memory_name(int device) { return "fake-cuda-" + std::to_string(device); }
inline int device_behind(int descriptor) {
  char name[64]{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  if (::readlink(link.c_str(), name, sizeof name - 1) < 0) return 0;
  const char* const number = std::strstr(name, "fake-cuda-");
  return number == nullptr ? 0 : std::atoi(number + 10);
}

// Device time is counted work, not the host's time.
inline void work_of_engine(std::size_t bytes) {
  if (working != nullptr)
    working->worked_us += state().engine_begin_us + state().engine_kib_us * static_cast<double>(bytes) / 1024;
}
inline void work_of_kernel(std::size_t bytes) {
  if (working != nullptr)
    working->worked_us += state().kernel_begin_us + state().kernel_kib_us * static_cast<double>(bytes) / 1024;
}

// Records the call; its injected failure, if any.
inline int enter(const char* name) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.calls.append(name).append(";");
  const auto found = s.failures.find(name);
  if (found == s.failures.end()) return kSuccess;
  Failure& failure = found->second;
  if (failure.skip-- > 0) return kSuccess;
  if (failure.count-- <= 0) return kSuccess;
  return failure.code;
}

// Of calls that are not allowed beside a capture, unless the thread has said otherwise.
inline int enter_unsafe(const char* name) {
  if (const int code = enter(name)) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const bool forbidden =
      capture_mode == 0 ? s.global_captures + thread_captures > 0 : capture_mode == 1 && thread_captures > 0;
  if (!forbidden) return kSuccess;
  ++s.violations;
  return kCaptureUnsupported;
}

inline std::shared_ptr<FakeStream> stream_of(void* handle) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) {
    auto& stream = s.streams[nullptr];
    if (!stream) stream = std::make_shared<FakeStream>();
    return stream;
  }
  const auto found = s.streams.find(handle);
  return found == s.streams.end() ? nullptr : found->second;
}

inline int make_memory(std::size_t bytes, void*& data, int& descriptor) {
  descriptor = ::memfd_create(memory_name(current_device()).c_str(), MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return data == MAP_FAILED ? kOutOfMemory : kSuccess;
}

inline int allocate(u64* out, std::size_t bytes, bool host) {
  if (bytes == 0) return kInvalidValue;
  void* data = nullptr;
  int descriptor = -1;
  if (const int code = make_memory(bytes, data, descriptor)) return code;
  std::memset(data, host ? 0 : 0xee, bytes);
  *out = reinterpret_cast<u64>(data);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.allocations[*out] = {bytes, descriptor, host, current_device()};
  return kSuccess;
}

inline int release(u64 address) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.allocations.find(address);
  if (found == s.allocations.end()) return kInvalidValue;
  ::munmap(reinterpret_cast<void*>(address), found->second.bytes);
  ::close(found->second.descriptor);
  s.allocations.erase(found);
  return kSuccess;
}

}  // namespace fake
