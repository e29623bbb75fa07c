// The library on AMD's interface: its numbers, its kinds of memory, its compiler.
#include <catch2/catch.hpp>
#include <thread>

#include "gpu/device_world.h"
#include "gpu/fake_hip.h"
#include "gpu/logged.h"
#include "platform/gpu/memory.h"

using namespace sccl;
using namespace gpu_test;

namespace {

class MemoryKinds {
 public:
  explicit MemoryKinds(int kinds) { fake_hip_set_memory_kinds(kinds); }
  ~MemoryKinds() { fake_hip_set_memory_kinds(3); }
  MemoryKinds(const MemoryKinds&) = delete;
  MemoryKinds& operator=(const MemoryKinds&) = delete;
};

}  // namespace

TEST_CASE("a device is described by HIP's numbers of attributes") {
  const Setting platform("SCCL_PLATFORM", "hip");
  const OnDevice current;
  const auto device = gpu::current_device();
  REQUIRE(device);
  CHECK(device->driver->vendor == gpu::Vendor::hip);
  CHECK(device->multiprocessors == 8);
  CHECK(device->vmm);
  CHECK_FALSE(device->pageable);
}

TEST_CASE("memory of messages is uncached, else fine-grained, and coarse-grained only with a warning") {
  const Setting platform("SCCL_PLATFORM", "hip");
  const OnDevice current;
  const auto device = gpu::current_device();
  REQUIRE(device);
  fake_hip_reset();
  { const auto data = gpu::DeviceMemory::allocate(*device, 1000); }
  CHECK(fake_hip_uncached() + fake_hip_fine_grained() == 0);
  { const auto messages = gpu::DeviceMemory::allocate(*device, 1000, gpu::MemoryUse::messages); }
  CHECK(fake_hip_uncached() == 1);
  {
    const MemoryKinds kinds(1);
    const auto messages = gpu::DeviceMemory::allocate(*device, 1000, gpu::MemoryUse::messages);
    CHECK(fake_hip_fine_grained() == 1);
  }
  const MemoryKinds kinds(0);
  CHECK(gpu::DeviceMemory::allocate(*device, 1000, gpu::MemoryUse::messages)->address() != 0);
}

TEST_CASE("the default streams of two threads, which have one handle, are told apart without ids of streams") {
  const Setting platform("SCCL_PLATFORM", "hip");
  const OnDevice current;
  const gpu::Driver& driver = *gpu::current_device()->driver;
  const auto per_thread = reinterpret_cast<gpu::Stream>(2);
  const gpu::StreamIdentity mine = gpu::identity_of(driver, per_thread);
  CHECK(gpu::identity_of(driver, per_thread) == mine);
  CHECK(gpu::identity_of(driver, nullptr) == gpu::identity_of(driver, reinterpret_cast<gpu::Stream>(1)));
  gpu::StreamIdentity others;
  std::thread([&] { others = gpu::identity_of(driver, per_thread); }).join();
  CHECK(others != mine);
}

TEST_CASE("collectives run on HIP, and no message passes through coarse-grained memory") {
  const Setting platform("SCCL_PLATFORM", "hip");
  for (const auto mode : {api_test::Mode::threads, api_test::Mode::processes})
    for (const int devices : {1, 2}) {
      INFO(devices << " devices");
      const auto results = run_device_world(
          mode, 2,
          [](int rank, ncclComm_t comm, const OnDevice&) {
            std::string wrong = run_cases(rank, 2, comm, {1, 1000, 20000});
            if (fake_hip_coarse_messages() != 0) wrong += " messages in coarse-grained memory";
            if (fake_hip_uncached() == 0) wrong += " no uncached memory";
            return wrong;
          },
          devices);
      for (const std::string& result : results) CHECK(result == "");
    }
}
