// What the functions of the fake driver share: its state, streams that are threads, injected failures.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "gpu/fake_cuda.h"
#include "gpu/fake_device.h"

namespace fake {

inline constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kDriverEnded = 4, kInvalidDevice = 101,
                     kInvalidContext = 201, kAlreadyMapped = 208, kPeerAccessUnsupported = 217, kInvalidHandle = 400,
                     kIllegalState = 401, kNotReady = 600, kIllegalAddress = 700, kStuck = 702,
                     kPeerAccessAlready = 704, kContextDestroyed = 709, kRegisteredAlready = 712, kNotRegistered = 713,
                     kNotPermitted = 800, kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureIsolation = 905,
                     kCaptureImplicit = 906, kCapturedEvent = 907, kCaptureWrongThread = 908;
inline constexpr std::size_t kGranularity = 65536;
inline constexpr sccl::device::u32 kWordThreads = 4;  // each has two words of a short message
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

struct FakeStream;

// What a stream does at a time.
enum class WorkKind { plain, kernel, waits, mark };
struct Work {
  std::function<void()> run;
  WorkKind kind = WorkKind::plain;
  std::string name;
  u64 id = 0;
  Channel* engine = nullptr;  // of a copy
  // Between the legacy stream and those that are not non-blocking: how much of a stream's work comes before.
  std::vector<std::pair<std::shared_ptr<FakeStream>, u64>> after{};
};

struct Graph {
  u64 id = 0;
  int mode = 0;
  std::thread::id thread;  // that began the capture
  bool invalid = false;
  std::vector<Work> work;
  std::vector<std::shared_ptr<UserObject>> objects;
};

inline thread_local FakeStream* working = nullptr;  // whose worker this is

inline Context& context_of(int device);
inline std::vector<std::pair<std::shared_ptr<FakeStream>, u64>> before_work_of(const FakeStream& stream);

struct FakeStream {
  int device;
  u64 unique = 0;  // handles are not
  bool blocking;   // the legacy stream waits for it
  Context& context;
  Channel& channel;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  u64 pushed = 0, completed = 0;
  bool ending = false;
  std::string doing;
  double worked_us = 0;  // what its copies and moves would have taken; of the worker
  std::shared_ptr<Graph> capture;
  std::thread worker;

  FakeStream(int of_device, bool is_blocking, Channel& its_channel)
      : device(of_device), blocking(is_blocking), context(context_of(of_device)), channel(its_channel) {
    static std::atomic<u64> made{0};
    unique = ++made;
    worker = std::thread([this] { run(); });
  }
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
    sccl::device::gpu::host_gpu = &context.room;
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !queue.empty(); });
      if (queue.empty()) return;
      const Work work = std::move(queue.front());
      queue.pop_front();
      doing = work.name;
      lock.unlock();
      perform(work);
      lock.lock();
      doing.clear();
      ++completed;
      changed.notify_all();
    }
  }
  void perform(const Work& work) {
    channel.await_head(work.id);
    for (const auto& [other, count] : work.after) other->await(count);
    if (work.kind != WorkKind::waits) channel.leave();
    if (work.engine != nullptr) work.engine->await_head(work.id);
    if (context.fault == 0 || work.kind == WorkKind::mark) work.run();
    if (work.engine != nullptr) work.engine->leave();
    if (work.kind == WorkKind::waits) channel.leave();
  }
  void push(Work work) {
    static std::atomic<u64> next{0};
    {
      const std::lock_guard lock(mutex);
      if (capture) {
        capture->work.push_back(std::move(work));
        return;
      }
    }
    work.id = ++next;
    work.after = before_work_of(*this);
    Channel* const engine = work.engine;
    const auto line_up = [&, id = work.id] {
      const std::lock_guard lock(mutex);
      if (engine != nullptr) engine->enter(id, [] {});
      queue.push_back(std::move(work));
      ++pushed;
    };
    channel.enter(work.id, line_up);
    changed.notify_all();
  }
  void push(std::function<void()> work) { push(Work{std::move(work), WorkKind::plain, "a copy", 0}); }
  void push_copy(Channel& engine, std::function<void()> work) {
    push(Work{std::move(work), WorkKind::plain, "a copy", 0, &engine});
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return completed == pushed; });
  }
  void await(u64 count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return completed >= count; });
  }
  bool has_ended() {
    const std::lock_guard lock(mutex);
    return completed == pushed;
  }
  u64 all_pushed() {
    const std::lock_guard lock(mutex);
    return pushed;
  }
  // What was pushed before has ended by `limit`.
  bool drain_until(std::chrono::steady_clock::time_point limit, std::string& doing_now) {
    std::unique_lock lock(mutex);
    const u64 target = pushed;
    if (changed.wait_until(lock, limit, [&] { return completed >= target; })) return true;
    doing_now = doing;
    return false;
  }
};

