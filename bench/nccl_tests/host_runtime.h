// Kernels compiled for the host: before a source of kernels, which run.sh prepares, this header gives what the language
// has on a device. A kernel's blocks and threads run one after another, which is right for kernels whose threads do not
// wait for one another.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

extern "C" cudaError_t enqueue_on_host(cudaStream_t stream, const std::function<void()>& action);

inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;

namespace host_runtime {

using Launch = std::function<std::function<void()>(dim3 grid, dim3 block, void** arguments)>;

inline std::map<const void*, Launch>& kernels() {
  static std::map<const void*, Launch> all;
  return all;
}
inline std::mutex& kernels_mutex() {
  static std::mutex mutex;
  return mutex;
}

template <typename... Values, std::size_t... Index>
std::function<void()> work_of(void (*kernel)(Values...), dim3 grid, dim3 block, void** arguments,
                              std::index_sequence<Index...>) {
  // The arguments are read now, as the language promises.
  return [=, values = std::make_tuple(*static_cast<Values*>(arguments[Index])...)] {
    gridDim = grid;
    blockDim = block;
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
      for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x) std::apply(kernel, values);
  };
}

// Takes the place of a cast to const void*, which is all that cudaLaunchKernel is given of a kernel.
template <typename... Values>
const void* kernel(void (*function)(Values...)) {
  const auto* const key = reinterpret_cast<const void*>(function);
  const std::lock_guard lock(kernels_mutex());
  kernels()[key] = [function](dim3 grid, dim3 block, void** arguments) {
    return work_of(function, grid, block, arguments, std::index_sequence_for<Values...>{});
  };
  return key;
}

inline cudaError_t launch(const void* key, dim3 grid, dim3 block, void** arguments, std::size_t, cudaStream_t stream) {
  Launch found;
  {
    const std::lock_guard lock(kernels_mutex());
    found = kernels().at(key);
  }
  return enqueue_on_host(stream, found(grid, block, arguments));
}

}  // namespace host_runtime
