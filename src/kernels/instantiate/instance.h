// The kernels that exist: two of one-sided calls; and, in two forms each, one that copies, one for each type and
// operation, and one for all types and operations.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/scalar_types.h"

namespace sccl::kernels {

// call: a rank's whole call, which waits for peers. move: one move, which waits for no peer. any_call, any_move: the
// same for any type and operation. one_sided: one-sided calls, which have no types. signal: the signals of one-sided
// calls that streams order.
enum class KernelForm : std::uint8_t { call, move, any_call, any_move, one_sided, signal };

struct Instance {
  bool reduces = false;  // false: type and kernel are meaningless
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

// The name of the kernel in the compiled image: "sccl_copy", "sccl_float_sum", "sccl_move_float_sum", "sccl_any".
std::string name(const Instance& instance);

// A source that defines these kernels; its includes are embedded.
std::string source(std::span<const Instance> instances);

}  // namespace sccl::kernels
