// The platform's numbers, structures and signatures against CUDA's own header, where a toolkit is installed.
#define __CUDA_API_VERSION_INTERNAL 1  // prototypes under the names that are looked up, not the newest ones
#include <cuda.h>

#include <catch2/catch.hpp>

#include "platform/gpu/driver.h"
#include "platform/vendor_headers.h"

using sccl::gpu::Attribute;
using sccl::gpu::Driver;

static_assert(SameCall<decltype(Driver::init), decltype(&cuInit)>::value);
static_assert(SameCall<decltype(Driver::driver_version), decltype(&cuDriverGetVersion)>::value);
static_assert(SameCall<decltype(Driver::device_count), decltype(&cuDeviceGetCount)>::value);
static_assert(SameCall<decltype(Driver::device_by_ordinal), decltype(&cuDeviceGet)>::value);
static_assert(SameCall<decltype(Driver::device_attribute), decltype(&cuDeviceGetAttribute)>::value);
static_assert(SameCall<decltype(Driver::device_id), decltype(&cuDeviceGetUuid_v2)>::value);
static_assert(SameCall<decltype(Driver::device_name), decltype(&cuDeviceGetName)>::value);
static_assert(SameCall<decltype(Driver::device_busid), decltype(&cuDeviceGetPCIBusId)>::value);
static_assert(SameCall<decltype(Driver::can_access_peer), decltype(&cuDeviceCanAccessPeer)>::value);
static_assert(SameCall<decltype(Driver::context_current), decltype(&cuCtxGetCurrent)>::value);
static_assert(SameCall<decltype(Driver::context_set), decltype(&cuCtxSetCurrent)>::value);
static_assert(SameCall<decltype(Driver::context_device), decltype(&cuCtxGetDevice)>::value);
static_assert(SameCall<decltype(Driver::primary_retain), decltype(&cuDevicePrimaryCtxRetain)>::value);
static_assert(SameCall<decltype(Driver::primary_release), decltype(&cuDevicePrimaryCtxRelease_v2)>::value);
static_assert(SameCall<decltype(Driver::enable_peer_access), decltype(&cuCtxEnablePeerAccess)>::value);
static_assert(SameCall<decltype(Driver::cuda_error_text), decltype(&cuGetErrorString)>::value);
static_assert(SameCall<decltype(Driver::allocate), decltype(&cuMemAlloc_v2)>::value);
static_assert(SameCall<decltype(Driver::free), decltype(&cuMemFree_v2)>::value);
static_assert(SameCall<decltype(Driver::host_allocate), decltype(&cuMemHostAlloc)>::value);
static_assert(SameCall<decltype(Driver::host_free), decltype(&cuMemFreeHost)>::value);
static_assert(SameCall<decltype(Driver::host_device_pointer), decltype(&cuMemHostGetDevicePointer_v2)>::value);
static_assert(SameCall<decltype(Driver::host_register), decltype(&cuMemHostRegister_v2)>::value);
static_assert(SameCall<decltype(Driver::host_unregister), decltype(&cuMemHostUnregister)>::value);
static_assert(SameCall<decltype(Driver::copy_to_device), decltype(&cuMemcpyHtoDAsync_v2)>::value);
static_assert(SameCall<decltype(Driver::copy_from_device), decltype(&cuMemcpyDtoHAsync_v2)>::value);
static_assert(SameCall<decltype(Driver::copy_on_device), decltype(&cuMemcpyDtoDAsync_v2)>::value);
static_assert(SameCall<decltype(Driver::fill), decltype(&cuMemsetD8Async)>::value);
static_assert(SameCall<decltype(Driver::pointer_attributes), decltype(&cuPointerGetAttributes)>::value);
static_assert(SameCall<decltype(Driver::address_range), decltype(&cuMemGetAddressRange_v2)>::value);
static_assert(SameCall<decltype(Driver::range_handle), decltype(&cuMemGetHandleForAddressRange)>::value);
static_assert(sccl::gpu::kDmabuf == static_cast<int>(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD));
static_assert(SameCall<decltype(Driver::ipc_export), decltype(&cuIpcGetMemHandle)>::value);
static_assert(SameCall<decltype(Driver::ipc_open), decltype(&cuIpcOpenMemHandle_v2)>::value);
static_assert(SameCall<decltype(Driver::ipc_close), decltype(&cuIpcCloseMemHandle)>::value);
static_assert(SameCall<decltype(Driver::vmm_granularity), decltype(&cuMemGetAllocationGranularity)>::value);
static_assert(SameCall<decltype(Driver::vmm_create), decltype(&cuMemCreate)>::value);
static_assert(SameCall<decltype(Driver::vmm_release), decltype(&cuMemRelease)>::value);
static_assert(SameCall<decltype(Driver::vmm_reserve), decltype(&cuMemAddressReserve)>::value);
static_assert(SameCall<decltype(Driver::vmm_unreserve), decltype(&cuMemAddressFree)>::value);
static_assert(SameCall<decltype(Driver::vmm_map), decltype(&cuMemMap)>::value);
static_assert(SameCall<decltype(Driver::vmm_unmap), decltype(&cuMemUnmap)>::value);
static_assert(SameCall<decltype(Driver::vmm_set_access), decltype(&cuMemSetAccess)>::value);
static_assert(SameCall<decltype(Driver::vmm_export), decltype(&cuMemExportToShareableHandle)>::value);
static_assert(SameCall<decltype(Driver::vmm_import), decltype(&cuMemImportFromShareableHandle)>::value);
static_assert(SameCall<decltype(Driver::vmm_retain), decltype(&cuMemRetainAllocationHandle)>::value);
static_assert(SameCall<decltype(Driver::stream_create), decltype(&cuStreamCreate)>::value);
static_assert(SameCall<decltype(Driver::stream_destroy), decltype(&cuStreamDestroy_v2)>::value);
static_assert(SameCall<decltype(Driver::stream_synchronize), decltype(&cuStreamSynchronize)>::value);
static_assert(SameCall<decltype(Driver::stream_wait_event), decltype(&cuStreamWaitEvent)>::value);
#if CUDA_VERSION >= 12000
static_assert(SameCall<decltype(Driver::stream_id), decltype(&cuStreamGetId)>::value);
#endif
static_assert(SameCall<decltype(Driver::stream_wait_value), decltype(&cuStreamWaitValue32_v2)>::value);
static_assert(SameCall<decltype(Driver::stream_write_value), decltype(&cuStreamWriteValue32_v2)>::value);
static_assert(SameCall<decltype(Driver::stream_batch), decltype(&cuStreamBatchMemOp_v2)>::value);
static_assert(SameCall<decltype(Driver::stream_is_capturing), decltype(&cuStreamIsCapturing)>::value);
static_assert(SameCall<decltype(Driver::capture_info), decltype(&cuStreamGetCaptureInfo_v2)>::value);
static_assert(SameCall<decltype(Driver::exchange_capture_mode), decltype(&cuThreadExchangeStreamCaptureMode)>::value);
static_assert(SameCall<decltype(Driver::event_create), decltype(&cuEventCreate)>::value);
static_assert(SameCall<decltype(Driver::event_destroy), decltype(&cuEventDestroy_v2)>::value);
static_assert(SameCall<decltype(Driver::event_record), decltype(&cuEventRecord)>::value);
static_assert(SameCall<decltype(Driver::event_query), decltype(&cuEventQuery)>::value);
static_assert(SameCall<decltype(Driver::event_elapsed), decltype(&cuEventElapsedTime)>::value);
static_assert(SameCall<decltype(Driver::user_object_create), decltype(&cuUserObjectCreate)>::value);
static_assert(SameCall<decltype(Driver::graph_retain), decltype(&cuGraphRetainUserObject)>::value);
static_assert(SameCall<decltype(Driver::module_load), decltype(&cuModuleLoadData)>::value);
static_assert(SameCall<decltype(Driver::module_unload), decltype(&cuModuleUnload)>::value);
static_assert(SameCall<decltype(Driver::module_function), decltype(&cuModuleGetFunction)>::value);
static_assert(SameCall<decltype(Driver::launch), decltype(&cuLaunchKernel)>::value);

