// The vendor of a device. Their two interfaces are nearly the same: tables of functions hold one name for each vendor.
#pragma once

#include <cstdint>

namespace sccl::gpu {

enum class Vendor : std::uint8_t { cuda, hip };

inline const char* name(Vendor vendor) { return vendor == Vendor::cuda ? "CUDA" : "HIP"; }

}  // namespace sccl::gpu
