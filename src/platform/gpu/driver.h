// The driver's functions, looked up in the library that the program has loaded: nothing but a table of pointers.
//
// libcuda and libamdhip64 agree on these functions except for the names and a few numbers: device pointers have 64
// bits, handles are pointers, results are integers with zero for success. Where they differ, the table has one function
// for each. A program that uses a device has the library in memory, so no library is loaded here, and a program without
// a device pays nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "platform/gpu/vendor.h"

namespace sccl::gpu {

using Address = std::uint64_t;  // of device memory
using Stream = void*;
using Status = int;

struct UniqueDeviceId {
  unsigned char bytes[16];
  bool operator==(const UniqueDeviceId&) const = default;
};

struct IpcHandle {
  unsigned char bytes[64];
};

// Describes an allocation that others can map, in the vendors' layout.
struct AllocationProperties {
  int type = 1;           // pinned
  int handle_types = 1;   // POSIX file descriptor
  int location_type = 1;  // device
  int location_id = 0;
  void* win32 = nullptr;
  struct {
    unsigned char compression = 0, rdma = 0;
    unsigned short usage = 0;
    unsigned char reserved[4]{};
  } flags;
};
struct AccessDescription {
  int location_type = 1;
  int location_id = 0;
  int flags = 3;  // read and write
};

// The attributes that both vendors have; Driver::number_of gives each vendor's numbers.
enum class Attribute : int {
  multiprocessors,
  capability_major,
  capability_minor,
  vmm,
  vmm_descriptors,
  pageable,
  stream_values,
  process_service,  // CUDA only
  dmabuf            // CUDA only
};
// One operation of a batch on a stream's flags; the driver's layout.
struct FlagOperation {
  enum Kind : int { wait32 = 1, write32 = 2 };
  int kind = wait32;
  Address word = 0;
  std::uint64_t value = 0;  // only the low half counts
  unsigned flags = 0;
  Address alias = 0;
  std::uint64_t padding = 0;
};
static_assert(sizeof(FlagOperation) == 48);

// CUDA's layouts, of which one attribute is used: an event that is recorded when all blocks of the kernel have begun.
inline constexpr int kLaunchEventsSince = 12030;
struct LaunchAttribute {
  int kind = 12;
  int padding = 0;
  void* event = nullptr;
  int flags = 0;
  char rest[52]{};
};
static_assert(sizeof(LaunchAttribute) == 72);
struct LaunchConfig {
  unsigned blocks[3];
  unsigned threads[3];
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

enum class Capture : int { none = 0, active = 1, invalidated = 2 };
inline constexpr int kInvalidContext = 201;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotReady = 600;         // same number for both vendors, as the following ones
inline constexpr int kCaptureImplicit = 906;  // the legacy stream beside a capture that it would have to wait for
inline constexpr int kCapturedEvent = 907;
// The same for both vendors.
inline constexpr Status kPeerAccessAlready = 704;
inline constexpr unsigned kNonBlockingStream = 1;
// Handles of default streams; null is the legacy one, too.
inline constexpr std::uintptr_t kLegacyStream = 1;
inline constexpr std::uintptr_t kPerThreadStream = 2;
inline bool is_legacy(Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= kLegacyStream; }
inline bool is_per_thread(Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) == kPerThreadStream; }
inline constexpr unsigned kMappedAndPortable = 3;  // for allocating and for registering host memory
inline constexpr unsigned kLazyPeerAccess = 1;     // ignored by HIP
inline constexpr int kDmabuf = 1;                  // the type of a range's handle
// Flags of hipExtMallocWithFlags. Uncached memory came with ROCm 5.5.
inline constexpr unsigned kFineGrained = 1;
inline constexpr unsigned kUncached = 3;

struct Driver {
  Vendor vendor = Vendor::cuda;
  int version = 0;  // 13000 for CUDA 13.0

  // Devices and contexts.
  Status (*init)(unsigned);
  Status (*driver_version)(int*);
  Status (*device_count)(int*);
  Status (*device_by_ordinal)(int*, int);
  Status (*device_attribute)(int*, int attribute, int device);
  Status (*device_id)(UniqueDeviceId*, int device);
  Status (*device_name)(char*, int bytes, int device);
  Status (*device_busid)(char*, int bytes, int device);  // may be null
  Status (*can_access_peer)(int*, int device, int peer);
  Status (*context_current)(void**);
  Status (*context_set)(void*);
  Status (*context_device)(int*);
  Status (*primary_retain)(void**, int device);
  Status (*primary_release)(int device);
  Status (*primary_state)(int device, unsigned* flags, int* active);  // null in HIP
  Status (*enable_peer_access)(void* peer_context, unsigned flags);   // HIP: by device; see hip_enable_peer
  // HIP has devices instead of contexts.
  Status (*hip_get_device)(int*);
  Status (*hip_set_device)(int);
  Status (*hip_enable_peer)(int, unsigned);