static_assert(sizeof(sccl::gpu::AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(sccl::gpu::AllocationProperties, handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(sccl::gpu::AllocationProperties, location_type) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(sccl::gpu::AllocationProperties, win32) == offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(sccl::gpu::AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(sccl::gpu::AccessDescription) == sizeof(CUmemAccessDesc));
static_assert(sizeof(sccl::gpu::IpcHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(sccl::gpu::UniqueDeviceId) == sizeof(CUuuid));
static_assert(sizeof(sccl::gpu::FlagOperation) == sizeof(CUstreamBatchMemOpParams));
static_assert(sccl::gpu::FlagOperation::wait32 == static_cast<int>(CU_STREAM_MEM_OP_WAIT_VALUE_32));
static_assert(sccl::gpu::FlagOperation::write32 == static_cast<int>(CU_STREAM_MEM_OP_WRITE_VALUE_32));
static_assert(sccl::gpu::kNotReady == static_cast<int>(CUDA_ERROR_NOT_READY));
static_assert(static_cast<int>(sccl::gpu::Capture::none) == static_cast<int>(CU_STREAM_CAPTURE_STATUS_NONE));
static_assert(static_cast<int>(sccl::gpu::Capture::active) == static_cast<int>(CU_STREAM_CAPTURE_STATUS_ACTIVE));
static_assert(static_cast<int>(sccl::gpu::Capture::invalidated) ==
              static_cast<int>(CU_STREAM_CAPTURE_STATUS_INVALIDATED));

TEST_CASE("CUDA's numbers of attributes are those of its header") {
  const auto number = [](Attribute attribute) { return Driver::number_of(sccl::gpu::Vendor::cuda, attribute); };
  CHECK(number(Attribute::multiprocessors) == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  CHECK(number(Attribute::capability_major) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  CHECK(number(Attribute::capability_minor) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  CHECK(number(Attribute::vmm) == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  CHECK(number(Attribute::vmm_descriptors) == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  CHECK(number(Attribute::pageable) == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  CHECK(number(Attribute::stream_values) == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
  CHECK(number(Attribute::process_service) == CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
  CHECK(number(Attribute::dmabuf) == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
}

TEST_CASE("CUDA's flags of calls are those of its header") {
  CHECK(sccl::gpu::AllocationProperties().type == CU_MEM_ALLOCATION_TYPE_PINNED);
  CHECK(sccl::gpu::AllocationProperties().handle_types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK(sccl::gpu::AllocationProperties().location_type == CU_MEM_LOCATION_TYPE_DEVICE);
  CHECK(sccl::gpu::AccessDescription().flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK((CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) == sccl::gpu::kMappedAndPortable);
  CHECK((CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) == sccl::gpu::kMappedAndPortable);
  CHECK(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS == sccl::gpu::kLazyPeerAccess);
  CHECK(CU_STREAM_NON_BLOCKING == sccl::gpu::kNonBlockingStream);
  CHECK(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED == sccl::gpu::kPeerAccessAlready);
  CHECK(CUDA_ERROR_OUT_OF_MEMORY == 2);
  CHECK(CU_STREAM_CAPTURE_MODE_RELAXED == 2);
}
