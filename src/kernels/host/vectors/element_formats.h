// How each element type encodes a number in its bits.
#pragma once

#include <cstdint>

namespace sccl::kernels {

// Element types that C++20 has no name for.
struct Float16 {};
struct BFloat16 {};
struct Float8E4M3 {};
struct Float8E5M2 {};

template <class BitsType, int kExponent, int kMantissa>
struct IeeeFormat {
  using Bits = BitsType;
  static constexpr int kExponentBits = kExponent;
  static constexpr int kMantissaBits = kMantissa;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr bool kSaturates = false;
  static constexpr Bits kSignBit = Bits(Bits(1) << (kExponent + kMantissa));
  // Larger magnitudes are NaN. The value is infinity, or the largest number of a format without infinity.
  static constexpr Bits kLastNumber = Bits(((Bits(1) << kExponent) - 1) << kMantissa);
  // A result too large for the format becomes this magnitude.
  static constexpr Bits kOverflow = kLastNumber;
  static constexpr Bits kQuietNan = Bits(kLastNumber | Bits(Bits(1) << (kMantissa - 1)));
};

template <class Element>
struct Format {
  using Bits = Element;  // integers
};
template <>
struct Format<std::int8_t> {
  using Bits = std::uint8_t;
};
template <>
struct Format<std::int32_t> {
  using Bits = std::uint32_t;
};
template <>
struct Format<std::int64_t> {
  using Bits = std::uint64_t;
};
template <>
struct Format<float> : IeeeFormat<std::uint32_t, 8, 23> {};
template <>
struct Format<double> : IeeeFormat<std::uint64_t, 11, 52> {};
template <>
struct Format<Float16> : IeeeFormat<std::uint16_t, 5, 10> {};
template <>
struct Format<BFloat16> : IeeeFormat<std::uint16_t, 8, 7> {};
// OCP E5M2 has the infinities of IEEE, but our arithmetic saturates at 57344.
template <>
struct Format<Float8E5M2> : IeeeFormat<std::uint8_t, 5, 2> {
  static constexpr bool kSaturates = true;
  static constexpr Bits kOverflow = 0x7b;
  static constexpr Bits kQuietNan = 0x7f;
};
// OCP E4M3 has no infinity; all ones is its only NaN, and 448 its largest number.
template <>
struct Format<Float8E4M3> : IeeeFormat<std::uint8_t, 4, 3> {
  static constexpr bool kSaturates = true;
  static constexpr Bits kLastNumber = 0x7e;
  static constexpr Bits kOverflow = 0x7e;
  static constexpr Bits kQuietNan = 0x7f;
};

template <class Element>
using BitsOf = typename Format<Element>::Bits;

}  // namespace sccl::kernels
