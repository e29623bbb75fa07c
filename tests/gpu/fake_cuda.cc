// A CUDA driver without a device: records what is called, keeps to the rules of streams, captures and handles, and runs
// the library's kernels on the host, from the same source (host_device.h). Device memory is host memory; what is passed
// to other processes lies in memfds, so that several processes share it as they would a device's.
#include "gpu/fake_cuda.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "gpu/host_device.h"

using sccl::device::gpu::CallArguments;
using u64 = unsigned long long;

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidContext = 201, kInvalidHandle = 400,
              kNotReady = 600, kCaptureUnsupported = 900, kCaptureIsolation = 905;
constexpr std::size_t kGranularity = 65536;
constexpr sccl::device::u32 kThreads = 2;  // of a block, whatever is asked for

struct Marker {
  std::atomic<bool> done{false};
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

struct FakeStream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool busy = false, ending = false;
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
  int descriptor;  // of the memfd behind it
  bool host;
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
  std::string calls, calls_copy, live_copy;
  std::map<std::string, Failure> failures;
  int version = 13000, violations = 0;
  bool vmm = true, any_memory = false;
  std::map<u64, Allocation> allocations;
  std::map<u64, int> handles;           // virtual memory: memfds
  std::map<u64, std::size_t> reserved;  // addresses
  std::map<u64, std::size_t> mapped;
  std::map<void*, std::shared_ptr<FakeStream>> streams;
  std::set<FakeEvent*> events;
  std::set<Module*> modules;
  std::vector<std::unique_ptr<Function>> functions;
  std::map<void*, std::shared_ptr<Graph>> graphs;
  std::map<void*, std::shared_ptr<Graph>> executables;
  std::map<void*, std::shared_ptr<UserObject>> objects;
  u64 next = 1;
  int global_captures = 0;
  std::atomic<long> kernels{0};
};

// Never destroyed: worker threads outlive main.
State& state() {
  static State* const instance = new State;
  return *instance;
}

thread_local void* current = nullptr;
thread_local int capture_mode = 0;
thread_local int thread_captures = 0;  // begun in this thread, for itself only
char context_of_device_0;

// Records the call; its injected failure, if any.
int enter(const char* name) {
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
int enter_unsafe(const char* name) {
  if (const int code = enter(name)) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const bool forbidden = capture_mode == 0 ? s.global_captures + thread_captures > 0
                                           : capture_mode == 1 && thread_captures > 0;
  if (!forbidden) return kSuccess;
  ++s.violations;
  return kCaptureUnsupported;
}

std::shared_ptr<FakeStream> stream_of(void* handle) {
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

int make_memory(std::size_t bytes, void*& data, int& descriptor) {
  descriptor = ::memfd_create("fake-cuda", MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return data == MAP_FAILED ? kOutOfMemory : kSuccess;
}

int allocate(u64* out, std::size_t bytes, bool host) {
  if (bytes == 0) return kInvalidValue;
  void* data = nullptr;
  int descriptor = -1;
  if (const int code = make_memory(bytes, data, descriptor)) return code;
  std::memset(data, host ? 0 : 0xee, bytes);
  *out = reinterpret_cast<u64>(data);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.allocations[*out] = {bytes, descriptor, host};
  return kSuccess;
}

int release(u64 address) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.allocations.find(address);
  if (found == s.allocations.end()) return kInvalidValue;
  ::munmap(reinterpret_cast<void*>(address), found->second.bytes);
  ::close(found->second.descriptor);
  s.allocations.erase(found);
  return kSuccess;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

const char* fake_cuda_calls() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.calls_copy = s.calls;
  return s.calls_copy.c_str();
}
void fake_cuda_reset_calls() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.calls.clear();
  s.violations = 0;
  s.failures.clear();
}
void fake_cuda_fail(const char* function, int skip, int count, int code) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.failures[function] = {skip, count, code};
}
const char* fake_cuda_live_text() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const std::size_t streams = s.streams.size() - s.streams.count(nullptr);
  s.live_copy = "allocations " + std::to_string(s.allocations.size()) + " handles " + std::to_string(s.handles.size()) +
                " reserved " + std::to_string(s.reserved.size()) + " mapped " + std::to_string(s.mapped.size()) +
                " streams " + std::to_string(streams) + " events " + std::to_string(s.events.size()) + " modules " +
                std::to_string(s.modules.size());
  return s.live_copy.c_str();
}
int fake_cuda_live() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return static_cast<int>(s.allocations.size() + s.handles.size() + s.reserved.size() + s.mapped.size() +
                          s.streams.size() - s.streams.count(nullptr) + s.events.size() + s.modules.size());
}
int fake_cuda_violations() { return state().violations; }
void fake_cuda_set_version(int version) { state().version = version; }
void fake_cuda_set_vmm(int supported) { state().vmm = supported != 0; }
void fake_cuda_set_any_memory(int allowed) { state().any_memory = allowed != 0; }
long fake_cuda_kernels() { return state().kernels.load(); }

