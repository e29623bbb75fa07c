// The platform's dealings with the driver: what is called, what is put back, what an old or broken driver leads to.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <thread>

#include "gpu/failures.h"
#include "gpu/logged.h"
#include "platform/gpu/memory.h"

using namespace sccl;
using namespace gpu_test;

TEST_CASE("memory is allocated in the driver's order and undone in reverse") {
  const OnDevice current;
  const auto device = gpu::current_device();
  REQUIRE(device);
  CHECK(device->architecture == "sm_90");
  CHECK(device->vmm);
  const std::string before = fake_cuda_live_text();
  fake_cuda_reset_calls();
  {
    const auto memory = gpu::DeviceMemory::allocate(*device, 1000);
    CHECK(memory->bytes() == 65536);
    const char text[] = "hello";
    memory->write(100, text, sizeof text);
    CHECK(std::string(reinterpret_cast<const char*>(memory->address() + 100)) == "hello");
    CHECK(*reinterpret_cast<const char*>(memory->address() + 99) == 0);
  }
  const std::string calls = fake_cuda_calls();
  std::size_t at = 0;
  for (const char* call :
       {"cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
        "cuMemsetD8Async", "cuStreamSynchronize", "cuMemUnmap", "cuMemAddressFree", "cuMemRelease"}) {
    INFO(call << " in " << calls);
    at = calls.find(call, at);
    REQUIRE(at != std::string::npos);
  }
  CHECK(std::string(fake_cuda_live_text()) == before);
}

TEST_CASE("what fails half-way is undone") {
  const OnDevice current;
  const auto device = gpu::current_device();
  const std::string before = fake_cuda_live_text();
  for (const char* call : {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuStreamCreate",
                           "cuMemsetD8Async", "cuStreamSynchronize", "cuMemGetAllocationGranularity"}) {
    fake_cuda_reset_calls();
    fake_cuda_fail(call, 0, 1, 2);
    INFO(call);
    CHECK_THROWS_WITH(gpu::DeviceMemory::allocate(*device, 1000), Catch::Contains("out of memory"));
    CHECK(std::string(fake_cuda_live_text()) == before);
  }
  for (const char* call : {"cuMemHostAlloc", "cuMemHostGetDevicePointer_v2"}) {
    fake_cuda_reset_calls();
    fake_cuda_fail(call, 0, 1, 999);
    CHECK_THROWS_WITH(gpu::MappedMemory(*device, 1000), Catch::Contains("unknown error"));
    CHECK(std::string(fake_cuda_live_text()) == before);
  }
  fake_cuda_reset_calls();
}

TEST_CASE("a scope puts the caller's device back, and calls nothing where it is current") {
  const OnDevice current;
  const auto device = gpu::current_device();
  fake_cuda_reset_calls();
  { const gpu::Current again(*device); }
  CHECK(std::string(fake_cuda_calls()) == "cuCtxGetCurrent;");
  void* mine = nullptr;
  cuCtxGetCurrent(&mine);
  cuCtxSetCurrent(nullptr);
  {
    const gpu::Current changed(*device);
    void* now = nullptr;
    cuCtxGetCurrent(&now);
    CHECK(now == mine);
  }
  void* after = mine;
  cuCtxGetCurrent(&after);
  CHECK(after == nullptr);
  cuCtxSetCurrent(mine);
}

TEST_CASE("a thread's capture mode is as before") {
  const OnDevice current;
  const auto device = gpu::current_device();
  cuStreamBeginCapture_v2(current.stream(), 0);
  fake_cuda_reset_calls();
  { const auto memory = gpu::DeviceMemory::allocate(*device, 10); }
  CHECK(fake_cuda_violations() == 0);
  CHECK(gpu::capture_of(*device->driver, current.stream()).id != 0);
  unsigned long long plain = 0;
  CHECK(cuMemAlloc_v2(&plain, 10) == 900);  // the program's own calls are still forbidden
  void* graph = nullptr;
  cuStreamEndCapture(current.stream(), &graph);
  cuGraphDestroy(graph);
  CHECK(gpu::capture_of(*device->driver, current.stream()).id == 0);
}

TEST_CASE("a device's primary context stays after the program has released it, once the library uses it") {
  const auto is_active = [](int device) {
    unsigned flags = 0;
    int active = 0;
    cuDevicePrimaryCtxGetState(device, &flags, &active);
    return active != 0;
  };
  // What a process has found once it keeps: only when this test is the first of its process can it tell.
  if (is_active(1) || is_active(2)) return sccl_test::skip(kNotFirst);
  fake_cuda_set_devices(3);
  { const OnDevice unused(1); }
  CHECK_FALSE(is_active(1));
  for (int repeat = 0; repeat < 3; ++repeat) {
    const OnDevice used(2);
    CHECK(gpu::current_device());
  }
  CHECK(is_active(2));
  CHECK_FALSE(is_active(1));
  CHECK(cuDevicePrimaryCtxRelease_v2(2) == 0);  // retained once
  CHECK_FALSE(is_active(2));
  fake_cuda_set_devices(1);
}

TEST_CASE("what a rank has shared can be given back by others after its thread has released its device") {
  const Setting path("SCCL_DEVICE_PATH", "streams");  // flags of all ranks are registered
  fake_cuda_set_devices(2);
  fake_cuda_reset_calls();
  CHECK(api_test::failures(run_device_world(
            api_test::Mode::threads, 2,
            [](int rank, ncclComm_t comm, const OnDevice&) {
              std::string wrong = run_cases(rank, 2, comm, {10});
              if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
              return wrong;
            },
            2)) == "");
  CHECK(fake_cuda_violations() == 0);
  fake_cuda_set_devices(1);
}

TEST_CASE("where no device is in use the host platform serves") {
  void* before = nullptr;
  cuCtxGetCurrent(&before);
  cuCtxSetCurrent(nullptr);
  while (cuDevicePrimaryCtxRelease_v2(0) == 0) {
  }
  CHECK_FALSE(gpu::current_device());
  cuCtxSetCurrent(before);
}

TEST_CASE("SCCL_PLATFORM says which platform serves") {
  const OnDevice current;
  ::setenv("SCCL_PLATFORM", "host", 1);
  CHECK_FALSE(gpu::current_device());
  ::setenv("SCCL_PLATFORM", "cuda", 1);
  CHECK(gpu::current_device());
  void* mine = nullptr;
  cuCtxGetCurrent(&mine);
  cuCtxSetCurrent(nullptr);
  CHECK(gpu::current_device());  // the runtime's first
  while (cuDevicePrimaryCtxRelease_v2(0) == 0) {
  }
  CHECK_THROWS_WITH(gpu::current_device(), Catch::Contains("cudaSetDevice"));
  cuDevicePrimaryCtxRetain(&mine, 0);
  cuCtxSetCurrent(mine);
  ::setenv("SCCL_PLATFORM", "hip", 1);
  CHECK_THROWS_WITH(gpu::current_device(), Catch::Contains("hipSetDevice"));
  ::unsetenv("SCCL_PLATFORM");
}
