// Kernels are loaded when communicators are made, never by a call: loading waits for the whole context, in which a
// kernel may wait for the very rank whose call loads.
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <mutex>
#include <thread>

#include "gpu/fresh_machine.h"
#include "kernels/instantiate/device_kernels.h"

using namespace sccl;
using namespace api_test;
using namespace gpu_test;

namespace {

// No cache holds a kernel, and compiling one takes a good part of what init spends on those that calls can do without.
struct SlowCompiler {
  FreshMachine machine{"INIT"};
  Setting compiler{"FAKE_NVRTC_MS", "150"};
};

// The rarest of all: the last to be compiled.
ncclResult_t rare_call(ncclComm_t comm, const OnDevice& device, std::vector<char>& data) {
  return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat8e5m2, ncclMin, comm, device.stream());
}

}  // namespace

TEST_CASE("calls load no kernel, however few were compiled when the communicator was made") {
  const SlowCompiler slow;
  for (const char* path : {"kernels", "streams"}) {
    const Setting chosen("SCCL_DEVICE_PATH", path);
    std::once_flag reset;
    CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice&) -> std::string {
            std::call_once(reset, [] { fake_cuda_reset_calls(); });
            if (std::string wrong = run_cases(rank, 2, comm, {1, 1000}); !wrong.empty()) return wrong;
            const std::string calls = fake_cuda_calls();
            for (const char* call : {"cuModuleLoad", "cuModuleGetFunction", "cuFuncLoad", "cuFuncGetAttribute"})
              if (contains(calls, call)) return std::string(call) + " was called";
            return "";
          })) == "");
    CHECK(contains(fake_cuda_launched(), std::string(path) == "kernels" ? ";sccl_any" : ";sccl_move_any"));
  }
  CHECK(slow.machine.told("sccl_any serves, which is slower") > 0);
}

TEST_CASE("kernels that calls have missed are the first that the next communicator gets") {
  const SlowCompiler slow;
  CHECK(failures(run_device_world(Mode::threads, 2, [&](int rank, ncclComm_t comm, const OnDevice& device) {
          std::vector<char> data(100, 0);
          std::string wrong;
          if (rank == 0) fake_cuda_reset_calls();
          if (rare_call(comm, device, data) != ncclSuccess) wrong += told();
          device.synchronize();
          if (contains(fake_cuda_launched(), "sccl_f8e5m2_min")) wrong += "the kernel was there at once";
          ncclComm_t next = nullptr;
          if (ncclCommSplit(comm, 0, rank, &next, nullptr) != ncclSuccess) return wrong + told();
          if (rare_call(next, device, data) != ncclSuccess) wrong += told();
          device.synchronize();
          if (!contains(fake_cuda_launched(), "sccl_f8e5m2_min")) wrong += "the kernel is still missing";
          if (ncclCommDestroy(next) != ncclSuccess) wrong += told();
          return wrong;
        })) == "");
}

TEST_CASE("a kernel can be had while another thread waits to load one") {
  const OnDevice on_device;
  const auto device = gpu::current_device();
  REQUIRE(device);
  const auto kernels = runtime::DeviceKernels::of(*device);
  void* const copies = kernels->load(kernels::kCopy);
  void* word = nullptr;
  REQUIRE(cuMemHostAlloc(&word, 64, 3) == 0);
  REQUIRE(cuStreamWaitValue32_v2(on_device.stream(), reinterpret_cast<unsigned long long>(word), 1, 1) == 0);
  auto loading = std::async(std::launch::async, [&] {
    const OnDevice here;
    kernels->load(kernels::kAnyCall);
  });
  CHECK(loading.wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout);
  auto found = std::async(std::launch::async, [&] { return kernels->function(kernels::kCopy); });
  const bool in_time = found.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  __atomic_store_n(static_cast<unsigned*>(word), 1, __ATOMIC_SEQ_CST);
  CHECK(in_time);
  CHECK(found.get() == copies);
  loading.get();
  CHECK_THROWS_WITH(kernels->function(kernels::kSignal), Catch::Contains("sccl_signal was not loaded"));
  cuMemFreeHost(word);
}
