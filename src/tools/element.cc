#include "tools/element.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace sccl::tools {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
};

Format format(DataType type) {
  switch (type) {
    case DataType::float16: return {5, 10};
    case DataType::float32: return {8, 23};
    case DataType::bfloat16: return {8, 7};
    case DataType::float8e4m3: return {4, 3};
    case DataType::float8e5m2: return {5, 2};
    default: return {11, 52};
  }
}

bool is_signed(DataType type) {
  return type == DataType::int8 || type == DataType::int32 || type == DataType::int64;
}

// Of normal values; test data holds no others.
std::uint64_t encode(const Format& format, double value) {
  const std::uint64_t sign = std::signbit(value) ? 1 : 0;
  std::uint64_t magnitude = 0;
  if (value != 0) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    // A carry out of the mantissa moves into the exponent by itself.
    magnitude = (static_cast<std::uint64_t>(exponent - 1 + bias) << format.mantissa_bits) +
                static_cast<std::uint64_t>(std::nearbyint(std::ldexp(fraction, format.mantissa_bits + 1))) -
                (std::uint64_t{1} << format.mantissa_bits);
  }
  return sign << (format.exponent_bits + format.mantissa_bits) | magnitude;
}

double decode(const Format& format, std::uint64_t bits) {
  const auto exponent = static_cast<int>(bits >> format.mantissa_bits & ((1u << format.exponent_bits) - 1));
  const auto mantissa = static_cast<double>(bits & ((std::uint64_t{1} << format.mantissa_bits) - 1));
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double unit = std::ldexp(1.0, -format.mantissa_bits);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa * unit, 1 - bias)
                                         : std::ldexp(1.0 + mantissa * unit, exponent - bias);
  return (bits >> (format.exponent_bits + format.mantissa_bits) & 1) != 0 ? -magnitude : magnitude;
}

}  // namespace

void store_element(DataType type, std::byte* buffer, std::size_t index, double value) {
  const std::uint64_t bits =
      info(type).floating ? encode(format(type), value) : static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  std::memcpy(buffer + index * size_bytes(type), &bits, size_bytes(type));  // little endian
}

double load_element(DataType type, const std::byte* buffer, std::size_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, buffer + index * size_bytes(type), size_bytes(type));
  if (info(type).floating) return decode(format(type), bits);
  if (!is_signed(type)) return static_cast<double>(bits);
  const int shift = 64 - static_cast<int>(size_bytes(type)) * 8;
  return static_cast<double>(static_cast<std::int64_t>(bits << shift) >> shift);
}

double in_type(DataType type, double value) {
  std::byte cell[8];
  store_element(type, cell, 0, value);
  return load_element(type, cell, 0);
}

double rounding(DataType type) { return std::ldexp(1.0, -format(type).mantissa_bits); }

}  // namespace sccl::tools