// Any thread may record an event and ask for it, as with a real driver.
struct FakeEvent {
  struct Record {
    std::shared_ptr<Marker> marker;  // null: never recorded
    u64 capture = 0;
  };
  int device = 0;
  unsigned flags = 0;

  void record(Record made) {
    const std::lock_guard lock(mutex);
    last = std::move(made);
  }
  Record recorded() const {
    const std::lock_guard lock(mutex);
    return last;
  }

 private:
  mutable std::mutex mutex;
  Record last;
};
inline constexpr unsigned kWithoutTiming = 2;

struct Allocation {
  std::size_t bytes;
  int descriptor;  // of the memfd behind it; -1 of host memory that was only pinned
  bool host;
  int device = 0;
  int opened = 0;  // how often, if it is another process's
};

struct Handle {
  int descriptor;  // of a memfd
  int device;
  std::size_t bytes;
  bool exportable;
};

struct Module {
  std::string image;
  int device;
};
struct Function {
  std::string name;
  int device;
  Module* module;
  int blocks_of_multiprocessor;  // of most threads; 0: the kernel promises none
  std::atomic<bool> loaded{false};
};
struct Failure {
  int skip, count, code;
};

struct State {
  std::mutex mutex;
  std::string calls, launched;
  std::map<std::string, Failure> failures;
  std::atomic<int> version{13000}, violations{0}, devices{1}, peer_access{kFakePeerAccess};
  std::atomic<bool> vmm{true}, any_memory{false}, stream_values{true}, delays{false}, strict{true}, tolerant{false},
      dmabuf{true}, ended{false};
  std::atomic<int> patience_ms{30000}, multiprocessors{8};
  std::atomic<int> connections{[] {
    const char* const told = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return told == nullptr ? 8 : std::atoi(told);
  }()};
  std::string stuck;  // what waited in vain
  std::array<Context, kMostDevices> contexts;
  std::array<int, kMostDevices> retained{};                             // primary contexts
  std::set<std::pair<int, int>> peer_access_open;                       // user, owner
  std::map<std::pair<int, u64>, std::shared_ptr<FakeStream>> defaults;  // by device and thread; 0: the legacy one
  std::atomic<int> process_service{1};
  std::atomic<double> engine_begin_us{10}, engine_kib_us{0.01}, kernel_begin_us{5}, kernel_kib_us{0.01}, simple_us{10},
      ll_us{10};
  std::string refused_pairs;
  std::map<u64, Allocation> allocations;
  std::map<std::pair<u64, int>, u64> opened;  // other processes', by inode and the device that uses it
  std::map<u64, Handle> handles;              // virtual memory
  std::map<u64, std::size_t> reserved;        // addresses
  struct Mapping {
    std::size_t bytes;
    int device;
    std::set<int> users;  // cuMemSetAccess
  };
  std::map<u64, Mapping> mapped;
  std::map<void*, std::shared_ptr<FakeStream>> streams;
  std::vector<std::shared_ptr<FakeStream>> destroyed;  // whose work has perhaps not ended
  std::deque<char> stream_handles;                     // all of them
  std::vector<void*> free_handles;                     // of these: the next streams get the same
  std::set<FakeEvent*> events;
  std::vector<FakeEvent*> gone_events;  // with their contexts; a stream may still know them
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

inline Context& context_of(int device) { return state().contexts[static_cast<std::size_t>(device)]; }

inline thread_local void* current = nullptr;
inline thread_local bool in_callback = false;  // which may call nothing
inline thread_local int capture_mode = 0;
inline thread_local int thread_captures = 0;  // begun in this thread, for itself only
inline char contexts[kMostDevices];           // by device, at addresses that are nothing else's

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

// Calls that no fault of a context concerns.
inline bool begins_with_one(const char* name, std::initializer_list<const char*> prefixes) {
  for (const char* prefix : prefixes)
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return true;
  return false;
}
inline bool beside_contexts(const char* name) {
  return begins_with_one(name, {"cuInit", "cuDriver", "cuDevice", "cuCtx", "cuThread"});
}
// All others need a current context, which must not have gone with its last owner.
inline bool needs_context(const char* name) {
  return !beside_contexts(name) &&
         !begins_with_one(name, {"cuGraph", "cuUserObject", "cuMemCreate", "cuMemRelease", "cuMemAddress", "cuMemMap",
                                 "cuMemUnmap", "cuMemSetAccess", "cuMemGetAllocation", "cuMemExport", "cuMemImport"});
}

// Records the call; its injected failure, if any.
inline int enter(const char* name) {
  State& s = state();
  if (s.ended) return kDriverEnded;
  const std::lock_guard lock(s.mutex);
  if (in_callback) {
    std::fprintf(stderr, "fake_cuda: a callback calls %s\n", name);
    std::abort();
  }
  if (current == nullptr && needs_context(name)) return kInvalidContext;
  if (current != nullptr && !beside_contexts(name)) {
    if (const int fault = context_of(current_device()).fault) return fault;
    if (s.retained[static_cast<std::size_t>(current_device())] == 0) {
      std::fprintf(stderr, "fake_cuda: %s in a context that its last owner has released\n", name);
      ++s.violations;
      return kContextDestroyed;
    }
  }
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
  for (const auto& [handle, stream] : s.streams)  // spoils what forbids it
    if (stream->capture && stream->capture->mode < 2 &&
        (stream->capture->thread == std::this_thread::get_id() || (capture_mode == 0 && stream->capture->mode == 0)))
      stream->capture->invalid = true;
  return kCaptureUnsupported;
}

inline Channel& next_channel(int device) {
  Context& context = context_of(device);
  const int channels = std::clamp(state().connections.load(), 1, kMostChannels);
  return context.channels[static_cast<std::size_t>(context.streams++ % channels)];
}

// The legacy stream waits for all that was put into blocking streams before, and these wait for the legacy stream.
inline std::vector<std::pair<std::shared_ptr<FakeStream>, u64>> before_work_of(const FakeStream& stream) {
  std::vector<std::pair<std::shared_ptr<FakeStream>, u64>> before;
  if (!stream.blocking) return before;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto legacy = s.defaults.find({stream.device, 0});
  if (legacy == s.defaults.end()) return before;
  const auto add = [&](const std::shared_ptr<FakeStream>& other) {
    if (other.get() != &stream && other->device == stream.device && other->blocking)
      before.emplace_back(other, other->all_pushed());
  };
  if (legacy->second.get() != &stream) return add(legacy->second), before;
  for (const auto& [handle, other] : s.streams) add(other);
  for (const auto& [key, other] : s.defaults) add(other);
  for (const auto& other : s.destroyed) add(other);
  return before;
}

inline constexpr std::uintptr_t kLegacyStream = 1, kPerThreadStream = 2;
inline bool is_legacy(void* handle) { return reinterpret_cast<std::uintptr_t>(handle) <= kLegacyStream; }

// The default ones are of the current device, and the per-thread one of the calling thread.
inline std::shared_ptr<FakeStream> stream_of(void* handle) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (reinterpret_cast<std::uintptr_t>(handle) <= kPerThreadStream) {
    static std::atomic<u64> threads{0};
    static thread_local u64 thread = ++threads;
    auto& stream = s.defaults[{current_device(), is_legacy(handle) ? 0 : thread}];
    if (!stream) stream = std::make_shared<FakeStream>(current_device(), true, next_channel(current_device()));
    return stream;
  }
  const auto found = s.streams.find(handle);
  return found == s.streams.end() ? nullptr : found->second;
}

