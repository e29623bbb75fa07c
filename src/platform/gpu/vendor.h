// Whose device it is. The two interfaces are near twins: tables of functions take a name from each.
#pragma once

#include <cstdint>

namespace sccl::gpu {

enum class Vendor : std::uint8_t { cuda, hip };

inline const char* name(Vendor vendor) { return vendor == Vendor::cuda ? "CUDA" : "HIP"; }

}  // namespace sccl::gpu
