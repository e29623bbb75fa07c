// Sizes in whole units.
#pragma once

#include <cstddef>

namespace sccl {

// The smallest multiple of `unit` that is not less than `value`.
constexpr std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace sccl
