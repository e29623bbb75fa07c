// What kernels there are: two of one-sided calls; and in two forms one that copies, one for each type and operation,
// and one that serves all types and operations.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/scalar_types.h"

namespace sccl::kernels {

// A whole call of a rank, which waits for its peers; one move, which waits for nobody; the same two for any type and
// operation; one-sided calls, which know no types, and the signals of those that streams order.
enum class KernelForm : std::uint8_t { call, move, any_call, any_move, one_sided, signal };

struct Instance {
  bool reduces = false;  // the others are meaningless without
  DataType type = DataType::int8;
  ReduceKernel kernel = ReduceKernel::sum;
  KernelForm form = KernelForm::call;

  auto operator<=>(const Instance&) const = default;
};

inline constexpr Instance kCopy{};
inline constexpr Instance kMoveCopy{false, DataType::int8, ReduceKernel::sum, KernelForm::move};
inline constexpr Instance kAnyCall{true, DataType::int8, ReduceKernel::sum, KernelForm::any_call};
inline constexpr Instance kAnyMove{true, DataType::int8, ReduceKernel::sum, KernelForm::any_move};
inline constexpr Instance kOneSided{false, DataType::int8, ReduceKernel::sum, KernelForm::one_sided};
inline constexpr Instance kSignal{false, DataType::int8, ReduceKernel::sum, KernelForm::signal};

std::vector<Instance> all_instances();

// Of the kernel in the compiled image: "sccl_copy", "sccl_float_sum", "sccl_move_float_sum", "sccl_any".
std::string name(const Instance& instance);

// A source that defines these kernels; what it includes is embedded.
std::string source(std::span<const Instance> instances);

}  // namespace sccl::kernels
