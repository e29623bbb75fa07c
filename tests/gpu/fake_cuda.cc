// A CUDA driver without a device: records what is called, keeps to the rules of streams, captures and handles, and runs
// the library's kernels on the host, from the same source (host_device.h). Device memory is host memory; what is passed
// to other processes lies in memfds, so that several processes share it as they would a device's.
#include "gpu/fake_cuda_state.h"
#include "gpu/let_go.h"

using namespace fake;

// With the last owner of a context goes all that was made in it. Memory that others may still address stays mapped.
// Under the state's lock.
static void end_context(int device) {
  State& s = state();
  std::erase_if(s.allocations, [&](const auto& entry) { return entry.second.device == device; });
  std::erase_if(s.events, [&](FakeEvent* event) {
    if (event->device != device) return false;
    s.gone_events.push_back(event);
    return true;
  });
  std::erase_if(s.modules, [&](const Module* module) { return module->device == device; });
  std::erase_if(s.peer_access_open, [&](const auto& pair) { return pair.first == device || pair.second == device; });
  for (auto it = s.streams.begin(); it != s.streams.end();) {
    if (it->second->device != device) {
      ++it;
      continue;
    }
    s.destroyed.push_back(it->second);  // its thread ends when nothing is left to do
    it = s.streams.erase(it);
  }
}

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
void fake_cuda_end() {
  state().ended = true;
  for (Context& context : state().contexts) {
    context.fault = kDriverEnded;
    context.room.vanish();
  }
}
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
void fake_cuda_let_streams_go(int let_go) { streams_are_let_go = let_go != 0; }
void fake_cuda_set_delays(int random) {
  state().delays = random != 0;
  sccl::device::gpu::late_stores = random != 0;
}
void fake_cuda_hold_waits(int held) { sccl::device::gpu::waits_are_held = held != 0; }
int fake_cuda_held() { return sccl::device::gpu::held_waits; }
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
  if (const int code = enter("cuDeviceGet")) return code;
  return ordinal < 0 || ordinal >= state().devices ? kInvalidDevice : kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const State& s = state();
  if (device < 0 || device >= s.devices) return kInvalidDevice;
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
  if (--retained == 0) end_context(device);
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
int cuCtxEnablePeerAccess(void* peer, unsigned flags) {
  if (const int code = enter_unsafe("cuCtxEnablePeerAccess")) return code;
  if (current == nullptr || peer == nullptr) return kInvalidContext;
  const int user = current_device();
  const int owner = static_cast<int>(static_cast<const char*>(peer) - contexts);
  if (flags != 0) return kInvalidValue;
  if (user == owner) return kInvalidDevice;
  if (!peers(user, owner)) return kPeerAccessUnsupported;
  if (const int code = drain_context("cuCtxEnablePeerAccess")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.peer_access_open.insert({user, owner}).second ? kSuccess : kPeerAccessAlready;
}

}  // extern "C"
#pragma GCC visibility pop
