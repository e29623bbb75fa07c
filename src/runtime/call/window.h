// Windows, and the requests of one-sided calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/call/requests.h"

namespace sccl::runtime {

// One buffer per rank, known to all ranks.
struct Window {
  void* base = nullptr;  // this rank's
  std::size_t bytes = 0;
  std::vector<std::uint64_t> bases;  // by rank; on a device: the address at which this rank's kernels see the buffer
  std::shared_ptr<void> mappings;    // keep `bases` mapped
  std::uint32_t number = 0;          // on devices and over hosts; the same on all ranks
  bool in_place = false;             // collectives may use buffers in place (gpu/resources/symmetric_windows.h)
  // Address of a table on the device, which `mappings` owns. 0: every rank's kernels see the same addresses.
  std::uint64_t shifts = 0;
};

// `symmetric`: registered with NCCL_WIN_COLL_SYMMETRIC.
enum class WindowUse : std::uint8_t { one_sided, symmetric };

struct SignalAddress {
  Rank peer = 0;
  int signal = 0;
  int context = 0;
};

// Writes data into a peer's window, then signals the peer. Without a window: only the signal.
struct PutRequest {
  std::span<const std::byte> data;
  const Window* window = nullptr;
  std::size_t offset = 0;
  SignalAddress to;
  StreamHandle stream = nullptr;
};

struct SignalWait {
  SignalAddress from;
  std::uint64_t count = 1;
};

}  // namespace sccl::runtime