int cuInit(unsigned) { return enter("cuInit"); }
int cuDriverGetVersion(int* version) {
  *version = state().version;
  return enter("cuDriverGetVersion");
}
int cuGetErrorString(int code, const char** text) {
  *text = code == kOutOfMemory ? "out of memory" : code == 999 ? "unknown error" : "an error of the fake";
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return enter("cuDeviceGetCount");
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return enter("cuDeviceGet");
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const State& s = state();
  *value = attribute == 16 ? 8 : attribute == 75 ? 9 : attribute == 102 || attribute == 103 ? (s.vmm ? 1 : 0) : 0;
  return enter("cuDeviceGetAttribute");
}
int cuDeviceGetUuid(void* id, int) {
  std::memset(id, 0x5c, 16);
  return enter("cuDeviceGetUuid");
}
int cuDeviceGetName(char* name, int bytes, int) {
  std::strncpy(name, "fake", static_cast<std::size_t>(bytes));
  return enter("cuDeviceGetName");
}
int cuDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return enter("cuDeviceCanAccessPeer");
}
int cuCtxGetCurrent(void** context) {
  *context = current;
  return enter("cuCtxGetCurrent");
}
int cuCtxSetCurrent(void* context) {
  if (const int code = enter("cuCtxSetCurrent")) return code;
  current = context;
  return kSuccess;
}
int cuCtxGetDevice(int* device) {
  *device = 0;
  if (const int code = enter("cuCtxGetDevice")) return code;
  return current == nullptr ? kInvalidContext : kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &context_of_device_0;
  return enter("cuDevicePrimaryCtxRetain");
}
int cuDevicePrimaryCtxRelease_v2(int) { return enter("cuDevicePrimaryCtxRelease_v2"); }
int cuCtxEnablePeerAccess(void*, unsigned) { return enter("cuCtxEnablePeerAccess"); }

