#include "platform/gpu/driver.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <mutex>
#include <optional>

namespace sccl::gpu {
namespace {

// Graphs with user objects and cuStreamGetCaptureInfo_v2 came with 11.3. Older drivers cannot load the output of the
// compilers that the library looks for, either.
constexpr int kOldestCuda = 11030;

struct Names {
  const char* cuda;
  const char* hip;
};

class Table {
 public:
  Table(void* library, Vendor vendor) : library_(library), vendor_(vendor) {}

  template <typename Function>
  void need(Function*& function, Names names) {
    want(function, names);
    if (function == nullptr && missing_.empty() && name(names) != nullptr) missing_ = name(names);
  }
  template <typename Function>
  void want(Function*& function, Names names) {
    const char* const symbol = name(names);
    function = symbol == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library_, symbol));
  }
  const std::string& missing() const { return missing_; }

 private:
  const char* name(Names names) const { return vendor_ == Vendor::cuda ? names.cuda : names.hip; }

  void* library_;
  Vendor vendor_;
  std::string missing_;
};

void fill_devices(Table& table, Driver& d) {
  table.need(d.init, {"cuInit", "hipInit"});
  table.need(d.driver_version, {"cuDriverGetVersion", "hipDriverGetVersion"});
  table.need(d.device_count, {"cuDeviceGetCount", "hipGetDeviceCount"});
  table.need(d.device_by_ordinal, {"cuDeviceGet", "hipDeviceGet"});
  table.need(d.device_attribute, {"cuDeviceGetAttribute", "hipDeviceGetAttribute"});
  table.want(d.device_id, {"cuDeviceGetUuid_v2", nullptr});  // tells instances of one device apart
  if (d.device_id == nullptr) table.need(d.device_id, {"cuDeviceGetUuid", "hipDeviceGetUuid"});
  table.need(d.device_name, {"cuDeviceGetName", "hipDeviceGetName"});
  table.want(d.device_busid, {"cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId"});
  table.need(d.can_access_peer, {"cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer"});
  table.need(d.context_current, {"cuCtxGetCurrent", nullptr});
  table.need(d.context_set, {"cuCtxSetCurrent", nullptr});
  table.need(d.context_device, {"cuCtxGetDevice", nullptr});
  table.need(d.primary_retain, {"cuDevicePrimaryCtxRetain", nullptr});
  table.need(d.primary_release, {"cuDevicePrimaryCtxRelease_v2", nullptr});
  table.want(d.primary_state, {"cuDevicePrimaryCtxGetState", nullptr});
  table.need(d.enable_peer_access, {"cuCtxEnablePeerAccess", nullptr});
  table.need(d.hip_get_device, {nullptr, "hipGetDevice"});
  table.need(d.hip_set_device, {nullptr, "hipSetDevice"});
  table.need(d.hip_enable_peer, {nullptr, "hipDeviceEnablePeerAccess"});
  table.need(d.cuda_error_text, {"cuGetErrorString", nullptr});
  table.need(d.hip_error_text, {nullptr, "hipGetErrorString"});
}

