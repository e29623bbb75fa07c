// The platform's numbers, structures and signatures against ROCm's own header (libamdhip64-dev), where it is installed.
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

#include <catch2/catch.hpp>

#include "platform/gpu/driver.h"
#include "platform/vendor_headers.h"

using sccl::gpu::Attribute;
using sccl::gpu::Driver;

static_assert(SameCall<decltype(Driver::init), decltype(&hipInit)>::value);
static_assert(SameCall<decltype(Driver::driver_version), decltype(&hipDriverGetVersion)>::value);
static_assert(SameCall<decltype(Driver::device_count), decltype(&hipGetDeviceCount)>::value);
static_assert(SameCall<decltype(Driver::device_by_ordinal), decltype(&hipDeviceGet)>::value);
static_assert(SameCall<decltype(Driver::device_attribute), decltype(&hipDeviceGetAttribute)>::value);
static_assert(SameCall<decltype(Driver::device_id), decltype(&hipDeviceGetUuid)>::value);
static_assert(SameCall<decltype(Driver::device_name), decltype(&hipDeviceGetName)>::value);
static_assert(SameCall<decltype(Driver::device_busid), decltype(&hipDeviceGetPCIBusId)>::value);
static_assert(SameCall<decltype(Driver::can_access_peer), decltype(&hipDeviceCanAccessPeer)>::value);
static_assert(SameCall<decltype(Driver::hip_get_device), decltype(&hipGetDevice)>::value);
static_assert(SameCall<decltype(Driver::hip_set_device), decltype(&hipSetDevice)>::value);
static_assert(SameCall<decltype(Driver::hip_enable_peer), decltype(&hipDeviceEnablePeerAccess)>::value);
static_assert(SameCall<decltype(Driver::hip_error_text), decltype(&hipGetErrorString)>::value);
static_assert(
    SameCall<decltype(Driver::allocate), decltype(static_cast<hipError_t (*)(void**, size_t)>(&hipMalloc))>::value);
static_assert(SameCall<decltype(Driver::allocate_with), decltype(&hipExtMallocWithFlags)>::value);
static_assert(SameCall<decltype(Driver::free), decltype(&hipFree)>::value);
static_assert(SameCall<decltype(Driver::host_allocate),
                       decltype(static_cast<hipError_t (*)(void**, size_t, unsigned)>(&hipHostMalloc))>::value);
static_assert(SameCall<decltype(Driver::host_free), decltype(&hipHostFree)>::value);
static_assert(SameCall<decltype(Driver::host_device_pointer), decltype(&hipHostGetDevicePointer)>::value);
static_assert(SameCall<decltype(Driver::host_register), decltype(&hipHostRegister)>::value);
static_assert(SameCall<decltype(Driver::host_unregister), decltype(&hipHostUnregister)>::value);
static_assert(SameCall<decltype(Driver::copy_to_device), decltype(&hipMemcpyHtoDAsync)>::value);
static_assert(SameCall<decltype(Driver::copy_from_device), decltype(&hipMemcpyDtoHAsync)>::value);
static_assert(SameCall<decltype(Driver::copy_on_device), decltype(&hipMemcpyDtoDAsync)>::value);
static_assert(SameCall<decltype(Driver::fill), decltype(&hipMemsetD8Async)>::value);
static_assert(SameCall<decltype(Driver::address_range), decltype(&hipMemGetAddressRange)>::value);
static_assert(SameCall<decltype(Driver::ipc_export), decltype(&hipIpcGetMemHandle)>::value);
static_assert(SameCall<decltype(Driver::ipc_open), decltype(&hipIpcOpenMemHandle)>::value);
static_assert(SameCall<decltype(Driver::ipc_close), decltype(&hipIpcCloseMemHandle)>::value);
static_assert(SameCall<decltype(Driver::vmm_granularity), decltype(&hipMemGetAllocationGranularity)>::value);
static_assert(SameCall<decltype(Driver::vmm_create), decltype(&hipMemCreate)>::value);
static_assert(SameCall<decltype(Driver::vmm_release), decltype(&hipMemRelease)>::value);
static_assert(SameCall<decltype(Driver::vmm_reserve), decltype(&hipMemAddressReserve)>::value);
static_assert(SameCall<decltype(Driver::vmm_unreserve), decltype(&hipMemAddressFree)>::value);
static_assert(SameCall<decltype(Driver::vmm_map), decltype(&hipMemMap)>::value);
static_assert(SameCall<decltype(Driver::vmm_unmap), decltype(&hipMemUnmap)>::value);
static_assert(SameCall<decltype(Driver::vmm_set_access), decltype(&hipMemSetAccess)>::value);
static_assert(SameCall<decltype(Driver::vmm_export), decltype(&hipMemExportToShareableHandle)>::value);
static_assert(SameCall<decltype(Driver::vmm_import), decltype(&hipMemImportFromShareableHandle)>::value);
static_assert(SameCall<decltype(Driver::stream_create), decltype(&hipStreamCreateWithFlags)>::value);
static_assert(SameCall<decltype(Driver::stream_destroy), decltype(&hipStreamDestroy)>::value);
static_assert(SameCall<decltype(Driver::stream_synchronize), decltype(&hipStreamSynchronize)>::value);
static_assert(SameCall<decltype(Driver::stream_wait_event), decltype(&hipStreamWaitEvent)>::value);
static_assert(SameCall<decltype(Driver::stream_is_capturing), decltype(&hipStreamIsCapturing)>::value);
static_assert(SameCall<decltype(Driver::capture_info), decltype(&hipStreamGetCaptureInfo_v2)>::value);
static_assert(SameCall<decltype(Driver::exchange_capture_mode), decltype(&hipThreadExchangeStreamCaptureMode)>::value);
static_assert(SameCall<decltype(Driver::event_create), decltype(&hipEventCreateWithFlags)>::value);
static_assert(SameCall<decltype(Driver::event_destroy), decltype(&hipEventDestroy)>::value);
static_assert(SameCall<decltype(Driver::event_record), decltype(&hipEventRecord)>::value);
static_assert(SameCall<decltype(Driver::event_query), decltype(&hipEventQuery)>::value);
static_assert(SameCall<decltype(Driver::event_elapsed), decltype(&hipEventElapsedTime)>::value);
static_assert(SameCall<decltype(Driver::module_load), decltype(&hipModuleLoadData)>::value);
static_assert(SameCall<decltype(Driver::module_unload), decltype(&hipModuleUnload)>::value);
static_assert(SameCall<decltype(Driver::module_function), decltype(&hipModuleGetFunction)>::value);
static_assert(SameCall<decltype(Driver::launch), decltype(&hipModuleLaunchKernel)>::value);

