// The fake driver's memory: allocations, copies, virtual memory, and what is passed to other processes.
#include <sys/stat.h>

#include "gpu/fake_cuda_state.h"
#include "gpu/let_go.h"

using namespace fake;

#pragma GCC visibility push(default)
extern "C" {

int cuMemAlloc_v2(u64* address, unsigned long bytes) {
  if (const int code = enter_draining("cuMemAlloc_v2")) return code;
  return current == nullptr ? kInvalidContext : allocate(address, bytes, false);
}
int cuMemFree_v2(u64 address) {
  if (const int code = enter_draining("cuMemFree_v2")) return code;
  return release(address, Freed::device);
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
  return release(reinterpret_cast<u64>(data), Freed::host);
}
int cuMemHostGetDevicePointer_v2(u64* address, void* data, unsigned) {
  if (const int code = enter("cuMemHostGetDevicePointer_v2")) return code;
  *address = reinterpret_cast<u64>(data);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.allocations.count(*address) != 0 ? kSuccess : kInvalidValue;
}
static constexpr u64 kPage = 4096;
static u64 whole_pages(u64 end) { return (end + kPage - 1) / kPage * kPage; }
static bool is_mapped(void* data, std::size_t bytes) { return ::msync(data, whole_pages(bytes), MS_ASYNC) == 0; }
int cuMemHostRegister_v2(void* data, unsigned long bytes, unsigned flags) {
  if (const int code = enter_draining("cuMemHostRegister_v2")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const u64 address = reinterpret_cast<u64>(data);
  if (flags != 3 || address % kPage != 0 || !is_mapped(data, bytes)) return kInvalidValue;
  for (const auto& [begin, known] : s.allocations)  // whole pages are registered, each once
    if (address < whole_pages(begin + known.bytes) && begin < whole_pages(address + bytes)) return kRegisteredAlready;
  s.allocations[address] = {bytes, -1, true, current_device()};
  return kSuccess;
}
int cuMemHostUnregister(void* data) {
  if (const int code = enter_draining("cuMemHostUnregister")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.allocations.find(reinterpret_cast<u64>(data));
  if (found == s.allocations.end() || found->second.descriptor >= 0) return kNotRegistered;
  if (!is_mapped(data, found->second.bytes)) {
    std::fprintf(stderr, "fake_cuda: registered memory was unmapped\n");
    ++s.violations;
  }
  s.allocations.erase(found);
  return kSuccess;
}
// Pages that are not pinned are copied to the driver's own before the call returns. For that it may wait for the
// stream. In a graph the copy reads them when the graph runs.
static bool is_pinned(const void* data, std::size_t bytes) {
  const auto address = reinterpret_cast<u64>(data);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return std::any_of(s.allocations.begin(), s.allocations.end(), [&](const auto& entry) {
    return entry.second.host && address >= entry.first && address + bytes <= entry.first + entry.second.bytes;
  });
}
// False: it does not end, as has been told.
static bool await_stream(FakeStream& stream, const char* call) {
  std::string doing;
  const auto limit = std::chrono::steady_clock::now() + patience();
  if (is_spared || stream.drain_until(limit, doing) || stream.context.fault != 0) return true;
  tell_stuck(std::string(call) + " of memory that is not pinned waits for its stream, where " + doing +
             " has not ended in " + std::to_string(state().patience_ms) + " ms");
  return false;
}
int cuMemcpyHtoDAsync_v2(u64 to, const void* from, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemcpyHtoDAsync_v2")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (const int code = enter_work(stream)) return code;
  const auto copy = [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); };
  if (found->capture || is_pinned(from, bytes)) return found->push_copy(found->context.to_device, copy), kSuccess;
  if (!await_stream(*found, "cuMemcpyHtoDAsync_v2")) return kStuck;
  const auto* const data = static_cast<const unsigned char*>(from);
  found->push_copy(found->context.to_device, [to, staged = std::vector<unsigned char>(data, data + bytes)] {
    std::memcpy(reinterpret_cast<void*>(to), staged.data(), staged.size());
  });
  return kSuccess;
}
int cuMemcpyDtoHAsync_v2(void* to, u64 from, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemcpyDtoHAsync_v2")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (const int code = enter_work(stream)) return code;
  found->push_copy(found->context.to_host, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  if (found->capture || is_pinned(to, bytes)) return kSuccess;
  return await_stream(*found, "cuMemcpyDtoHAsync_v2") ? kSuccess : kStuck;
}
int cuMemcpyDtoDAsync_v2(u64 to, u64 from, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemcpyDtoDAsync_v2")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (const int code = enter_work(stream)) return code;
  found->push([=] {
    const MovesData moves;
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    work_of_engine(bytes);
  });
  return kSuccess;
}
int cuMemsetD8Async(u64 to, unsigned char value, unsigned long bytes, void* stream) {
  if (const int code = enter("cuMemsetD8Async")) return code;
  const auto found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (const int code = enter_work(stream)) return code;
  if (const int code = drain_context("cuMemsetD8Async")) return code;
  found->push([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return kSuccess;
}
int cuPointerGetAttributes(unsigned count, int* attributes, void** results, u64 pointer) {
  if (const int code = enter("cuPointerGetAttributes")) return code;
  State& s = state();
  const int access = may_use(current_device(), pointer) ? 3 : 0;
  int plain = 0;  // memory of cuMemAlloc, which other processes can open
  const std::lock_guard lock(s.mutex);
  int type = s.any_memory ? 2 : 0;
  int device = current_device();
  for (const auto& [begin, allocation] : s.allocations)
    if (pointer >= begin && pointer < begin + allocation.bytes) {
      type = allocation.host ? 1 : 2;
      device = allocation.device;
      plain = !allocation.host && allocation.opened == 0 ? 1 : 0;
    }
  for (const auto& [begin, mapping] : s.mapped)
    if (pointer >= begin && pointer < begin + mapping.bytes) {
      type = 2;
      device = mapping.device;
    }
  for (unsigned i = 0; i < count; ++i)
    *static_cast<unsigned*>(results[i]) = static_cast<unsigned>(attributes[i] == 2    ? type
                                                                : attributes[i] == 9  ? device
                                                                : attributes[i] == 10 ? plain
                                                                : attributes[i] == 16 ? access
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
  if (found == s.allocations.end() || found->second.host || found->second.opened > 0) return kInvalidValue;
  *handle = {::getpid(), found->second.descriptor, found->second.bytes, {}};
  return kSuccess;
}
// Memory that is open already is not mapped again: it is opened once more, and must be closed as often.
static bool open_again(u64 inode, u64* address) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.opened.find({inode, current_device()});
  if (found == s.opened.end()) return false;
  ++s.allocations[*address = found->second].opened;
  return true;
}
int cuIpcOpenMemHandle_v2(u64* address, FakeIpcHandle handle, unsigned flags) {
  if (const int code = enter_unsafe("cuIpcOpenMemHandle_v2")) return code;
  if (const int code = drain_context("cuIpcOpenMemHandle_v2")) return code;
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0 || handle.process == ::getpid()) return kInvalidValue;  // as the driver
  const bool foreign = device_behind(descriptor) != current_device();
  if (flags != 1) return ::close(descriptor), kInvalidValue;  // opening peer access
  if (foreign && !peers(current_device(), device_behind(descriptor)))
    return ::close(descriptor), kPeerAccessUnsupported;
  struct stat about {};
  ::fstat(descriptor, &about);
  if (open_again(about.st_ino, address)) return ::close(descriptor), kSuccess;
  void* const data = ::mmap(nullptr, handle.bytes, PROT_READ | PROT_WRITE, sharing(foreign), descriptor, 0);
  *address = reinterpret_cast<u64>(data);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.allocations[*address] = {handle.bytes, descriptor, false, device_behind(descriptor), 1};
  s.opened[{about.st_ino, current_device()}] = *address;
  s.peer_access_open.insert({current_device(), device_behind(descriptor)});  // it was asked for
  return kSuccess;
}
int cuIpcCloseMemHandle(u64 address) {
  if (const int code = enter_unsafe("cuIpcCloseMemHandle")) return code;
  if (const int code = drain_context("cuIpcCloseMemHandle")) return code;
  return release(address, Freed::opened);
}

int cuMemGetAllocationGranularity(unsigned long* bytes, const void*, int) {
  *bytes = kGranularity;
  return enter("cuMemGetAllocationGranularity");
}
int cuMemCreate(u64* handle, unsigned long bytes, const void* properties, u64 flags) {
  if (const int code = enter_unsafe("cuMemCreate")) return code;
  const auto* const wanted = static_cast<const int*>(properties);  // type, handle types, location.type and .id
  if (bytes == 0 || bytes % kGranularity != 0 || flags != 0 || wanted[0] != 1 || wanted[2] != 1) return kInvalidValue;
  const int device = wanted[3];
  if (device < 0 || device >= state().devices) return kInvalidDevice;
  const int descriptor = ::memfd_create(memory_name(device).c_str(), MFD_CLOEXEC);
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *handle = s.next++;
  s.handles[*handle] = {descriptor, device, bytes, wanted[1] == 1};
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
  const auto found = s.reserved.find(address);
  if (found == s.reserved.end() || found->second != bytes || s.mapped.count(address) != 0) return kInvalidValue;
  s.reserved.erase(found);
  ::munmap(reinterpret_cast<void*>(address), bytes);
  return kSuccess;
}
int cuMemMap(u64 address, unsigned long bytes, unsigned long offset, u64 handle, u64 flags) {
  if (const int code = enter_unsafe("cuMemMap")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.handles.find(handle);
  const auto place = s.reserved.find(address);
  if (found == s.handles.end() || place == s.reserved.end() || bytes > place->second) return kInvalidValue;
  if (offset != 0 || flags != 0 || bytes != found->second.bytes) return kInvalidValue;
  if (s.mapped.count(address) != 0) return kAlreadyMapped;
  // Without access until it is allowed.
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
             sharing(found->second.device != current_device()) | MAP_FIXED, found->second.descriptor, 0) == MAP_FAILED)
    return kOutOfMemory;
  s.mapped[address] = {bytes, found->second.device, {}};
  return kSuccess;
}
int cuMemSetAccess(u64 address, unsigned long bytes, const void* access, unsigned long count) {
  if (const int code = enter_unsafe("cuMemSetAccess")) return code;
  if (const int code = drain_context("cuMemSetAccess")) return code;
  State& s = state();
  int owner = 0;
  {
    const std::lock_guard lock(s.mutex);
    const auto found = s.mapped.find(address);
    if (found == s.mapped.end() || found->second.bytes != bytes || count != 1) return kInvalidValue;
    owner = found->second.device;
  }
  const auto* const wanted = static_cast<const int*>(access);  // location.type and .id, flags
  if (wanted[0] != 1 || wanted[2] != 3) return kInvalidValue;
  if (wanted[1] != owner && !peers(wanted[1], owner)) return kPeerAccessUnsupported;
  {
    const std::lock_guard lock(s.mutex);
    s.mapped[address].users.insert(wanted[1]);
  }
  return ::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
}
int cuMemUnmap(u64 address, unsigned long bytes) {
  if (const int code = enter_unsafe("cuMemUnmap")) return code;
  if (const int code = drain_context("cuMemUnmap")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.mapped.find(address);
  if (found == s.mapped.end() || found->second.bytes != bytes) return kInvalidValue;
  s.mapped.erase(found);
  ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
         -1, 0);
  return kSuccess;
}
int cuMemExportToShareableHandle(void* out, u64 handle, int, u64) {
  if (const int code = enter("cuMemExportToShareableHandle")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.handles.find(handle);
  if (found == s.handles.end() || !found->second.exportable) return kInvalidValue;
  *static_cast<int*>(out) = ::fcntl(found->second.descriptor, F_DUPFD_CLOEXEC, 0);
  return kSuccess;
}
// The handle can be released, not used for more: the fake forgets which one was mapped.
int cuMemRetainAllocationHandle(u64* handle, void* address) {
  if (const int code = enter("cuMemRetainAllocationHandle")) return code;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto at = reinterpret_cast<u64>(address);
  auto found = s.mapped.upper_bound(at);
  if (found == s.mapped.begin() || at >= (--found)->first + found->second.bytes) return kInvalidValue;
  *handle = s.next++;
  s.handles[*handle] = {::memfd_create("retained", MFD_CLOEXEC), found->second.device, found->second.bytes, false};
  return kSuccess;
}
int cuMemImportFromShareableHandle(u64* handle, void* descriptor, int) {
  if (const int code = enter("cuMemImportFromShareableHandle")) return code;
  const int own = ::fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return kInvalidValue;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *handle = s.next++;
  const auto bytes = static_cast<std::size_t>(::lseek(own, 0, SEEK_END));
  s.handles[*handle] = {own, device_behind(own), bytes, true};
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
