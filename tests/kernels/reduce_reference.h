// Element arithmetic as the definitions of the formats have it: one number at a time, in double, found by search or by
// counting units in the last place. Shares nothing with the code under test.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "base/types.h"

namespace sccl::reference {

using Bits = std::uint64_t;

struct Shape {
  int exponent_bits;
  int mantissa_bits;
};
inline Shape shape(DataType type) {
  switch (type) {
    case DataType::float16:
      return {5, 10};
    case DataType::bfloat16:
      return {8, 7};
    case DataType::float32:
      return {8, 23};
    case DataType::float64:
      return {11, 52};
    case DataType::float8e4m3:
      return {4, 3};
    default:
      return {5, 2};
  }
}

inline bool is_fp8(DataType type) { return type == DataType::float8e4m3 || type == DataType::float8e5m2; }
inline int width(DataType type) { return static_cast<int>(8 * size_bytes(type)); }
inline Bits low_bits(int count) { return count == 64 ? ~Bits{0} : (Bits{1} << count) - 1; }

inline double value(DataType type, Bits bits) {
  const auto [exponent_bits, mantissa_bits] = shape(type);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const Bits mantissa = bits & low_bits(mantissa_bits);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & low_bits(exponent_bits));
  const double sign = bits >> (width(type) - 1) & 1 ? -1.0 : 1.0;
  if (type == DataType::float8e4m3) {
    if (exponent == 15 && mantissa == 7) return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  } else if (exponent == (1 << exponent_bits) - 1) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  const double whole = static_cast<double>(mantissa) / static_cast<double>(Bits{1} << mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(whole, 1 - bias);
  return sign * std::ldexp(1.0 + whole, exponent - bias);
}

inline std::vector<double> fp8_numbers(DataType type) {
  std::vector<double> numbers;
  for (Bits code = 0; code < 128; ++code) numbers.push_back(value(type, code));
  return numbers;
}

// The code of the fp8 number nearest to |v|: the even one of two equally near, the largest finite one beyond it.
inline Bits nearest_fp8_magnitude(DataType type, double v) {
  const Bits largest = type == DataType::float8e4m3 ? 0x7e : 0x7b;
  static const std::vector<double> numbers[2] = {fp8_numbers(DataType::float8e4m3), fp8_numbers(DataType::float8e5m2)};
  const std::vector<double>& number = numbers[type == DataType::float8e5m2];
  Bits best = 0;
  for (Bits code = 1; code <= largest; ++code) {
    const double distance = std::abs(number[code] - v), best_distance = std::abs(number[best] - v);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) best = code;
  }
  return best;
}

inline Bits rounded(DataType type, double v) {
  const auto [exponent_bits, mantissa_bits] = shape(type);
  const Bits sign = std::signbit(v) ? Bits{1} << (width(type) - 1) : 0;
  if (is_fp8(type)) {
    if (std::isnan(v)) return sign | 0x7f;
    return sign | nearest_fp8_magnitude(type, std::min(std::abs(v), 1e6));
  }
  if (type == DataType::float64) {
    Bits bits;
    std::memcpy(&bits, &v, sizeof v);
    return bits;
  }
  const Bits infinity = low_bits(exponent_bits) << mantissa_bits;
  if (std::isnan(v)) return sign | infinity | Bits{1} << (mantissa_bits - 1);
  if (std::isinf(v)) return sign | infinity;
  if (v == 0) return sign;
  const int smallest = 2 - (1 << (exponent_bits - 1));
  const int binade = std::max(std::ilogb(v), smallest);
  const double units = std::nearbyint(std::ldexp(std::abs(v), mantissa_bits - binade));
  const Bits code = (static_cast<Bits>(binade - smallest) << mantissa_bits) + static_cast<Bits>(units);
  return sign | std::min(code, infinity);
}

inline bool is_nan(DataType type, Bits bits) { return info(type).floating && std::isnan(value(type, bits)); }

inline bool is_signed_integer(DataType type) {
  return type == DataType::int8 || type == DataType::int32 || type == DataType::int64;
}
inline std::int64_t extended(DataType type, Bits bits) {
  const int unused = 64 - width(type);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

inline Bits scaled(DataType type, Bits bits, Bits factor) {
  if (!info(type).floating) return bits * factor & low_bits(width(type));
  // Exact, or of the type itself, in double; rounded once.
  const volatile double product = value(type, bits) * value(type, factor);
  return rounded(type, product);
}

inline Bits extremum(DataType type, ReduceKernel kernel, Bits a, Bits b) {
  bool a_is_less;
  if (info(type).floating) {
    const double x = value(type, a), y = value(type, b);
    if (std::isnan(x)) return b;
    if (std::isnan(y)) return a;
    a_is_less = x < y || (x == y && std::signbit(x));
  } else {
    a_is_less = is_signed_integer(type) ? extended(type, a) < extended(type, b) : a < b;
  }
  return a_is_less == (kernel == ReduceKernel::min) ? a : b;
}

// A reduction of one element under way: in float32 for narrower floats.
class Accumulator {
 public:
  Accumulator(DataType type, ReduceKernel kernel, Bits first) : type_(type), kernel_(kernel), bits_(first) {
    if (widens()) wide_ = static_cast<float>(value(type, first));
  }
  void add(Bits next) {
    is_copy_ = false;
    if (kernel_ == ReduceKernel::max || kernel_ == ReduceKernel::min) {
      bits_ = extremum(type_, kernel_, bits_, next);
    } else if (widens()) {
      const auto x = static_cast<float>(value(type_, next));
      wide_ = kernel_ == ReduceKernel::sum ? wide_ + x : wide_ * x;
    } else if (info(type_).floating) {
      bits_ = native(value(type_, bits_), value(type_, next));
    } else {
      bits_ = (kernel_ == ReduceKernel::sum ? bits_ + next : bits_ * next) & low_bits(width(type_));
    }
  }
  Bits result() const {
    const bool orders = kernel_ == ReduceKernel::max || kernel_ == ReduceKernel::min;
    return widens() && !orders && !is_copy_ ? rounded(type_, wide_) : bits_;
  }

 private:
  bool widens() const { return info(type_).floating && size_bytes(type_) < 4; }
  Bits native(double a, double b) const {
    if (type_ == DataType::float64) return rounded(type_, kernel_ == ReduceKernel::sum ? a + b : a * b);
    const auto x = static_cast<float>(a), y = static_cast<float>(b);
    return rounded(type_, kernel_ == ReduceKernel::sum ? x + y : x * y);
  }

  DataType type_;
  ReduceKernel kernel_;
  Bits bits_;
  bool is_copy_ = true;
  float wide_ = 0;
};

}  // namespace sccl::reference
