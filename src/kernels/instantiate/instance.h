// What kernels there are: one that copies, one of one-sided calls, and one for each type and operation.
#pragma once

#include <compare>
#include <span>
#include <string>
#include <vector>

#include "base/scalar_types.h"

namespace sccl::kernels {

struct Instance {
  bool reduces = false;  // the others are meaningless without
  DataType type = DataType::int8;
  ReduceKernel kernel = ReduceKernel::sum;
  bool one_sided = false;  // all others are meaningless with it

  auto operator<=>(const Instance&) const = default;
};

inline constexpr Instance kOneSided{false, DataType::int8, ReduceKernel::sum, true};

std::vector<Instance> all_instances();

// Of the kernel in the compiled image: "sccl_copy", "sccl_float_sum".
std::string name(const Instance& instance);

// A source that defines these kernels; what it includes is embedded.
std::string source(std::span<const Instance> instances);

}  // namespace sccl::kernels
