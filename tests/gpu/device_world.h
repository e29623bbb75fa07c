// Ranks that use the fake device, as a CUDA program would: a context, a stream, memory of the device.
#pragma once

#include <string>
#include <vector>

#include "api/collective_case.h"
#include "api/world.h"
#include "gpu/fake_cuda.h"

namespace gpu_test {

// Makes the device current in this thread, with a stream of its own for run_case.
class OnDevice {
 public:
  explicit OnDevice(int device = 0) {
    fake_cuda_set_any_memory(1);
    cuInit(0);
    void* context = nullptr;
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxGetCurrent(&before_);
    cuCtxSetCurrent(context);
    cuStreamCreate(&stream_, 1);
    api_test::case_stream() = {static_cast<cudaStream_t>(stream_),
                               [](cudaStream_t stream) { cuStreamSynchronize(stream); }};
  }
  ~OnDevice() {
    api_test::case_stream() = {};
    cuStreamDestroy_v2(stream_);
    cuCtxSetCurrent(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_); }
  void synchronize() const { cuStreamSynchronize(stream_); }

 private:
  void* before_ = nullptr;
  void* stream_ = nullptr;
};

// As api_test::run_world, on the device; on several, rank by rank.
inline std::vector<std::string> run_device_world(
    api_test::Mode mode, int ranks, const std::function<std::string(int, ncclComm_t, const OnDevice&)>& function,
    int devices = 1) {
  return api_test::run_bare_world(mode, ranks, [&](int rank, const ncclUniqueId& id) -> std::string {
    const OnDevice device(rank % devices);
    ncclComm_t comm = nullptr;
    if (ncclCommInitRank(&comm, ranks, id, rank) != ncclSuccess)
      return std::string("ncclCommInitRank: ") + ncclGetLastError(nullptr);
    std::string result = function(rank, comm, device);
    if (ncclCommDestroy(comm) != ncclSuccess) result += std::string(" ncclCommDestroy: ") + ncclGetLastError(nullptr);
    return result;
  });
}

}  // namespace gpu_test