// Before 5.3 the structure was another one, but then no device had virtual memory either (the attribute is newer).
#if HIP_VERSION_MAJOR * 100 + HIP_VERSION_MINOR >= 503
static_assert(sizeof(sccl::gpu::AllocationProperties) == sizeof(hipMemAllocationProp));
static_assert(offsetof(sccl::gpu::AllocationProperties, location_type) == offsetof(hipMemAllocationProp, location));
static_assert(offsetof(sccl::gpu::AllocationProperties, win32) == offsetof(hipMemAllocationProp, win32HandleMetaData));
static_assert(offsetof(sccl::gpu::AllocationProperties, flags) == offsetof(hipMemAllocationProp, allocFlags));
#endif
static_assert(sizeof(sccl::gpu::AccessDescription) == sizeof(hipMemAccessDesc));
static_assert(sizeof(sccl::gpu::IpcHandle) == sizeof(hipIpcMemHandle_t));
static_assert(sizeof(sccl::gpu::UniqueDeviceId) == sizeof(hipUUID));
static_assert(sccl::gpu::kNotReady == static_cast<int>(hipErrorNotReady));
static_assert(static_cast<int>(sccl::gpu::Capture::active) == static_cast<int>(hipStreamCaptureStatusActive));
static_assert(static_cast<int>(sccl::gpu::Capture::invalidated) == static_cast<int>(hipStreamCaptureStatusInvalidated));

TEST_CASE("HIP's numbers of attributes are those of its header") {
  const auto number = [](Attribute attribute) { return Driver::number_of(sccl::gpu::Vendor::hip, attribute); };
  CHECK(number(Attribute::multiprocessors) == hipDeviceAttributeMultiprocessorCount);
  CHECK(number(Attribute::capability_major) == hipDeviceAttributeComputeCapabilityMajor);
  CHECK(number(Attribute::capability_minor) == hipDeviceAttributeComputeCapabilityMinor);
  CHECK(number(Attribute::pageable) == hipDeviceAttributePageableMemoryAccess);
#if HIP_VERSION_MAJOR * 100 + HIP_VERSION_MINOR >= 503
  CHECK(number(Attribute::vmm) == hipDeviceAttributeVirtualMemoryManagementSupported);
#else
  // The one that was appended next.
  CHECK(number(Attribute::vmm) == hipDeviceAttributeMemoryPoolsSupported + 1);
#endif
  CHECK(number(Attribute::vmm_descriptors) == number(Attribute::vmm));
  CHECK(number(Attribute::stream_values) == -1);
  CHECK(number(Attribute::process_service) == -1);
  CHECK(number(Attribute::dmabuf) == -1);
}

TEST_CASE("HIP's flags of calls are those of its header") {
  CHECK(sccl::gpu::AllocationProperties().type == hipMemAllocationTypePinned);
  CHECK(sccl::gpu::AllocationProperties().handle_types == hipMemHandleTypePosixFileDescriptor);
  CHECK(sccl::gpu::AllocationProperties().location_type == hipMemLocationTypeDevice);
  CHECK(sccl::gpu::AccessDescription().flags == hipMemAccessFlagsProtReadWrite);
  CHECK((hipHostMallocPortable | hipHostMallocMapped) == sccl::gpu::kMappedAndPortable);
  CHECK((hipHostRegisterPortable | hipHostRegisterMapped) == sccl::gpu::kMappedAndPortable);
  CHECK(hipDeviceMallocFinegrained == sccl::gpu::kFineGrained);
#if defined(hipDeviceMallocUncached)
  CHECK(hipDeviceMallocUncached == sccl::gpu::kUncached);
#endif
  CHECK(hipStreamNonBlocking == sccl::gpu::kNonBlockingStream);
  CHECK(hipErrorPeerAccessAlreadyEnabled == sccl::gpu::kPeerAccessAlready);
  CHECK(hipErrorOutOfMemory == 2);
  CHECK(hipStreamCaptureModeRelaxed == 2);
}
