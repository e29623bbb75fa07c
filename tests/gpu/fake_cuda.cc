// A CUDA driver without a device: records what is called, keeps to the rules of streams, captures and handles, and runs
// the library's kernels on the host, from the same source (host_device.h). Device memory is host memory; what is passed
// to other processes lies in memfds, so that several processes share it as they would a device's.
#include "gpu/fake_cuda_state.h"

using namespace fake;

#pragma GCC visibility push(default)
extern "C" {

const char* fake_cuda_calls() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  static thread_local std::string copy;  // until this thread asks again
  copy = s.calls;
  return copy.c_str();
}
void fake_cuda_reset_calls() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.calls.clear();
  s.launched.clear();
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
  const std::size_t streams = s.streams.size();
  static thread_local std::string copy;
  copy = "allocations " + std::to_string(s.allocations.size()) + " handles " + std::to_string(s.handles.size()) +
         " reserved " + std::to_string(s.reserved.size()) + " mapped " + std::to_string(s.mapped.size()) + " streams " +
         std::to_string(streams) + " events " + std::to_string(s.events.size()) + " modules " +
         std::to_string(s.modules.size());
  return copy.c_str();
}
int fake_cuda_live() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return static_cast<int>(s.allocations.size() + s.handles.size() + s.reserved.size() + s.mapped.size() +
                          s.streams.size() + s.events.size() + s.modules.size());
}
int fake_cuda_violations() { return state().violations; }
void fake_cuda_set_strict(int strict) { state().strict = strict != 0; }
void fake_cuda_spare_this_thread(int spared) { is_spared = spared != 0; }
int fake_cuda_burnt_slices() { return shared_turns().burnt; }
void fake_cuda_set_connections(int channels) { state().connections = channels; }
void fake_cuda_set_multiprocessors(int count) {
  State& s = state();
  s.multiprocessors = count;
  for (Context& context : s.contexts) context.room.set_multiprocessors(count);
}
int fake_cuda_blocks(int device) { return context_of(device).room.blocks(); }
void fake_cuda_tolerate_stuck(int after_ms) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.tolerant = after_ms > 0;
  s.patience_ms = after_ms > 0 ? after_ms : 30000;
  s.stuck.clear();
}
const char* fake_cuda_stuck() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  static thread_local std::string copy;
  copy = s.stuck;
  return copy.c_str();
}
int fake_cuda_may_use(int device, unsigned long long address) { return may_use(device, address) ? 1 : 0; }
void fake_cuda_fault(int device) { fault(device, "a test says so"); }
void fake_cuda_recover(int device) {
  Context& context = context_of(device);
  context.fault = 0;
  context.room.vanished = false;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::erase_if(s.allocations, [](const auto& entry) { return entry.second.descriptor < 0; });  // what was registered
}
void fake_cuda_set_version(int version) { state().version = version; }
void fake_cuda_set_vmm(int supported) { state().vmm = supported != 0; }
void fake_cuda_set_dmabuf(int supported) { state().dmabuf = supported != 0; }
void fake_cuda_set_peer_access(int kind) { state().peer_access = kind; }
void fake_cuda_set_capability(int major) { state().capability = major; }
void fake_cuda_set_any_memory(int allowed) { state().any_memory = allowed != 0; }
void fake_cuda_set_process_service(int running) { state().process_service = running; }
void fake_cuda_set_engine_costs(double begin_us, double kib_us) {
  state().engine_begin_us = begin_us;
  state().engine_kib_us = kib_us;
}
void fake_cuda_set_call_costs(double simple_us, double ll_us) {
  state().simple_us = simple_us;
  state().ll_us = ll_us;
}
void fake_cuda_set_stream_values(int supported) { state().stream_values = supported != 0; }
void fake_cuda_set_delays(int random) {
  state().delays = random != 0;
  sccl::device::gpu::late_stores = random != 0;
}
void fake_cuda_hold_waits(int held) { sccl::device::gpu::waits_are_held = held != 0; }
const char* fake_cuda_launched() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  static thread_local std::string copy;
  copy = s.launched;
  return copy.c_str();
}
long fake_cuda_kernels() { return state().kernels.load(); }
long fake_cuda_line_kernels() { return state().line_kernels.load(); }

