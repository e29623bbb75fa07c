// Elements of every NCCL type from and to plain numbers, written independently of the library.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "nccl_shim/nccl.h"

namespace api_test {

struct TypeInfo {
  ncclDataType_t type;
  const char* name;
  std::size_t bytes;
  bool floating;
  int exponent_bits;  // of floating types
  int mantissa_bits;
};

inline const std::vector<TypeInfo>& types() {
  static const std::vector<TypeInfo> all{
      {ncclInt8, "int8", 1, false, 0, 0},
      {ncclUint8, "uint8", 1, false, 0, 0},
      {ncclInt32, "int32", 4, false, 0, 0},
      {ncclUint32, "uint32", 4, false, 0, 0},
      {ncclInt64, "int64", 8, false, 0, 0},
      {ncclUint64, "uint64", 8, false, 0, 0},
      {ncclFloat16, "float16", 2, true, 5, 10},
      {ncclFloat32, "float32", 4, true, 8, 23},
      {ncclFloat64, "float64", 8, true, 11, 52},
      {ncclBfloat16, "bfloat16", 2, true, 8, 7},
      {ncclFloat8e4m3, "float8e4m3", 1, true, 4, 3},
      {ncclFloat8e5m2, "float8e5m2", 1, true, 5, 2},
  };
  return all;
}

// Bits of a finite value of the type's normal range; rounds to nearest even.
inline std::uint64_t encode_floating(const TypeInfo& type, double value) {
  const std::uint64_t sign = std::signbit(value) ? 1 : 0;
  std::uint64_t magnitude = 0;
  if (value != 0) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
    const int bias = (1 << (type.exponent_bits - 1)) - 1;
    const double scaled = std::nearbyint(std::ldexp(fraction, type.mantissa_bits + 1));
    // A carry out of the mantissa moves into the exponent by itself.
    magnitude = (static_cast<std::uint64_t>(exponent - 1 + bias) << type.mantissa_bits) +
                static_cast<std::uint64_t>(scaled) - (std::uint64_t{1} << type.mantissa_bits);
  }
  return sign << (type.exponent_bits + type.mantissa_bits) | magnitude;
}

inline double decode_floating(const TypeInfo& type, std::uint64_t bits) {
  const std::uint64_t mantissa_mask = (std::uint64_t{1} << type.mantissa_bits) - 1;
  const auto exponent = static_cast<int>(bits >> type.mantissa_bits & ((1u << type.exponent_bits) - 1));
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<double>(bits & mantissa_mask);
  const double scale = std::ldexp(1.0, -type.mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa * scale, 1 - bias) : std::ldexp(1.0 + mantissa * scale, exponent - bias);
  return (bits >> (type.exponent_bits + type.mantissa_bits) & 1) != 0 ? -magnitude : magnitude;
}

inline std::uint64_t encode(const TypeInfo& type, double value) {
  if (type.floating) return encode_floating(type, value);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

inline void store(const TypeInfo& type, std::byte* buffer, std::size_t index, double value) {
  const std::uint64_t bits = encode(type, value);
  std::memcpy(buffer + index * type.bytes, &bits, type.bytes);  // little endian
}

inline double load(const TypeInfo& type, const std::byte* buffer, std::size_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, buffer + index * type.bytes, type.bytes);
  if (type.floating) return decode_floating(type, bits);
  const bool is_signed = type.type == ncclInt8 || type.type == ncclInt32 || type.type == ncclInt64;
  if (!is_signed) return static_cast<double>(bits);
  const int shift = 64 - static_cast<int>(type.bytes) * 8;
  return static_cast<double>(static_cast<std::int64_t>(bits << shift) >> shift);
}

// The value of an integer type that `value` wraps to.
inline double wrap(const TypeInfo& type, double value) {
  std::byte cell[8];
  store(type, cell, 0, value);
  return load(type, cell, 0);
}

}  // namespace api_test
