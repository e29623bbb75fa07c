// A kernel of a program's own with NCCL's device interface: every rank reads all ranks' parts of a window and sums them.
// Built by gpu_vendor.py with the header of the vendor's library, and run with this library in front of it.
// Usage: gpu_device_interface RANK RANKS FILE, one process for each rank; rank 0 puts the unique id into FILE.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr int kBlocks = 4, kThreads = 256;
constexpr size_t kCount = 100003;

__global__ void sum_of_all(ncclWindow_t window, size_t from_offset, float* result, size_t count, ncclDevComm of) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), of, ncclTeamTagLsa(), blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acquire);
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
    float sum = 0;
    for (int peer = 0; peer < of.lsaSize; ++peer)
      sum += static_cast<const float*>(ncclGetLsaPointer(window, from_offset, peer))[i];
    result[i] = sum;
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_release);
}

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::printf("%s: %s: %s\n", what, ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::exit(1);
}

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

ncclUniqueId meet(int rank, const std::string& path) {
  ncclUniqueId id;
  if (rank == 0) {
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    std::ofstream(path + ".part", std::ios::binary).write(id.internal, sizeof(id.internal));
    std::rename((path + ".part").c_str(), path.c_str());
    return id;
  }
  std::ifstream file;
  while (!(file = std::ifstream(path, std::ios::binary)).is_open()) ::usleep(1000);
  file.read(id.internal, sizeof(id.internal));
  return id;
}

ncclDevComm device_communicator(ncclComm_t comm) {
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  ncclDevCommRequirements requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  ncclDevCommRequirements requirements{};
#endif
  requirements.lsaBarrierCount = kBlocks;
  ncclDevComm made{};
  check(ncclDevCommCreate(comm, &requirements, &made), "ncclDevCommCreate");
  return made;
}

}  // namespace

int main(int, char** arguments) {
  const int rank = std::atoi(arguments[1]), ranks = std::atoi(arguments[2]);
  check(cudaSetDevice(0), "cudaSetDevice");
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, ranks, meet(rank, arguments[3]), rank), "ncclCommInitRank");

  void* inbox = nullptr;
  float* result = nullptr;
  cudaStream_t stream;
  check(ncclMemAlloc(&inbox, kCount * sizeof(float)), "ncclMemAlloc");
  check(cudaMalloc(&result, kCount * sizeof(float)), "cudaMalloc");
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  ncclWindow_t window = nullptr;
  check(ncclCommWindowRegister(comm, inbox, kCount * sizeof(float), &window, NCCL_WIN_COLL_SYMMETRIC), "ncclCommWindowRegister");
  std::vector<float> data(kCount), sums(kCount);
  for (size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(rank * 3 + i % 101);
  check(cudaMemcpyAsync(inbox, data.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, stream), "copy to the window");

  const ncclDevComm made = device_communicator(comm);
  if (made.lsaSize != ranks) std::printf("%d of %d ranks can be read\n", made.lsaSize, ranks), std::exit(1);
  sum_of_all<<<kBlocks, kThreads, 0, stream>>>(window, 0, result, kCount, made);
  check(cudaMemcpyAsync(sums.data(), result, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream), "copy of the result");
  check(cudaStreamSynchronize(stream), "the kernel");
  for (size_t i = 0; i < kCount; ++i)
    if (sums[i] != static_cast<float>(3 * ranks * (ranks - 1) / 2 + ranks * (i % 101)))
      std::printf("element %zu is %f\n", i, sums[i]), std::exit(1);

  // Our own call in the same memory, by the vendor's handle of the window.
  check(ncclAllReduce(inbox, inbox, kCount, ncclFloat, ncclSum, comm, stream), "ncclAllReduce");
  check(cudaMemcpyAsync(data.data(), inbox, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream), "copy of the sums");
  check(cudaStreamSynchronize(stream), "ncclAllReduce");
  if (data != sums) std::printf("ncclAllReduce after the kernel gave another sum\n"), std::exit(1);

  check(ncclDevCommDestroy(comm, &made), "ncclDevCommDestroy");
  check(ncclCommWindowDeregister(comm, window), "ncclCommWindowDeregister");
  check(ncclMemFree(inbox), "ncclMemFree");
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  std::printf("ok\n");
  return 0;
}
