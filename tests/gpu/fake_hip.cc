// A ROCm driver without a device: HIP's names, numbers and rules in front of the fake CUDA driver, which does the work.
//
// What differs: devices in place of contexts, attributes by other numbers, no waits for values. Memory is of kinds:
// hipMalloc and hipMemMap give coarse-grained memory, in which a running kernel need not see what others write; a
// kernel of a call whose messages lie in such memory is counted.
#include "gpu/fake_hip.h"

#include <map>
#include <mutex>
#include <string>

#include "gpu/fake_cuda_state.h"

using fake::u64;

#pragma GCC visibility push(default)
extern "C" {
struct HipIpcHandle {
  unsigned char bytes[64];
};
int cuInit(unsigned f);
int cuDriverGetVersion(int* v);
int cuDeviceGetCount(int* n);
int cuDeviceGet(int* d, int o);
int cuDeviceGetUuid(void* id, int d);
int cuDeviceGetName(char* t, int n, int d);
int cuDeviceGetPCIBusId(char* t, int n, int d);
int cuDeviceCanAccessPeer(int* can, int d, int p);
int cuMemHostAlloc(void** p, unsigned long n, unsigned f);
int cuMemFreeHost(void* p);
int cuCtxEnablePeerAccess(void* peer, unsigned f);
int cuMemHostGetDevicePointer_v2(u64* a, void* p, unsigned f);
int cuMemHostRegister_v2(void* p, unsigned long n, unsigned f);
int cuMemHostUnregister(void* p);
int cuMemcpyHtoDAsync_v2(u64 to, const void* from, unsigned long n, void* s);
int cuMemcpyDtoHAsync_v2(void* to, u64 from, unsigned long n, void* s);
int cuMemcpyDtoDAsync_v2(u64 to, u64 from, unsigned long n, void* s);
int cuMemsetD8Async(u64 to, unsigned char v, unsigned long n, void* s);
int cuMemGetAddressRange_v2(u64* b, unsigned long* n, u64 a);
int cuIpcGetMemHandle(void* h, u64 a);
int cuIpcCloseMemHandle(u64 a);
int cuMemGetAllocationGranularity(unsigned long* n, const void* p, int w);
int cuMemCreate(u64* h, unsigned long n, const void* p, u64 f);
int cuMemRelease(u64 h);
int cuMemAddressReserve(u64* a, unsigned long n, unsigned long al, u64 hint, u64 f);
int cuMemAddressFree(u64 a, unsigned long n);
int cuMemUnmap(u64 a, unsigned long n);
int cuMemSetAccess(u64 a, unsigned long n, const void* d, unsigned long c);
int cuMemExportToShareableHandle(void* to, u64 h, int t, u64 f);
int cuMemImportFromShareableHandle(u64* h, void* from, int t);
int cuStreamCreate(void** s, unsigned f);
int cuStreamDestroy_v2(void* s);
int cuStreamSynchronize(void* s);
int cuStreamWaitEvent(void* s, void* e, unsigned f);
int cuStreamIsCapturing(void* s, int* c);
int cuStreamQuery(void* s);
int cuStreamGetCaptureInfo_v2(void* s, int* c, u64* id, void** g, const void*** n, unsigned long* k);
int cuThreadExchangeStreamCaptureMode(int* m);
int cuEventCreate(void** e, unsigned f);
int cuEventDestroy_v2(void* e);
int cuEventRecord(void* e, void* s);
int cuEventQuery(void* e);
int cuEventElapsedTime(float* ms, void* b, void* e);
int cuUserObjectCreate(void** o, void* p, void (*d)(void*), unsigned c, unsigned f);
int cuGraphRetainUserObject(void* g, void* o, unsigned c, unsigned f);
int cuModuleLoadData(void** m, const void* i);
int cuModuleUnload(void* m);
int cuModuleGetFunction(void** f, void* m, const char* n);
int cuFuncGetAttribute(int* v, int a, void* f);
int cuCtxGetDevice(int* device);
int cuCtxGetCurrent(void** context);
int cuCtxSetCurrent(void* context);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuDeviceGetAttribute(int* value, int attribute, int device);
int cuMemAlloc_v2(u64* address, unsigned long bytes);
int cuMemFree_v2(u64 address);
int cuMemMap(u64 address, unsigned long bytes, unsigned long offset, u64 handle, u64 flags);
int cuIpcOpenMemHandle_v2(u64* address, HipIpcHandle handle, unsigned flags);
int cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void* stream,
                   void** parameters, void** extra);
}

