// Ranks that use the fake device, as a CUDA program would: a context, a stream, memory of the device.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "api/collective_case.h"
#include "api/world.h"
#include "gpu/fake_cuda.h"

namespace gpu_test {

// Makes the device current in this thread, with a stream of its own for run_case.
class OnDevice {
 public:
  explicit OnDevice(int ordinal = 0) : ordinal_(ordinal) {
    fake_cuda_set_any_memory(1);
    cuInit(0);
    void* context = nullptr;
    cuDevicePrimaryCtxRetain(&context, ordinal);
    cuCtxGetCurrent(&before_);
    cuCtxSetCurrent(context);
    cuStreamCreate(&stream_, 1);
    context_of_cases() = context;
    api_test::case_stream() = {static_cast<cudaStream_t>(stream_), [](cudaStream_t stream) {
                                 void* before = nullptr;  // a case may have none
                                 cuCtxGetCurrent(&before);
                                 cuCtxSetCurrent(context_of_cases());
                                 cuStreamSynchronize(stream);
                                 cuCtxSetCurrent(before);
                               }};
  }
  ~OnDevice() {
    api_test::case_stream() = {};
    int relaxed = 2;  // another thread may capture
    cuThreadExchangeStreamCaptureMode(&relaxed);
    cuStreamSynchronize(stream_);  // the test's buffers go now
    cuThreadExchangeStreamCaptureMode(&relaxed);
    cuStreamDestroy_v2(stream_);
    cuCtxSetCurrent(before_);
    cuDevicePrimaryCtxRelease_v2(ordinal_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_); }
  void synchronize() const { cuStreamSynchronize(stream_); }

 private:
  static void*& context_of_cases() {
    static thread_local void* context = nullptr;
    return context;
  }

  int ordinal_;
  void* before_ = nullptr;
  void* stream_ = nullptr;
};

// While it lives, this thread allocates and frees beside kernels that wait, which a program must not do.
class Spared {
 public:
  Spared() { fake_cuda_spare_this_thread(1); }
  ~Spared() { fake_cuda_spare_this_thread(0); }
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;
};

// As api_test::run_world, on devices: rank r on device r % devices.
inline std::vector<std::string> run_device_world(
    api_test::Mode mode, int ranks, const std::function<std::string(int, ncclComm_t, const OnDevice&)>& function,
    int devices = 1) {
  return api_test::run_bare_world(mode, ranks, [&](int rank, const ncclUniqueId& id) -> std::string {
    if (devices > 1) fake_cuda_set_devices(devices);
    const OnDevice device(rank % devices);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess)
      return std::string("ncclCommInitRank: ") + ncclGetLastError(nullptr);
    std::string result = function(rank, comm, device);
    if (ncclCommDestroy(comm) != ncclSuccess) result += std::string(" ncclCommDestroy: ") + ncclGetLastError(nullptr);
    return result;
  });
}

// A variable of the environment, while it lives.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

// Every collective with these counts, types and operations in turn.
inline std::string run_cases(int rank, int ranks, ncclComm_t comm, const std::vector<std::size_t>& counts) {
  const auto& all = api_test::types();
  std::size_t next = 0;
  for (const api_test::KindInfo& kind : api_test::kinds())
    for (const std::size_t count : counts)
      for (const bool in_place : {false, true}) {
        if (in_place && !kind.has_in_place) continue;
        // Types and operations in turn: every one of them occurs with every kind over the counts.
        const std::size_t turn = next++;
        api_test::Case test{&kind,    &all[turn % all.size()],       api_test::kOps[turn / 2 % 6], count, in_place,
                            turn % 3, static_cast<int>(turn) % ranks};
        if (std::string wrong = api_test::run_case(test, rank, ranks, comm); !wrong.empty()) return wrong;
      }
  // Nobody leaves while others still take its messages: a played device is slow, and who has waited long for a rank
  // that is gone gives up.
  const api_test::Case last{&api_test::kinds()[0], &all[0], api_test::Op::sum, 1, false, 0, 0};
  return api_test::run_case(last, rank, ranks, comm);
}

}  // namespace gpu_test