// While a stream that the legacy one waits for is captured, the legacy stream cannot be asked about.
inline std::shared_ptr<Graph> capture_beside_legacy(void* handle) {
  if (!is_legacy(handle)) return nullptr;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const auto& [known, stream] : s.streams)
    if (stream->device == current_device() && stream->blocking && stream->capture) return stream->capture;
  return nullptr;
}
// What is not allowed spoils the capture: nothing more is added to it, and its end fails.
inline int spoil(Graph& capture, int code) {
  capture.invalid = true;
  ++state().violations;
  return code;
}
// Of calls that put work into a stream. Work on the legacy stream spoils the captures of streams for which it waits.
inline int enter_work(void* handle) {
  if (const auto spoilt = capture_beside_legacy(handle)) return spoil(*spoilt, kCaptureImplicit);
  const auto stream = stream_of(handle);
  return stream && stream->capture && stream->capture->invalid ? kCaptureInvalidated : kSuccess;
}

inline void tell_stuck(const std::string& text) {
  State& s = state();
  std::fprintf(stderr, "fake_cuda: %s\n", text.c_str());
  if (!s.tolerant) std::abort();
  const std::lock_guard lock(s.mutex);
  s.stuck.append(text).append("\n");
}

inline thread_local bool is_spared = false;

// Of calls that wait for all that runs in the context, as real drivers do or may.
inline int drain_context(const char* call) {
  State& s = state();
  if (!s.strict || is_spared || current == nullptr || working != nullptr) return kSuccess;
  const int device = current_device();
  std::vector<std::shared_ptr<FakeStream>> streams;
  {
    const std::lock_guard lock(s.mutex);
    for (const auto& [handle, stream] : s.streams) streams.push_back(stream);
    for (const auto& stream : s.destroyed) streams.push_back(stream);
    for (const auto& [key, stream] : s.defaults) streams.push_back(stream);
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(s.patience_ms);
  for (const auto& stream : streams) {
    std::string doing;
    if (stream->device != device || stream->drain_until(limit, doing)) continue;
    if (context_of(device).fault != 0) return context_of(device).fault;
    tell_stuck(std::string(call) + " waits for all work of device " + std::to_string(device) + ", where " + doing +
               " has not ended in " + std::to_string(s.patience_ms) + " ms");
    return kStuck;
  }
  return kSuccess;
}
inline int enter_draining(const char* name) {
  if (const int code = enter_unsafe(name)) return code;
  return drain_context(name);
}

// Whether kernels of the device may use this address; of memory that is nobody's the fake knows nothing.
inline bool may_use(int device, u64 address) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto around = [&](auto& all) {
    auto found = all.upper_bound(address);
    if (found == all.begin()) return all.end();
    --found;
    return address < found->first + found->second.bytes ? found : all.end();
  };
  if (const auto found = around(s.mapped); found != s.mapped.end()) return found->second.users.count(device) != 0;
  const auto found = around(s.allocations);
  return found == s.allocations.end() || found->second.host || found->second.device == device ||
         s.peer_access_open.count({device, found->second.device}) != 0;
}