void fill_memory(Table& table, Driver& d) {
  table.need(d.allocate, {"cuMemAlloc_v2", "hipMalloc"});
  table.want(d.allocate_with, {nullptr, "hipExtMallocWithFlags"});
  table.need(d.free, {"cuMemFree_v2", "hipFree"});
  table.need(d.host_allocate, {"cuMemHostAlloc", "hipHostMalloc"});
  table.need(d.host_free, {"cuMemFreeHost", "hipHostFree"});
  table.need(d.host_device_pointer, {"cuMemHostGetDevicePointer_v2", "hipHostGetDevicePointer"});
  table.need(d.host_register, {"cuMemHostRegister_v2", "hipHostRegister"});
  table.need(d.host_unregister, {"cuMemHostUnregister", "hipHostUnregister"});
  table.need(d.copy_to_device, {"cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"});
  table.need(d.copy_from_device, {"cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"});
  table.need(d.copy_on_device, {"cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync"});
  table.need(d.fill, {"cuMemsetD8Async", "hipMemsetD8Async"});
  // Attributes of pointers are used for CUDA only: HIP's numbers for kinds of memory differ between its versions.
  table.want(d.pointer_attributes, {"cuPointerGetAttributes", nullptr});
  table.want(d.address_range, {"cuMemGetAddressRange_v2", "hipMemGetAddressRange"});
  table.want(d.range_handle, {"cuMemGetHandleForAddressRange", nullptr});
  table.need(d.ipc_export, {"cuIpcGetMemHandle", "hipIpcGetMemHandle"});
  table.need(d.ipc_open, {"cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle"});
  table.need(d.ipc_close, {"cuIpcCloseMemHandle", "hipIpcCloseMemHandle"});
  table.want(d.vmm_granularity, {"cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity"});
  table.want(d.vmm_create, {"cuMemCreate", "hipMemCreate"});
  table.want(d.vmm_release, {"cuMemRelease", "hipMemRelease"});
  table.want(d.vmm_reserve, {"cuMemAddressReserve", "hipMemAddressReserve"});
  table.want(d.vmm_unreserve, {"cuMemAddressFree", "hipMemAddressFree"});
  table.want(d.vmm_map, {"cuMemMap", "hipMemMap"});
  table.want(d.vmm_unmap, {"cuMemUnmap", "hipMemUnmap"});
  table.want(d.vmm_set_access, {"cuMemSetAccess", "hipMemSetAccess"});
  table.want(d.vmm_export, {"cuMemExportToShareableHandle", "hipMemExportToShareableHandle"});
  table.want(d.vmm_import, {"cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle"});
  table.want(d.vmm_retain, {"cuMemRetainAllocationHandle", nullptr});
}

void fill_work(Table& table, Driver& d) {
  table.need(d.stream_create, {"cuStreamCreate", "hipStreamCreateWithFlags"});
  table.need(d.stream_destroy, {"cuStreamDestroy_v2", "hipStreamDestroy"});
  table.need(d.stream_synchronize, {"cuStreamSynchronize", "hipStreamSynchronize"});
  table.want(d.stream_query, {"cuStreamQuery", "hipStreamQuery"});
  table.need(d.stream_wait_event, {"cuStreamWaitEvent", "hipStreamWaitEvent"});
  table.want(d.stream_id, {"cuStreamGetId", nullptr});
  table.want(d.stream_wait_value, {"cuStreamWaitValue32_v2", nullptr});
  table.want(d.stream_write_value, {"cuStreamWriteValue32_v2", nullptr});
  table.want(d.stream_batch, {"cuStreamBatchMemOp_v2", nullptr});
  table.need(d.stream_is_capturing, {"cuStreamIsCapturing", "hipStreamIsCapturing"});
  table.want(d.capture_info, {"cuStreamGetCaptureInfo_v2", "hipStreamGetCaptureInfo_v2"});
  table.need(d.exchange_capture_mode, {"cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode"});
  table.need(d.event_create, {"cuEventCreate", "hipEventCreateWithFlags"});
  table.need(d.event_destroy, {"cuEventDestroy_v2", "hipEventDestroy"});
  table.need(d.event_record, {"cuEventRecord", "hipEventRecord"});
  table.need(d.event_query, {"cuEventQuery", "hipEventQuery"});
  table.want(d.event_elapsed, {"cuEventElapsedTime", "hipEventElapsedTime"});
  table.want(d.user_object_create, {"cuUserObjectCreate", "hipUserObjectCreate"});
  table.want(d.graph_retain, {"cuGraphRetainUserObject", "hipGraphRetainUserObject"});
  table.need(d.module_load, {"cuModuleLoadData", "hipModuleLoadData"});
  table.need(d.module_unload, {"cuModuleUnload", "hipModuleUnload"});
  table.need(d.module_function, {"cuModuleGetFunction", "hipModuleGetFunction"});
  table.want(d.function_load, {"cuFuncLoad", nullptr});
  table.need(d.function_attribute, {"cuFuncGetAttribute", "hipFuncGetAttribute"});
  table.need(d.launch, {"cuLaunchKernel", "hipModuleLaunchKernel"});
  table.want(d.launch_with, {"cuLaunchKernelEx", nullptr});
}

