// Converts elements of every type from and to plain numbers, to make and check test data.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "base/types.h"

namespace sccl::tools {

// Integers up to this value are exact in every type except the 8-bit floating types.
inline constexpr unsigned kMostValue = 127;

// The largest integer n, at most kMostValue, such that all of 0..n are exact in the type.
unsigned most_exact_value(DataType type);

// The values 0 .. kMostValue in their form in memory.
class ElementCodes {
 public:
  explicit ElementCodes(DataType type);

  void store(std::byte* buffer, std::size_t index, unsigned value) const {
    std::memcpy(buffer + index * bytes_, codes_[value].data(), bytes_);
  }
  bool holds(const std::byte* buffer, std::size_t index, unsigned value) const {
    return std::memcmp(buffer + index * bytes_, codes_[value].data(), bytes_) == 0;
  }

 private:
  std::size_t bytes_;
  std::array<std::array<std::byte, 8>, kMostValue + 1> codes_;
};

// Any element as a number.
double load_element(DataType type, const std::byte* buffer, std::size_t index);

// Half a unit in the last place of a floating type at `value`.
double half_unit(DataType type, double value);

}  // namespace sccl::tools
