#include "tools/perf/element.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace sccl::tools {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

Format format(DataType type) {
  switch (type) {
    case DataType::float16:
      return {5, 10};
    case DataType::float32:
      return {8, 23};
    case DataType::bfloat16:
      return {8, 7};
    case DataType::float8e4m3:
      return {4, 3};
    case DataType::float8e5m2:
      return {5, 2};
    default:
      return {11, 52};
  }
}

bool is_signed(DataType type) { return type == DataType::int8 || type == DataType::int32 || type == DataType::int64; }

// Small integers are normal numbers. Bits that do not fit the mantissa are cut off; most_exact_value() gives the limit.
std::uint64_t encode(const Format& format, unsigned value) {
  if (value == 0) return 0;
  const int exponent = std::ilogb(static_cast<double>(value));
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(value, format.mantissa_bits - exponent));
  return (static_cast<std::uint64_t>(exponent + format.bias() - 1) << format.mantissa_bits) + mantissa;
}

double decode(const Format& format, std::uint64_t bits) {
  const auto exponent = static_cast<int>(bits >> format.mantissa_bits & ((1u << format.exponent_bits) - 1));
  const auto mantissa = static_cast<double>(bits & ((std::uint64_t{1} << format.mantissa_bits) - 1));
  const double unit = std::ldexp(1.0, -format.mantissa_bits);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa * unit, 1 - format.bias())
                                         : std::ldexp(1.0 + mantissa * unit, exponent - format.bias());
  return (bits >> (format.exponent_bits + format.mantissa_bits) & 1) != 0 ? -magnitude : magnitude;
}

}  // namespace

unsigned most_exact_value(DataType type) {
  if (!info(type).floating) return kMostValue;
  const int digits = std::min(format(type).mantissa_bits + 1, 7);
  return std::min(1u << digits, kMostValue);
}

ElementCodes::ElementCodes(DataType type) : bytes_(size_bytes(type)), codes_{} {
  for (unsigned value = 0; value <= kMostValue; ++value) {
    const std::uint64_t bits = info(type).floating ? encode(format(type), value) : value;
    std::memcpy(codes_[value].data(), &bits, sizeof bits);  // little endian
  }
}

double load_element(DataType type, const std::byte* buffer, std::size_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, buffer + index * size_bytes(type), size_bytes(type));
  if (info(type).floating) return decode(format(type), bits);
  if (!is_signed(type)) return static_cast<double>(bits);
  const int shift = 64 - static_cast<int>(size_bytes(type)) * 8;
  return static_cast<double>(static_cast<std::int64_t>(bits << shift) >> shift);
}

double half_unit(DataType type, double value) {
  const Format layout = format(type);
  const int exponent = value == 0 ? 1 - layout.bias() : std::max(std::ilogb(value), 1 - layout.bias());
  return std::ldexp(1.0, exponent - layout.mantissa_bits - 1);
}

}  // namespace sccl::tools