// Whether the driver lets the device use the peer's memory.
inline bool peers(int device, int peer) {
  State& s = state();
  if (s.peer_access == kFakeNoPeerAccess) return false;
  const std::lock_guard lock(s.mutex);
  const std::string pair = std::to_string(std::min(device, peer)) + std::to_string(std::max(device, peer));
  return s.refused_pairs.find(pair) == std::string::npos;
}

inline bool is_known(void* event) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.events.count(static_cast<FakeEvent*>(event)) != 0;
}

inline void fault(int device, const std::string& why) {
  std::fprintf(stderr, "fake_cuda: device %d faults: %s\n", device, why.c_str());
  context_of(device).fault = kIllegalAddress;
  context_of(device).room.vanish();
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

// Each kind of memory has its own call that gives it back.
enum class Freed { device, host, opened };
inline int release(u64 address, Freed kind) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.allocations.find(address);
  if (found == s.allocations.end() || found->second.descriptor < 0) return kInvalidValue;
  if (found->second.host != (kind == Freed::host)) return kInvalidValue;
  if ((found->second.opened > 0) != (kind == Freed::opened)) return kInvalidValue;
  if (kind == Freed::opened && --found->second.opened > 0) return kSuccess;
  std::erase_if(s.opened, [&](const auto& entry) { return entry.second == address; });
  ::munmap(reinterpret_cast<void*>(address), found->second.bytes);
  ::close(found->second.descriptor);
  s.allocations.erase(found);
  return kSuccess;
}

}  // namespace fake
