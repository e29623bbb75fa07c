// Windows of ranks on devices, and data put into them.
#pragma once

#include <string>

#include "gpu/failures.h"

namespace gpu_test {

// Memory of the current device: a program's own, or ncclMemAlloc's.
class Buffer {
 public:
  Buffer(std::size_t count, bool of_library) : of_library_(of_library) {
    const Spared here;
    void* memory = nullptr;
    if (of_library) {
      ncclMemAlloc(&memory, count * sizeof(int));
    } else {
      unsigned long long address = 0;
      cuMemAlloc_v2(&address, count * sizeof(int) + 256);
      whole_ = address;
      memory = reinterpret_cast<void*>(address + 256);  // not at the allocation's begin
    }
    data = static_cast<int*>(memory);
  }
  ~Buffer() {
    const Spared here;
    of_library_ ? static_cast<void>(ncclMemFree(data)) : static_cast<void>(cuMemFree_v2(whole_));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  int* data = nullptr;

 private:
  bool of_library_;
  unsigned long long whole_ = 0;
};

// Everyone puts into its neighbour's window, a few times, and tells it when it has read.
inline std::string put_around(int rank, int ranks, ncclComm_t comm, const OnDevice& device, bool of_library,
                              std::size_t count) {
  Buffer inbox(count, of_library), mine(count, of_library);
  ncclWindow_t window = nullptr;
  if (ncclCommWindowRegister(comm, inbox.data, count * sizeof(int), &window, 0) != ncclSuccess) return told();
  if (window == nullptr) return "no window";
  const int to = (rank + 1) % ranks;
  const int from = (rank + ranks - 1) % ranks;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < count; ++i) mine.data[i] = 1000 * rank + round + static_cast<int>(i);
    if (ncclPutSignal(mine.data, count, ncclInt32, to, window, 0, 3, 1, 0, comm, device.stream()) != ncclSuccess)
      return told();
    ncclWaitSignalDesc_t wait{1, from, 3, 1};
    if (ncclWaitSignal(1, &wait, comm, device.stream()) != ncclSuccess) return told();
    device.synchronize();
    for (std::size_t i = 0; i < count; ++i)
      if (inbox.data[i] != 1000 * from + round + static_cast<int>(i))
        return "wrong data in round " + std::to_string(round);
    if (ncclSignal(from, 0, 0, 0, comm, device.stream()) != ncclSuccess) return told();
    ncclWaitSignalDesc_t read{1, to, 0, 0};
    if (ncclWaitSignal(1, &read, comm, device.stream()) != ncclSuccess) return told();
  }
  device.synchronize();
  return ncclCommWindowDeregister(comm, window) == ncclSuccess ? "" : told();
}

}  // namespace gpu_test
