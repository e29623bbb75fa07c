// One choice serves all calls of a size class. A size class is a power of two, or all sizes between two powers of two.
#pragma once

#include <bit>
#include <cstddef>
#include <string>

#include "base/error.h"

namespace sccl::runtime {

struct SizeClass {
  int number = 0;

  // bytes > 0
  static SizeClass of(std::size_t bytes) {
    return {2 * static_cast<int>(std::bit_width(bytes - 1)) + ((bytes & (bytes - 1)) == 0 ? 1 : 0)};
  }
  bool exact() const { return number % 2 == 1; }
  std::size_t power() const { return std::size_t{1} << (number / 2); }
  // The size for which times are predicted.
  std::size_t typical_bytes() const { return exact() || power() < 4 ? power() : power() / 4 * 3; }
  std::string text() const {
    return exact() ? fmt::format("{} bytes", power()) : fmt::format("{}..{} bytes", power() / 2 + 1, power() - 1);
  }
  auto operator<=>(const SizeClass&) const = default;
};

}  // namespace sccl::runtime