namespace {

struct Memory {
  std::mutex mutex;
  std::map<u64, std::size_t> coarse;
  int kinds = 3, coarse_messages = 0, uncached = 0, fine_grained = 0;
};
Memory& memory() {
  static auto* const instance = new Memory;
  return *instance;
}

int note_coarse(int code, u64 address, std::size_t bytes) {
  if (code != 0) return code;
  const std::lock_guard lock(memory().mutex);
  memory().coarse[address] = bytes;
  return 0;
}

bool is_coarse(const void* at) {
  const auto address = reinterpret_cast<u64>(at);
  const auto after = memory().coarse.upper_bound(address);
  if (at == nullptr || after == memory().coarse.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return address < begin + bytes;
}

void look_at_messages(const sccl::device::gpu::CallArguments& arguments) {
  const std::lock_guard lock(memory().mutex);
  bool coarse = is_coarse(arguments.control) && arguments.ranks > 0;
  for (unsigned i = 0; i < arguments.connections_per_channel; ++i) {
    const sccl::device::gpu::DeviceConnection& connection = arguments.connections[i];
    coarse = coarse || is_coarse(connection.ring) || is_coarse(connection.payload) || is_coarse(connection.lines);
  }
  memory().coarse_messages += coarse ? 1 : 0;
}

}  // namespace

extern "C" {

void fake_hip_set_memory_kinds(int kinds) { memory().kinds = kinds; }
int fake_hip_coarse_messages() { return memory().coarse_messages; }
int fake_hip_uncached() { return memory().uncached; }
int fake_hip_fine_grained() { return memory().fine_grained; }
void fake_hip_reset() { memory().coarse_messages = memory().uncached = memory().fine_grained = 0; }

int hipInit(unsigned f) { return cuInit(f); }
int hipDriverGetVersion(int* v) { return cuDriverGetVersion(v); }
int hipGetDeviceCount(int* n) { return cuDeviceGetCount(n); }
int hipDeviceGet(int* d, int o) { return cuDeviceGet(d, o); }
int hipDeviceGetUuid(void* id, int d) { return cuDeviceGetUuid(id, d); }
int hipDeviceGetName(char* t, int n, int d) { return cuDeviceGetName(t, n, d); }
int hipDeviceGetPCIBusId(char* t, int n, int d) { return cuDeviceGetPCIBusId(t, n, d); }
int hipDeviceCanAccessPeer(int* can, int d, int p) { return cuDeviceCanAccessPeer(can, d, p); }
int hipHostMalloc(void** p, unsigned long n, unsigned f) { return cuMemHostAlloc(p, n, f); }
int hipHostFree(void* p) { return cuMemFreeHost(p); }
int hipHostGetDevicePointer(u64* a, void* p, unsigned f) { return cuMemHostGetDevicePointer_v2(a, p, f); }
int hipHostRegister(void* p, unsigned long n, unsigned f) { return cuMemHostRegister_v2(p, n, f); }
int hipHostUnregister(void* p) { return cuMemHostUnregister(p); }
int hipMemcpyHtoDAsync(u64 to, const void* from, unsigned long n, void* s) {
  return cuMemcpyHtoDAsync_v2(to, from, n, s);
}
int hipMemcpyDtoHAsync(void* to, u64 from, unsigned long n, void* s) { return cuMemcpyDtoHAsync_v2(to, from, n, s); }
int hipMemcpyDtoDAsync(u64 to, u64 from, unsigned long n, void* s) { return cuMemcpyDtoDAsync_v2(to, from, n, s); }
int hipMemsetD8Async(u64 to, unsigned char v, unsigned long n, void* s) { return cuMemsetD8Async(to, v, n, s); }
int hipMemGetAddressRange(u64* b, unsigned long* n, u64 a) { return cuMemGetAddressRange_v2(b, n, a); }
int hipIpcGetMemHandle(void* h, u64 a) { return cuIpcGetMemHandle(h, a); }
int hipIpcCloseMemHandle(u64 a) { return cuIpcCloseMemHandle(a); }
int hipMemGetAllocationGranularity(unsigned long* n, const void* p, int w) {
  return cuMemGetAllocationGranularity(n, p, w);
}
int hipMemCreate(u64* h, unsigned long n, const void* p, u64 f) { return cuMemCreate(h, n, p, f); }
int hipMemRelease(u64 h) { return cuMemRelease(h); }
int hipMemAddressReserve(u64* a, unsigned long n, unsigned long al, u64 hint, u64 f) {
  return cuMemAddressReserve(a, n, al, hint, f);
}
int hipMemAddressFree(u64 a, unsigned long n) { return cuMemAddressFree(a, n); }
int hipMemUnmap(u64 a, unsigned long n) { return cuMemUnmap(a, n); }
int hipMemSetAccess(u64 a, unsigned long n, const void* d, unsigned long c) { return cuMemSetAccess(a, n, d, c); }
int hipMemExportToShareableHandle(void* to, u64 h, int t, u64 f) { return cuMemExportToShareableHandle(to, h, t, f); }
int hipMemImportFromShareableHandle(u64* h, void* from, int t) { return cuMemImportFromShareableHandle(h, from, t); }
int hipStreamCreateWithFlags(void** s, unsigned f) { return cuStreamCreate(s, f); }
int hipStreamDestroy(void* s) { return cuStreamDestroy_v2(s); }
int hipStreamSynchronize(void* s) { return cuStreamSynchronize(s); }
int hipStreamWaitEvent(void* s, void* e, unsigned f) { return cuStreamWaitEvent(s, e, f); }
int hipStreamQuery(void* s) { return cuStreamQuery(s); }
int hipStreamIsCapturing(void* s, int* c) { return cuStreamIsCapturing(s, c); }
int hipStreamGetCaptureInfo_v2(void* s, int* c, u64* id, void** g, const void*** n, unsigned long* k) {
  return cuStreamGetCaptureInfo_v2(s, c, id, g, n, k);
}
int hipThreadExchangeStreamCaptureMode(int* m) { return cuThreadExchangeStreamCaptureMode(m); }
int hipEventCreateWithFlags(void** e, unsigned f) { return cuEventCreate(e, f); }
int hipEventDestroy(void* e) { return cuEventDestroy_v2(e); }
int hipEventRecord(void* e, void* s) { return cuEventRecord(e, s); }
int hipEventQuery(void* e) { return cuEventQuery(e); }
int hipEventElapsedTime(float* ms, void* b, void* e) { return cuEventElapsedTime(ms, b, e); }
int hipUserObjectCreate(void** o, void* p, void (*d)(void*), unsigned c, unsigned f) {
  return cuUserObjectCreate(o, p, d, c, f);
}
int hipGraphRetainUserObject(void* g, void* o, unsigned c, unsigned f) { return cuGraphRetainUserObject(g, o, c, f); }
int hipModuleLoadData(void** m, const void* i) { return cuModuleLoadData(m, i); }
int hipModuleUnload(void* m) { return cuModuleUnload(m); }
int hipModuleGetFunction(void** f, void* m, const char* n) { return cuModuleGetFunction(f, m, n); }
int hipFuncGetAttribute(int* v, int a, void* f) { return cuFuncGetAttribute(v, a, f); }
int hipDeviceGetAttribute(int* value, int attribute, int device) {
  // HIP's numbers; those that no device of AMD's has are errors.
  const std::map<int, int> numbers{{63, 16}, {23, 75}, {61, 76}, {89, 102}, {65, 88}};
  const auto found = numbers.find(attribute);
  return found == numbers.end() ? fake::kInvalidValue : cuDeviceGetAttribute(value, found->second, device);
}
int hipSetDevice(int device) {
  void* context = nullptr;
  cuDevicePrimaryCtxRetain(&context, device);
  return cuCtxSetCurrent(context);
}
// Every thread begins with device 0.
int hipGetDevice(int* device) {
  if (cuCtxGetDevice(device) == 0) return 0;
  *device = 0;
  return hipSetDevice(0);
}
int hipDeviceEnablePeerAccess(int owner, unsigned flags) {
  void* context = nullptr;
  cuDevicePrimaryCtxRetain(&context, owner);
  return cuCtxEnablePeerAccess(context, flags);
}
const char* hipGetErrorString(int code) {
  return code == fake::kOutOfMemory ? "out of memory" : "an error of the fake";
}
int hipMalloc(u64* address, unsigned long bytes) { return note_coarse(cuMemAlloc_v2(address, bytes), *address, bytes); }
int hipExtMallocWithFlags(u64* address, unsigned long bytes, unsigned flags) {
  Memory& all = memory();
  if ((flags == 3 && (all.kinds & 2) == 0) || (flags == 1 && (all.kinds & 1) == 0)) return fake::kInvalidValue;
  if (flags != 1 && flags != 3) return fake::kInvalidValue;
  {
    const std::lock_guard lock(all.mutex);
    ++(flags == 3 ? all.uncached : all.fine_grained);
  }
  return cuMemAlloc_v2(address, bytes);
}
int hipFree(u64 address) {
  {
    const std::lock_guard lock(memory().mutex);
    memory().coarse.erase(address);
  }
  return cuMemFree_v2(address);
}
int hipMemMap(u64 address, unsigned long bytes, unsigned long offset, u64 handle, u64 flags) {
  return note_coarse(cuMemMap(address, bytes, offset, handle, flags), address, bytes);
}
int hipIpcOpenMemHandle(u64* address, HipIpcHandle handle, unsigned flags) {
  return cuIpcOpenMemHandle_v2(address, handle, flags);
}
int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void* stream, void** parameters, void** extra) {
  const std::string& name = static_cast<const fake::Function*>(function)->name;
  const bool of_call = name.compare(0, 10, "sccl_move_") != 0 && name != "sccl_signal" && name != "sccl_one_sided";
  if (of_call) look_at_messages(*static_cast<const sccl::device::gpu::CallArguments*>(parameters[0]));
  return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
}

}  // extern "C"
#pragma GCC visibility pop
