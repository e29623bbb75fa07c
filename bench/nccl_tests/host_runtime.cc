// CUDA's runtime as far as nccl-tests uses it, played on the host: devices are numbers, their memory is the host's, a
// stream is a thread that does one work after another. So nccl-tests runs on a machine without a GPU, and its streams
// are as asynchronous as a device's. Built as libcudart.so by run.sh.
#include "host_runtime.h"

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kDevices = 16;
constexpr std::size_t kMemoryBytes = std::size_t{8} << 30;  // of each device, as far as programs are told
constexpr std::size_t kAlignment = 512;

thread_local int current_device = 0;

class Stream {
 public:
  explicit Stream(int device) : device_(device), worker_([this] { work(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }
  void enqueue(std::function<void()> action) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(action));
    }
    changed_.notify_all();
  }
  bool has_ended() {
    const std::lock_guard lock(mutex_);
    return queue_.empty();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty(); });
  }
  int device() const { return device_; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return over_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const auto action = std::move(queue_.front());
      lock.unlock();
      action();
      lock.lock();
      queue_.pop_front();  // only now: who asks shall not see an empty queue before the work is done
      changed_.notify_all();
    }
  }

  int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool over_ = false;
  std::thread worker_;
};

struct Event {
  std::atomic<std::chrono::steady_clock::time_point> at{};
};

std::mutex streams_mutex;
std::set<Stream*> streams;

Stream* known(cudaStream_t handle) {
  auto* const stream = reinterpret_cast<Stream*>(handle);
  const std::lock_guard lock(streams_mutex);
  return streams.count(stream) != 0 ? stream : nullptr;
}

// On the default stream at once.
cudaError_t run(cudaStream_t handle, std::function<void()> action) {
  if (handle == nullptr) {
    action();
    return cudaSuccess;
  }
  Stream* const stream = known(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  stream->enqueue(std::move(action));
  return cudaSuccess;
}

cudaError_t allocate(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

}  // namespace

// What kernels that are compiled for the host are launched by (host_runtime.h).
EXPORTED cudaError_t enqueue_on_host(cudaStream_t stream, const std::function<void()>& action) {
  return run(stream, action);
}

EXPORTED cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::memset(static_cast<void*>(properties), 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "host");
  properties->totalGlobalMem = kMemoryBytes;
  properties->major = 9;
  properties->pciBusID = device;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = *total_bytes = kMemoryBytes;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(streams_mutex);
  for (Stream* const stream : streams)
    if (stream->device() == current_device) stream->wait();
  return cudaSuccess;
}
EXPORTED cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }

EXPORTED cudaError_t cudaMalloc(void** memory, std::size_t bytes) { return allocate(memory, bytes); }
EXPORTED cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) { return allocate(memory, bytes); }
EXPORTED cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
EXPORTED cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                     cudaStream_t stream) {
  return run(stream, [=] { std::memcpy(to, from, bytes); });
}

EXPORTED cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned) {
  auto* const stream = new Stream(current_device);
  const std::lock_guard lock(streams_mutex);
  streams.insert(stream);
  *handle = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamCreate(cudaStream_t* handle) { return cudaStreamCreateWithFlags(handle, 0); }
EXPORTED cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Stream* const stream = known(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  {
    const std::lock_guard lock(streams_mutex);
    streams.erase(stream);
  }
  delete stream;
  return cudaSuccess;
}
EXPORTED cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Stream* const stream = known(handle);
  if (stream == nullptr) return handle == nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
  return stream->has_ended() ? cudaSuccess : cudaErrorNotReady;
}
EXPORTED cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Stream* const stream = known(handle);
  if (stream == nullptr) return handle == nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
  stream->wait();
  return cudaSuccess;
}

EXPORTED cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  *handle = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  delete reinterpret_cast<Event*>(handle);
  return cudaSuccess;
}
EXPORTED cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  return run(stream, [event = reinterpret_cast<Event*>(handle)] { event->at = std::chrono::steady_clock::now(); });
}
EXPORTED cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  const auto begin = reinterpret_cast<Event*>(from)->at.load();
  *ms = std::chrono::duration<float, std::milli>(reinterpret_cast<Event*>(to)->at.load() - begin).count();
  return cudaSuccess;
}

EXPORTED const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorNotSupported:
      return "not played on the host";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    default:
      return "an error of the runtime that plays devices on the host";
  }
}
EXPORTED cudaError_t cudaGetLastError() { return cudaSuccess; }

// Graphs, and kernels that are compiled for a device, need one.
EXPORTED cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return cudaErrorNotSupported; }
EXPORTED cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return cudaErrorNotSupported; }
EXPORTED cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return cudaErrorNotSupported;
}
EXPORTED cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaErrorNotSupported; }
EXPORTED cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaErrorNotSupported; }
EXPORTED cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaErrorNotSupported; }
EXPORTED cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaErrorNotSupported; }
EXPORTED cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return cudaErrorNotSupported;
}
EXPORTED unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, cudaStream_t) { return 0; }
EXPORTED cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) { return cudaErrorNotSupported; }
EXPORTED void** __cudaRegisterFatBinary(void*) { return nullptr; }
EXPORTED void __cudaRegisterFatBinaryEnd(void**) {}
EXPORTED void __cudaUnregisterFatBinary(void**) {}
EXPORTED void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*) {
}
