// Windows, and what one-sided calls ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/call/requests.h"

namespace sccl::runtime {

// A buffer of every rank, known to all of them.
struct Window {
  void* base = nullptr;  // this rank's
  std::size_t bytes = 0;
  std::vector<std::uint64_t> bases;  // by rank; on a device as this rank's kernels see them
  std::shared_ptr<void> mappings;    // which make them so
  std::uint32_t number = 0;          // on devices, the same on all ranks
  bool in_place = false;             // collectives may use it so (gpu/resources/symmetric_windows.h)
  std::uint64_t shifts =
      0;  // table on the device, part of the mappings; 0: every rank's kernels see the same addresses
};

// `symmetric`: with NCCL_WIN_COLL_SYMMETRIC.
enum class WindowUse : std::uint8_t { one_sided, symmetric };

struct SignalAddress {
  Rank peer = 0;
  int signal = 0;
  int context = 0;
};

// Data for a peer's window and a signal, or the signal alone.
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