// The number of objects that the loader has added to this process since its start.
unsigned long long objects_added() {
  unsigned long long added = 0;
  const auto note = [](dl_phdr_info* info, std::size_t, void* to) {
    *static_cast<unsigned long long*>(to) = info->dlpi_adds;
    return 1;  // the same for all objects
  };
  ::dl_iterate_phdr(note, &added);
  return added;
}

void* library_in_memory(Vendor vendor) {
  constexpr std::array<const char*, 1> kCuda{"libcuda.so.1"};
  constexpr std::array<const char*, 4> kHip{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                            "libamdhip64.so"};
  const auto open = [](const auto& names) -> void* {
    for (const char* name : names)
      if (void* const found = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return found;
    return nullptr;
  };
  return vendor == Vendor::cuda ? open(kCuda) : open(kHip);
}

std::optional<Driver> load(void* library, Vendor vendor, std::string& why_not) {
  Driver driver{};
  driver.vendor = vendor;
  Table table(library, vendor);
  fill_devices(table, driver);
  fill_memory(table, driver);
  fill_work(table, driver);
  if (!table.missing().empty()) {
    why_not = fmt::format("the {} driver has no {}: update it", name(vendor), table.missing());
    return std::nullopt;
  }
  if (const Status status = driver.init(0); status != 0) {
    why_not = fmt::format("the {} driver does not start ({})", name(vendor), driver.error_text(status));
    return std::nullopt;
  }
  driver.driver_version(&driver.version);
  if (vendor == Vendor::cuda && driver.version < kOldestCuda) {
    why_not =
        fmt::format("the CUDA driver is of version {}.{}, which lacks what graphs need: update it to 11.3 or newer",
                    driver.version / 1000, driver.version % 1000 / 10);
    return std::nullopt;
  }
  return driver;
}

}  // namespace

int Driver::number_of(Vendor vendor, Attribute attribute) {
  // In the order of Attribute. HIP's enumeration has another order, and one number for both attributes of virtual
  // memory.
  constexpr std::array<int, 9> kCuda{16, 75, 76, 102, 103, 88, 122, 133, 124};
  constexpr std::array<int, 9> kHip{63, 23, 61, 89, 89, 65, -1, -1, -1};
  const auto index = static_cast<std::size_t>(attribute);
  return vendor == Vendor::cuda ? kCuda.at(index) : kHip.at(index);
}

std::string Driver::error_text(Status status) const {
  const char* text = nullptr;
  if (cuda_error_text != nullptr) cuda_error_text(status, &text);
  if (hip_error_text != nullptr) text = hip_error_text(status);
  return text == nullptr ? fmt::format("error {}", status) : fmt::format("{}, error {}", text, status);
}

void Driver::fail(Status status, const char* what) const {
  constexpr Status kOutOfMemory = 2;
  const char* remedy = status == kOutOfMemory ? "free device memory, or lower SCCL_MEM_LIMIT"
                                              : "look at the driver's log (dmesg, nvidia-smi -q)";
  sccl::fail(ErrorCode::device_error, "{} failed on the {} driver ({}): {}", what, name(vendor), error_text(status),
             remedy);
}

const Driver* find_driver(Vendor vendor, std::string& why_not) {
  static std::mutex mutex;
  static std::array<std::optional<Driver>, 2> drivers;
  // A library that was absent stays absent until the loader adds an object. Searching the loader's objects at each call
  // would cost a sixth of an init's instructions.
  static std::array<unsigned long long, 2> absent_at{};
  const std::lock_guard lock(mutex);
  const auto index = static_cast<std::size_t>(vendor);
  auto& driver = drivers[index];
  if (driver) return &*driver;
  const unsigned long long added = objects_added();
  if (added == absent_at[index]) return nullptr;
  void* const library = library_in_memory(vendor);
  if (library == nullptr) {
    absent_at[index] = added;
    return nullptr;
  }
  driver = load(library, vendor, why_not);
  return driver ? &*driver : nullptr;
}

}  // namespace sccl::gpu
