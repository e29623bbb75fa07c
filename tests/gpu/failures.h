// What tests of failures on devices say and wait for.
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gpu/device_world.h"

namespace gpu_test {

inline std::string told() { return ncclGetLastError(nullptr); }

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// In place; what the call says, empty when it succeeds.
inline std::string reduce(ncclComm_t comm, cudaStream_t stream, std::vector<float>& data, std::size_t count) {
  return ncclAllReduce(data.data(), data.data(), count, ncclFloat, ncclSum, comm, stream) == ncclSuccess ? "" : told();
}

// What the communicator tells of its own accord.
inline std::string async_error(ncclComm_t comm) {
  for (int i = 0; i < 3000; ++i) {
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(comm, &state);
    if (state != ncclSuccess) return ncclGetLastError(comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "no error came";
}

}  // namespace gpu_test