  // Memory.
  Status (*allocate)(Address*, std::size_t);
  Status (*allocate_with)(Address*, std::size_t, unsigned flags);  // HIP only; may be null
  Status (*free)(Address);
  Status (*host_allocate)(void**, std::size_t, unsigned flags);
  Status (*host_free)(void*);
  Status (*host_device_pointer)(Address*, void*, unsigned);
  Status (*host_register)(void*, std::size_t, unsigned flags);
  Status (*host_unregister)(void*);
  Status (*copy_to_device)(Address, const void*, std::size_t, Stream);
  Status (*copy_from_device)(void*, Address, std::size_t, Stream);
  Status (*copy_on_device)(Address, Address, std::size_t, Stream);
  Status (*fill)(Address, unsigned char, std::size_t, Stream);
  Status (*pointer_attributes)(unsigned count, int* attributes, void** results, Address);  // null in HIP
  Status (*address_range)(Address*, std::size_t*, Address);  // the allocation that contains an address; may be null
  // CUDA only; may be null. A descriptor (kDmabuf) for whole pages of device memory.
  Status (*range_handle)(void*, Address, std::size_t, int type, unsigned long long flags);
  Status (*ipc_export)(IpcHandle*, Address);
  Status (*ipc_open)(Address*, IpcHandle, unsigned flags);
  Status (*ipc_close)(Address);

  // Virtual memory; null where the driver is too old.
  Status (*vmm_granularity)(std::size_t*, const AllocationProperties*, int which);
  Status (*vmm_create)(std::uint64_t*, std::size_t, const AllocationProperties*, unsigned long long);
  Status (*vmm_release)(std::uint64_t);
  Status (*vmm_reserve)(Address*, std::size_t, std::size_t alignment, Address hint, unsigned long long);
  Status (*vmm_unreserve)(Address, std::size_t);
  Status (*vmm_map)(Address, std::size_t, std::size_t offset, std::uint64_t, unsigned long long);
  Status (*vmm_unmap)(Address, std::size_t);
  Status (*vmm_set_access)(Address, std::size_t, const AccessDescription*, std::size_t count);
  Status (*vmm_export)(void*, std::uint64_t, int type, unsigned long long);
  Status (*vmm_import)(std::uint64_t*, void*, int type);
  Status (*vmm_retain)(std::uint64_t*, void* address);  // the handle of what is mapped there; CUDA only; may be null

  // Streams, events, graphs.
  Status (*stream_create)(Stream*, unsigned flags);
  Status (*stream_destroy)(Stream);
  Status (*stream_synchronize)(Stream);
  Status (*stream_query)(Stream);  // may be null
  Status (*stream_wait_event)(Stream, void* event, unsigned);
  Status (*stream_id)(Stream, unsigned long long*);  // since CUDA 12.0; null before, and in HIP
  // CUDA only: HIP's flags lie in special memory that processes cannot share.
  Status (*stream_wait_value)(Stream, Address, std::uint32_t, unsigned flags);     // may be null
  Status (*stream_write_value)(Stream, Address, std::uint32_t, unsigned flags);    // may be null
  Status (*stream_batch)(Stream, unsigned count, FlagOperation*, unsigned flags);  // may be null
  Status (*stream_is_capturing)(Stream, int*);
  Status (*capture_info)(Stream, int* status, unsigned long long* id, void** graph, const void*** nodes,
                         std::size_t* count);  // may be null
  Status (*exchange_capture_mode)(int*);
  Status (*event_create)(void**, unsigned flags);
  Status (*event_destroy)(void*);
  Status (*event_record)(void*, Stream);
  Status (*event_query)(void*);
  Status (*event_elapsed)(float* milliseconds, void* begin, void* end);  // may be null
  Status (*user_object_create)(void**, void* pointer, void (*destroy)(void*), unsigned count,
                               unsigned flags);                                       // may be null
  Status (*graph_retain)(void* graph, void* object, unsigned count, unsigned flags);  // may be null

  // Kernels.
  Status (*module_load)(void**, const void* image);
  Status (*module_unload)(void*);
  Status (*module_function)(void**, void* module, const char* name);
  Status (*function_load)(void*);  // since CUDA 12.4; null before, and in HIP
  Status (*function_attribute)(int* value, int attribute, void* function);
  Status (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared_bytes,
                   Stream, void** parameters, void** extra);
  Status (*launch_with)(const LaunchConfig*, void* function, void** parameters, void** extra);  // may be null

  Status (*cuda_error_text)(Status, const char**);
  const char* (*hip_error_text)(Status);

  // The vendor's number, also if the vendor's library is absent; -1 if the vendor lacks the attribute. tests/platform
  // compares the numbers with the vendors' headers.
  static int number_of(Vendor vendor, Attribute attribute);
  int number_of(Attribute attribute) const { return number_of(vendor, attribute); }

  bool has_vmm() const { return vmm_create != nullptr && vmm_export != nullptr && vmm_import != nullptr; }
  std::string error_text(Status status) const;

  // Throws device_error that names the request, the driver's answer and a remedy.
  void check(Status status, const char* what) const {
    if (status != 0) fail(status, what);
  }
  [[noreturn]] void fail(Status status, const char* what) const;
};

// The vendor's driver, when the program has loaded its library and the library works; else null. Each call searches
// until the driver is found, because a program may load it later. `why_not` says what is wrong with a loaded library.
const Driver* find_driver(Vendor vendor, std::string& why_not);

}  // namespace sccl::gpu