int cuInit(unsigned) { return enter("cuInit"); }
// Tables of functions for tools: NVRTC asks a driver that is loaded for them, and ends the process where it cannot ask.
int cuGetExportTable(const void** table, const void*) {
  *table = nullptr;
  return 500;  // not found
}
int cuDriverGetVersion(int* version) {
  *version = state().version;
  return enter("cuDriverGetVersion");
}
int cuGetErrorString(int code, const char** text) {
  *text = code == kOutOfMemory      ? "out of memory"
          : code == kIllegalAddress ? "an illegal memory access was encountered"
          : code == 999             ? "unknown error"
                                    : "an error of the fake";
  return kSuccess;
}
void fake_cuda_set_devices(int count) { state().devices = count; }
void fake_cuda_refuse_peers(const char* pairs) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.refused_pairs = pairs;
}
int cuDeviceGetCount(int* count) {
  *count = state().devices;
  return enter("cuDeviceGetCount");
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return enter("cuDeviceGet");
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const State& s = state();
  *value = attribute == 16                        ? s.multiprocessors.load()
           : attribute == 75                      ? s.capability.load()
           : attribute == 102 || attribute == 103 ? (s.vmm ? 1 : 0)
                                                  : 0;
  if (attribute == 124) *value = s.dmabuf ? 1 : 0;
  if (attribute == 122) *value = s.stream_values ? 1 : 0;
  if (attribute == 133 && s.process_service < 0) return kInvalidValue;
  if (attribute == 133) *value = s.process_service;
  return enter("cuDeviceGetAttribute");
}
int cuDeviceGetUuid(void* id, int device) {
  std::memset(id, 0x5c + device, 16);
  return enter("cuDeviceGetUuid");
}
int cuDeviceGetName(char* name, int bytes, int) {
  std::strncpy(name, "fake", static_cast<std::size_t>(bytes));
  return enter("cuDeviceGetName");
}
int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  constexpr const char* kBusids[kMostDevices] = {"0000:06:00.0", "0000:07:00.0", "0000:0A:00.0", "0000:0B:00.0",
                                                 "0000:85:00.0", "0000:86:00.0", "0000:89:00.0", "0000:8A:00.0"};
  std::strncpy(text, kBusids[device], static_cast<std::size_t>(bytes));
  return enter("cuDeviceGetPCIBusId");
}
static bool peers(int device, int peer) {
  State& s = state();
  if (s.peer_access == kFakeNoPeerAccess) return false;
  const std::lock_guard lock(s.mutex);
  const std::string pair = std::to_string(std::min(device, peer)) + std::to_string(std::max(device, peer));
  return s.refused_pairs.find(pair) == std::string::npos;
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = peers(device, peer) ? 1 : 0;
  return enter("cuDeviceCanAccessPeer");
}
// Atomic operations between all but the first and the last device, as if NVLinks joined these.
int cuDeviceGetP2PAttribute(int* value, int attribute, int device, int peer) {
  const bool ends = std::min(device, peer) == 0 && std::max(device, peer) == state().devices - 1;
  *value = peers(device, peer) && (attribute == 2 || (attribute == 3 && !ends)) ? 1 : 0;
  return enter("cuDeviceGetP2PAttribute");
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
  *device = current_device();
  if (const int code = enter("cuCtxGetDevice")) return code;
  return current == nullptr ? kInvalidContext : kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (const int code = enter("cuDevicePrimaryCtxRetain")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  ++s.retained[static_cast<std::size_t>(device)];
  *context = &contexts[device];
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  if (const int code = enter("cuDevicePrimaryCtxRelease_v2")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  int& retained = s.retained[static_cast<std::size_t>(device)];
  if (retained == 0) return kInvalidContext;
  --retained;
  return kSuccess;
}
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  if (const int code = enter("cuDevicePrimaryCtxGetState")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *flags = 0;
  *active = s.retained[static_cast<std::size_t>(device)] > 0 ? 1 : 0;
  return kSuccess;
}
int cuCtxEnablePeerAccess(void* peer, unsigned) {
  if (const int code = enter("cuCtxEnablePeerAccess")) return code;
  if (current == nullptr) return kInvalidContext;
  const int user = current_device();
  const int owner = static_cast<int>(static_cast<const char*>(peer) - contexts);
  if (!peers(user, owner)) return kPeerAccessUnsupported;
  if (const int code = drain_context("cuCtxEnablePeerAccess")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.peer_access_open.insert({user, owner}).second ? kSuccess : kPeerAccessAlready;
}

int cuMemAlloc_v2(u64* address, unsigned long bytes) {
  if (const int code = enter_draining("cuMemAlloc_v2")) return code;
  return current == nullptr ? kInvalidContext : allocate(address, bytes, false);
}
int cuMemFree_v2(u64 address) {
  if (const int code = enter_draining("cuMemFree_v2")) return code;
  return release(address);
}
// Whole allocations, as a network adapter's memory is.
int cuMemGetHandleForAddressRange(void* descriptor, u64 address, unsigned long bytes, int type, u64 flags) {
  if (const int code = enter("cuMemGetHandleForAddressRange")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.allocations.find(address);
  if (!s.dmabuf || type != 1 || flags != 0 || address % 4096 != 0 || bytes % 4096 != 0 ||
      found == s.allocations.end() || found->second.host || bytes > found->second.bytes)
    return kInvalidValue;
  *static_cast<int*>(descriptor) = ::dup(found->second.descriptor);
  return kSuccess;
}
int cuMemHostAlloc(void** data, unsigned long bytes, unsigned flags) {
  if (const int code = enter_draining("cuMemHostAlloc")) return code;
  if ((flags & 2) == 0) return kInvalidValue;
  return allocate(reinterpret_cast<u64*>(data), bytes, true);
}
int cuMemFreeHost(void* data) {
  if (const int code = enter_draining("cuMemFreeHost")) return code;
  return release(reinterpret_cast<u64>(data));
}
int cuMemHostGetDevicePointer_v2(u64* address, void* data, unsigned) {
  if (const int code = enter("cuMemHostGetDevicePointer_v2")) return code;
  *address = reinterpret_cast<u64>(data);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.allocations.count(*address) != 0 ? kSuccess : kInvalidValue;
}
int cuMemHostRegister_v2(void* data, unsigned long bytes, unsigned flags) {
  if (const int code = enter_draining("cuMemHostRegister_v2")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const u64 address = reinterpret_cast<u64>(data);
  if (flags != 3 || address % 4096 != 0) return kInvalidValue;
  if (s.allocations.count(address) != 0) return 712;  // registered already
  s.allocations[address] = {bytes, -1, true};
  return kSuccess;
}
int cuMemHostUnregister(void* data) {
  if (const int code = enter_draining("cuMemHostUnregister")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.allocations.find(reinterpret_cast<u64>(data));
  if (found == s.allocations.end() || found->second.descriptor >= 0) return 713;  // not registered
  s.allocations.erase(found);
  return kSuccess;
}
int cuMemcpyHtoDAsync_v2(u64 to, const void* from, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemcpyHtoDAsync_v2")) return code;
  if (const int code = enter_work(stream)) return code;
  // As pageable memory is: read before the call returns.
  std::vector<unsigned char> copy(static_cast<const unsigned char*>(from),
                                  static_cast<const unsigned char*>(from) + bytes);
  const auto found = stream_of(stream);
  found->push_copy(found->context.to_device, [to, copy = std::move(copy)] {
    std::memcpy(reinterpret_cast<void*>(to), copy.data(), copy.size());
  });
  return kSuccess;
}
int cuMemcpyDtoHAsync_v2(void* to, u64 from, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemcpyDtoHAsync_v2")) return code;
  if (const int code = enter_work(stream)) return code;
  const auto found = stream_of(stream);
  found->push_copy(found->context.to_host, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  return kSuccess;
}
int cuMemcpyDtoDAsync_v2(u64 to, u64 from, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemcpyDtoDAsync_v2")) return code;
  if (const int code = enter_work(stream)) return code;
  stream_of(stream)->push([=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    work_of_engine(bytes);
  });
  return kSuccess;
}
int cuMemsetD8Async(u64 to, unsigned char value, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemsetD8Async")) return code;
  if (const int code = enter_work(stream)) return code;
  if (const int code = drain_context("cuMemsetD8Async")) return code;
  stream_of(stream)->push([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return kSuccess;
}
int cuPointerGetAttributes(unsigned count, int* attributes, void** results, u64 pointer) {
  if (const int code = enter("cuPointerGetAttributes")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  int type = s.any_memory ? 2 : 0;
  int device = current_device();
  for (const auto& [begin, allocation] : s.allocations)
    if (pointer >= begin && pointer < begin + allocation.bytes) {
      type = allocation.host ? 1 : 2;
      device = allocation.device;
    }
  for (const auto& [begin, mapping] : s.mapped)
    if (pointer >= begin && pointer < begin + mapping.bytes) {
      type = 2;
      device = mapping.device;
    }
  for (unsigned i = 0; i < count; ++i)
    *static_cast<unsigned*>(results[i]) = static_cast<unsigned>(attributes[i] == 2   ? type
                                                                : attributes[i] == 9 ? device
                                                                                     : 0);
  return kSuccess;
}
int cuMemGetAddressRange_v2(u64* base, unsigned long* bytes, u64 address) {
  if (const int code = enter("cuMemGetAddressRange_v2")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const auto& [begin, allocation] : s.allocations)
    if (!allocation.host && address >= begin && address < begin + allocation.bytes) {
      *base = begin;
      *bytes = allocation.bytes;
      return kSuccess;
    }
  return kInvalidValue;
}

// Through a broken mapping the writer alone sees what it wrote.
static int sharing(bool foreign) {
  return foreign && state().peer_access == kFakeBrokenPeerAccess ? MAP_PRIVATE : MAP_SHARED;
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
  if (const int code = drain_context("cuIpcOpenMemHandle_v2")) return code;
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0 || handle.process == ::getpid()) return kInvalidValue;  // as the driver
  const bool foreign = device_behind(descriptor) != current_device();
  if (foreign && state().peer_access == kFakeNoPeerAccess) return kPeerAccessUnsupported;
  void* const data = ::mmap(nullptr, handle.bytes, PROT_READ | PROT_WRITE, sharing(foreign), descriptor, 0);
  *address = reinterpret_cast<u64>(data);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.allocations[*address] = {handle.bytes, descriptor, false, device_behind(descriptor)};
  s.peer_access_open.insert({current_device(), device_behind(descriptor)});  // it was asked for
  return kSuccess;
}
int cuIpcCloseMemHandle(u64 address) {
  if (const int code = enter("cuIpcCloseMemHandle")) return code;
  if (const int code = drain_context("cuIpcCloseMemHandle")) return code;
  return release(address);
}

int cuMemGetAllocationGranularity(unsigned long* bytes, const void*, int) {
  *bytes = kGranularity;
  return enter("cuMemGetAllocationGranularity");
}
int cuMemCreate(u64* handle, unsigned long bytes, const void* properties, u64) {
  if (const int code = enter_unsafe("cuMemCreate")) return code;
  if (bytes % kGranularity != 0) return kInvalidValue;
  const int device = static_cast<const int*>(properties)[3];  // location.id
  const int descriptor = ::memfd_create(memory_name(device).c_str(), MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *handle = s.next++;
  s.handles[*handle] = {descriptor, device};
  return kSuccess;
}
int cuMemRelease(u64 handle) {
  if (const int code = enter("cuMemRelease")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.handles.find(handle);
  if (found == s.handles.end()) return kInvalidValue;
  ::close(found->second.descriptor);
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
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
             sharing(found->second.device != current_device()) | MAP_FIXED, found->second.descriptor, 0) == MAP_FAILED)
    return kOutOfMemory;
  s.mapped[address] = {bytes, found->second.device, {}};
  return kSuccess;
}
int cuMemSetAccess(u64 address, unsigned long bytes, const void* access, unsigned long) {
  if (const int code = enter("cuMemSetAccess")) return code;
  if (const int code = drain_context("cuMemSetAccess")) return code;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    const auto found = s.mapped.find(address);
    if (found == s.mapped.end()) return kInvalidValue;
    const int device = static_cast<const int*>(access)[1];  // location.id
    if (device != found->second.device && s.peer_access == kFakeNoPeerAccess) return kPeerAccessUnsupported;
    found->second.users.insert(device);
  }
  return ::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
}
int cuMemUnmap(u64 address, unsigned long bytes) {
  if (const int code = enter("cuMemUnmap")) return code;
  if (const int code = drain_context("cuMemUnmap")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.mapped.erase(address) == 0) return kInvalidValue;
  ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
         -1, 0);
  return kSuccess;
}
int cuMemExportToShareableHandle(void* out, u64 handle, int, u64) {
  if (const int code = enter("cuMemExportToShareableHandle")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.handles.find(handle);
  if (found == s.handles.end()) return kInvalidValue;
  *static_cast<int*>(out) = ::fcntl(found->second.descriptor, F_DUPFD_CLOEXEC, 0);
  return kSuccess;
}
int cuMemImportFromShareableHandle(u64* handle, void* descriptor, int) {
  if (const int code = enter("cuMemImportFromShareableHandle")) return code;
  const int own = ::fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return kInvalidValue;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *handle = s.next++;
  s.handles[*handle] = {own, device_behind(own)};
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