int cuMemAlloc_v2(u64* address, unsigned long bytes) {
  if (const int code = enter_unsafe("cuMemAlloc_v2")) return code;
  return current == nullptr ? kInvalidContext : allocate(address, bytes, false);
}
int cuMemFree_v2(u64 address) {
  if (const int code = enter_unsafe("cuMemFree_v2")) return code;
  return release(address);
}
int cuMemHostAlloc(void** data, unsigned long bytes, unsigned flags) {
  if (const int code = enter_unsafe("cuMemHostAlloc")) return code;
  if ((flags & 2) == 0) return kInvalidValue;
  return allocate(reinterpret_cast<u64*>(data), bytes, true);
}
int cuMemFreeHost(void* data) {
  if (const int code = enter_unsafe("cuMemFreeHost")) return code;
  return release(reinterpret_cast<u64>(data));
}
int cuMemHostGetDevicePointer_v2(u64* address, void* data, unsigned) {
  *address = reinterpret_cast<u64>(data);
  return enter("cuMemHostGetDevicePointer_v2");
}
int cuMemcpyHtoDAsync_v2(u64 to, const void* from, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemcpyHtoDAsync_v2")) return code;
  // As pageable memory is: read before the call returns.
  std::vector<unsigned char> copy(static_cast<const unsigned char*>(from), static_cast<const unsigned char*>(from) + bytes);
  stream_of(stream)->push([to, copy = std::move(copy)] { std::memcpy(reinterpret_cast<void*>(to), copy.data(), copy.size()); });
  return kSuccess;
}
int cuMemcpyDtoHAsync_v2(void* to, u64 from, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemcpyDtoHAsync_v2")) return code;
  stream_of(stream)->push([=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  return kSuccess;
}
int cuMemcpyDtoDAsync_v2(u64 to, u64 from, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemcpyDtoDAsync_v2")) return code;
  stream_of(stream)->push([=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
  return kSuccess;
}
int cuMemsetD8Async(u64 to, unsigned char value, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemsetD8Async")) return code;
  stream_of(stream)->push([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return kSuccess;
}
int cuPointerGetAttributes(unsigned count, int* attributes, void** results, u64 pointer) {
  if (const int code = enter("cuPointerGetAttributes")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  int type = s.any_memory ? 2 : 0;
  for (const auto& [begin, allocation] : s.allocations)
    if (pointer >= begin && pointer < begin + allocation.bytes) type = allocation.host ? 1 : 2;
  for (unsigned i = 0; i < count; ++i)
    *static_cast<unsigned*>(results[i]) = attributes[i] == 2 ? static_cast<unsigned>(type) : 0;
  return kSuccess;
}
struct FakeIpcHandle {
  int process, descriptor;
  u64 bytes;
  unsigned char rest[48];
};
int cuIpcGetMemHandle(FakeIpcHandle* handle, u64 address) {
  if (const int code = enter("cuIpcGetMemHandle")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.allocations.find(address);
  if (found == s.allocations.end()) return kInvalidValue;
  *handle = {::getpid(), found->second.descriptor, found->second.bytes, {}};
  return kSuccess;
}
int cuIpcOpenMemHandle_v2(u64* address, FakeIpcHandle handle, unsigned) {
  if (const int code = enter("cuIpcOpenMemHandle_v2")) return code;
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0 || handle.process == ::getpid()) return kInvalidValue;  // as the driver
  void* const data = ::mmap(nullptr, handle.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  *address = reinterpret_cast<u64>(data);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.allocations[*address] = {handle.bytes, descriptor, false};
  return kSuccess;
}
int cuIpcCloseMemHandle(u64 address) {
  if (const int code = enter("cuIpcCloseMemHandle")) return code;
  return release(address);
}

int cuMemGetAllocationGranularity(unsigned long* bytes, const void*, int) {
  *bytes = kGranularity;
  return enter("cuMemGetAllocationGranularity");
}
int cuMemCreate(u64* handle, unsigned long bytes, const void*, u64) {
  if (const int code = enter_unsafe("cuMemCreate")) return code;
  if (bytes % kGranularity != 0) return kInvalidValue;
  const int descriptor = ::memfd_create("fake-cuda-vmm", MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *handle = s.next++;
  s.handles[*handle] = descriptor;
  return kSuccess;
}
int cuMemRelease(u64 handle) {
  if (const int code = enter("cuMemRelease")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.handles.find(handle);
  if (found == s.handles.end()) return kInvalidValue;
  ::close(found->second);
  s.handles.erase(found);
  return kSuccess;
}
int cuMemAddressReserve(u64* address, unsigned long bytes, unsigned long, u64, u64) {
  if (const int code = enter("cuMemAddressReserve")) return code;
  void* const data = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<u64>(data);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.reserved[*address] = bytes;
  return kSuccess;
}
int cuMemAddressFree(u64 address, unsigned long bytes) {
  if (const int code = enter("cuMemAddressFree")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.reserved.erase(address) == 0 || s.mapped.count(address) != 0) return kInvalidValue;
  ::munmap(reinterpret_cast<void*>(address), bytes);
  return kSuccess;
}
int cuMemMap(u64 address, unsigned long bytes, unsigned long, u64 handle, u64) {
  if (const int code = enter("cuMemMap")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.handles.find(handle);
  if (found == s.handles.end() || s.reserved.count(address) == 0) return kInvalidValue;
  // Without access until it is allowed.
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second, 0) == MAP_FAILED)
    return kOutOfMemory;
  s.mapped[address] = bytes;
  return kSuccess;
}
int cuMemSetAccess(u64 address, unsigned long bytes, const void*, unsigned long) {
  if (const int code = enter("cuMemSetAccess")) return code;
  return ::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
}
int cuMemUnmap(u64 address, unsigned long bytes) {
  if (const int code = enter("cuMemUnmap")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.mapped.erase(address) == 0) return kInvalidValue;
  ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return kSuccess;
}
int cuMemExportToShareableHandle(void* out, u64 handle, int, u64) {
  if (const int code = enter("cuMemExportToShareableHandle")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.handles.find(handle);
  if (found == s.handles.end()) return kInvalidValue;
  *static_cast<int*>(out) = ::fcntl(found->second, F_DUPFD_CLOEXEC, 0);
  return kSuccess;
}
int cuMemImportFromShareableHandle(u64* handle, void* descriptor, int) {
  if (const int code = enter("cuMemImportFromShareableHandle")) return code;
  const int own = ::fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return kInvalidValue;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *handle = s.next++;
  s.handles[*handle] = own;
  return kSuccess;
}

int cuStreamCreate(void** stream, unsigned) {
  if (const int code = enter("cuStreamCreate")) return code;
  auto made = std::make_shared<FakeStream>();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *stream = made.get();
  s.streams[made.get()] = std::move(made);
  return kSuccess;
}
int cuStreamDestroy_v2(void* stream) {
  if (const int code = enter("cuStreamDestroy_v2")) return code;
  std::shared_ptr<FakeStream> dead = stream_of(stream);
  if (!dead) return kInvalidHandle;
  dead->drain();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.streams.erase(stream);
  return kSuccess;
}
int cuStreamSynchronize(void* stream) {
  if (const int code = enter_unsafe("cuStreamSynchronize")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (found->capture) {
    ++state().violations;
    return kCaptureUnsupported;
  }
  found->drain();
  return kSuccess;
}
int cuStreamIsCapturing(void* stream, int* status) {
  *status = stream_of(stream)->capture ? 1 : 0;
  return enter("cuStreamIsCapturing");
}
int cuStreamGetCaptureInfo_v2(void* stream, int* status, u64* id, void** graph, const void***, unsigned long*) {
  if (const int code = enter("cuStreamGetCaptureInfo_v2")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  *status = found->capture ? 1 : 0;
  if (found->capture && id != nullptr) *id = found->capture->id;
  if (found->capture && graph != nullptr) *graph = found->capture.get();
  return kSuccess;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return enter("cuThreadExchangeStreamCaptureMode");
}
int cuStreamBeginCapture_v2(void* stream, int mode) {
  State& s = state();
  const auto found = stream_of(stream);
  const std::lock_guard lock(s.mutex);
  found->capture = std::make_shared<Graph>();
  found->capture->id = s.next++;
  s.graphs[found->capture.get()] = found->capture;
  found->capture->mode = mode;
  if (mode == 0) ++s.global_captures;
  if (mode == 1) ++thread_captures;
  return kSuccess;
}
int cuStreamEndCapture(void* stream, void** graph) {
  State& s = state();
  const auto found = stream_of(stream);
  const std::lock_guard lock(s.mutex);
  *graph = found->capture.get();
  if (found->capture->mode == 0) --s.global_captures;
  if (found->capture->mode == 1) --thread_captures;
  found->capture = nullptr;
  return kSuccess;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, u64) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  auto copy = std::make_shared<Graph>(*s.graphs.at(graph));
  *executable = copy.get();
  s.executables[copy.get()] = std::move(copy);
  return kSuccess;
}
int cuGraphLaunch(void* executable, void* stream) {
  std::shared_ptr<Graph> graph;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    graph = s.executables.at(executable);
  }
  stream_of(stream)->push([graph] {
    for (const auto& work : graph->work) work();
  });
  return kSuccess;
}
int cuGraphExecDestroy(void* executable) {
  State& s = state();
  std::shared_ptr<Graph> last;
  const std::lock_guard lock(s.mutex);
  last = s.executables.at(executable);
  s.executables.erase(executable);
  return kSuccess;
}
int cuGraphDestroy(void* graph) {
  State& s = state();
  std::shared_ptr<Graph> last;
  const std::lock_guard lock(s.mutex);
  last = s.graphs.at(graph);
  s.graphs.erase(graph);
  return kSuccess;
}
int cuUserObjectCreate(void** object, void* pointer, void (*destroy)(void*), unsigned, unsigned) {
  if (const int code = enter("cuUserObjectCreate")) return code;
  std::shared_ptr<UserObject> made(new UserObject{pointer, destroy}, [](UserObject* dead) {
    dead->destroy(dead->pointer);
    delete dead;
  });
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *object = made.get();
  s.objects[made.get()] = std::move(made);
  return kSuccess;
}
int cuGraphRetainUserObject(void* graph, void* object, unsigned, unsigned flags) {
  if (const int code = enter("cuGraphRetainUserObject")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.graphs.at(graph)->objects.push_back(s.objects.at(object));
  if (flags == 1) s.objects.erase(object);  // moved
  return kSuccess;
}

int cuEventCreate(void** event, unsigned) {
  if (const int code = enter("cuEventCreate")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *event = *s.events.insert(new FakeEvent).first;
  return kSuccess;
}
int cuEventDestroy_v2(void* event) {
  if (const int code = enter("cuEventDestroy_v2")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.events.erase(static_cast<FakeEvent*>(event)) == 0) return kInvalidHandle;
  delete static_cast<FakeEvent*>(event);
  return kSuccess;
}
int cuEventRecord(void* event, void* stream) {
  if (const int code = enter("cuEventRecord")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  auto marker = std::make_shared<Marker>();
  auto& target = *static_cast<FakeEvent*>(event);
  target.capture = found->capture ? found->capture->id : 0;
  target.marker = marker;
  found->push([marker] { marker->done = true; });
  return kSuccess;
}
int cuEventQuery(void* event) {
  if (const int code = enter_unsafe("cuEventQuery")) return code;
  const auto& marker = static_cast<FakeEvent*>(event)->marker;
  return !marker || marker->done ? kSuccess : kNotReady;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  if (const int code = enter("cuStreamWaitEvent")) return code;
  const auto found = stream_of(stream);
  const auto& awaited = *static_cast<FakeEvent*>(event);
  const u64 capture = found->capture ? found->capture->id : 0;
  if (capture != awaited.capture) {
    ++state().violations;
    return kCaptureIsolation;
  }
  found->push([marker = awaited.marker] {
    while (marker && !marker->done) ::sched_yield();
  });
  return kSuccess;
}

int cuModuleLoadData(void** module, const void* image) {
  if (const int code = enter_unsafe("cuModuleLoadData")) return code;
  if (std::memcmp(image, "FAKE ", 5) != 0) return 200;  // invalid image
  auto* made = new Module{static_cast<const char*>(image)};
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.modules.insert(made);
  *module = made;
  return kSuccess;
}
int cuModuleUnload(void* module) {
  if (const int code = enter("cuModuleUnload")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.modules.erase(static_cast<Module*>(module)) == 0) return kInvalidHandle;
  delete static_cast<Module*>(module);
  return kSuccess;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (const int code = enter("cuModuleGetFunction")) return code;
  if (static_cast<Module*>(module)->image.find(name) == std::string::npos) return 500;  // not found
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.functions.push_back(std::make_unique<Function>(Function{name}));
  *function = s.functions.back().get();
  return kSuccess;
}
int cuLaunchKernel(void* function, unsigned grid, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned shared_bytes, void* stream, void** parameters, void**) {
  if (const int code = enter("cuLaunchKernel")) return code;
  if (current == nullptr) return kInvalidContext;
  if (function == nullptr || grid == 0 || threads == 0 || threads > 512 || shared_bytes > 44 * 1024) return kInvalidValue;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  const CallArguments arguments = *static_cast<const CallArguments*>(parameters[0]);
  found->push([=] {
    sccl::device::gpu::launch_on_host(arguments, grid, kThreads, shared_bytes);
    state().kernels.fetch_add(1);
  });
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
