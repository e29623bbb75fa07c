// Hashes of numbers with well spread bits, equal on all machines.
#pragma once

#include <cstdint>

namespace sccl {

// The finaliser of splitmix64: every input bit reaches every output bit. 0 stays 0.
inline std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

// One draw of splitmix64.
inline std::uint64_t splitmix64(std::uint64_t seed) { return mix(seed + 0x9e3779b97f4a7c15ull); }

}  // namespace sccl
