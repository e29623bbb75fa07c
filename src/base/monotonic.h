// The clock that all processes of a host share.
#pragma once

#include <chrono>
#include <cstdint>

namespace sccl {

inline std::uint64_t monotonic_ns() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

inline std::uint64_t monotonic_us() { return monotonic_ns() / 1000; }

}  // namespace sccl
