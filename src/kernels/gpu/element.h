// Elements in registers: conversion of each format's bits to float32 and back, rounded to nearest even, and the order
// of elements.
//
// The results are the same as on the host (kernels/host/reduce/reduce_copy.h): narrow floats compute in float32 and
// round once, fp8 saturates, minima and maxima ignore NaN and put -0 below +0. The code works on bits, so that it needs
// no vendor's header; where a device has an instruction for a conversion, the instruction is used.
#pragma once

#include "kernels/gpu/target.h"

namespace sccl::device::gpu {

using u16 = unsigned short;
using s8 = signed char;
using s32 = int;
using s64 = long long;

template <class To, class From>
inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  union {
    From from;
    To to;
  } bits{from};  // reading the other member is defined by all compilers in use
  return bits.to;
}
inline u32 bits_of(float value) { return same_bits<u32>(value); }
inline float float_of(u32 bits) { return same_bits<float>(bits); }

template <u32 kExponentBits, u32 kMantissaBits, u32 kLastNumberBits, u32 kOverflowBits, u32 kQuietNanBits>
struct Format {
  static constexpr u32 kMantissa = kMantissaBits;
  static constexpr u32 kBias = (1u << (kExponentBits - 1)) - 1;
  static constexpr u32 kSign = 1u << (kExponentBits + kMantissaBits);
  static constexpr u32 kLastNumber = kLastNumberBits;  // only NaNs have larger magnitudes
  static constexpr u32 kOverflow = kOverflowBits;      // the magnitude that a result too large for the format becomes
  static constexpr u32 kQuietNan = kQuietNanBits;
};
using Half = Format<5, 10, 0x7c00, 0x7c00, 0x7e00>;
using Brain = Format<8, 7, 0x7f80, 0x7f80, 0x7fc0>;
using E4M3 = Format<4, 3, 0x7e, 0x7e, 0x7f>;  // no infinity
using E5M2 = Format<5, 2, 0x7c, 0x7b, 0x7f>;  // has infinities, but saturates as well

template <class F>
inline float widened(u32 bits) {
  constexpr u32 kShift = 23 - F::kMantissa;
  const u32 magnitude = bits & (F::kSign - 1);
  const u32 sign = (bits & F::kSign) != 0 ? 0x80000000u : 0u;
  constexpr u32 kSmallestUnit = (127 + 1 - F::kBias - F::kMantissa) << 23;  // 2^(1 - bias - mantissa bits)
  u32 result;
  if (magnitude > F::kLastNumber)
    result = 0x7fc00000u;
  else if (F::kOverflow == F::kLastNumber && F::kLastNumber != 0x7e && magnitude == F::kLastNumber)
    result = 0x7f800000u;
  else if (F::kOverflow != F::kLastNumber && magnitude == F::kLastNumber)
    result = 0x7f800000u;
  else if (magnitude >> F::kMantissa == 0)
    result = bits_of(static_cast<float>(magnitude) * float_of(kSmallestUnit));
  else
    result = (magnitude << kShift) + ((127 - F::kBias) << 23);
  return float_of(result | sign);
}

// For formats with a smaller range than float32. Adding the power of two whose last place is the wanted unit makes the
// addition round. The unit is that of the number's binade, but at least that of the smallest normal binade, which all
// smaller numbers share.
template <class F>
inline u32 rounded(float value) {
  constexpr u32 kDropped = 23 - F::kMantissa;
  constexpr u32 kSmallest = (127 - F::kBias + 1) << 23;
  constexpr u32 kEnd = ((127 - F::kBias) << 23) + (F::kOverflow << kDropped);
  const u32 bits = bits_of(value);
  const u32 sign = (bits & 0x80000000u) != 0 ? F::kSign : 0u;
  u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | F::kQuietNan;
  if (magnitude > kEnd) magnitude = kEnd;
  const u32 binade = (magnitude > kSmallest ? magnitude : kSmallest) & 0x7f800000u;
  const u32 rounder = binade + (kDropped << 23);
  const u32 sum = bits_of(float_of(magnitude) + float_of(rounder));
  return sign | (((binade - kSmallest) >> kDropped) + (sum - rounder));
}

// Memory: the type in memory. Value: the type for computations.
template <DataType kType>
struct Element;

// Bytes are computed as 32-bit words whose upper bits are dropped at the end: devices have no byte arithmetic.
template <class MemoryType>
struct Computed {
  using Type = MemoryType;
};
template <>
struct Computed<u8> {
  using Type = u32;
};

template <class MemoryType, class SignedType>
struct Integer {
  using Memory = MemoryType;  // unsigned: sums and products wrap
  using Value = typename Computed<MemoryType>::Type;
  static constexpr bool kFloating = false;
  static constexpr bool kSigned = static_cast<SignedType>(-1) < SignedType(0);
  static Value widen(Memory m) { return m; }
  static Memory narrow(Value v) { return static_cast<Memory>(v); }
  static Memory divided(Value computed, u32 divisor) {
    const Memory v = narrow(computed);
    if (!kSigned) return static_cast<Memory>(v / divisor);
    return static_cast<Memory>(static_cast<s64>(static_cast<SignedType>(v)) / static_cast<s64>(divisor));
  }
};
template <>
struct Element<DataType::int8> : Integer<u8, s8> {};
template <>
struct Element<DataType::uint8> : Integer<u8, u8> {};
template <>
struct Element<DataType::int32> : Integer<u32, s32> {};
template <>
struct Element<DataType::uint32> : Integer<u32, u32> {};
template <>
struct Element<DataType::int64> : Integer<u64, s64> {};
template <>
struct Element<DataType::uint64> : Integer<u64, u64> {};

template <class MemoryType, class ValueType>
struct Floating {
  using Memory = MemoryType;
  using Value = ValueType;
  static constexpr bool kFloating = true;
  static constexpr bool kSigned = true;
  static Memory divided(Value, u32) { return 0; }  // averages of floats use a scale instead
};
template <>
struct Element<DataType::float32> : Floating<u32, float> {
  static constexpr u32 kLastNumber = 0x7f800000u;
  static Value widen(Memory m) { return float_of(m); }
  static Memory narrow(Value v) { return bits_of(v); }
};
template <>
struct Element<DataType::float64> : Floating<u64, double> {
  static constexpr u64 kLastNumber = 0x7ff0000000000000ull;
  static Value widen(Memory m) { return same_bits<double>(m); }
  static Memory narrow(Value v) { return same_bits<u64>(v); }
};
template <class MemoryType, class F>
struct NarrowFloat : Floating<MemoryType, float> {
  static constexpr u32 kLastNumber = F::kLastNumber;
  static float widen(MemoryType m) { return widened<F>(m); }
  static MemoryType narrow(float v) { return static_cast<MemoryType>(rounded<F>(v)); }
};
template <>
struct Element<DataType::float8e4m3> : NarrowFloat<u8, E4M3> {};
template <>
struct Element<DataType::float8e5m2> : NarrowFloat<u8, E5M2> {};
template <>
struct Element<DataType::float16> : NarrowFloat<u16, Half> {
#if SCCL_GPU_CUDA
  static float widen(u16 m) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(m));
    return v;
  }
  static u16 narrow(float v) {
    u16 m;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(m) : "f"(v));
    return m;
  }
#endif
};
template <>
struct Element<DataType::bfloat16> : NarrowFloat<u16, Brain> {
  static float widen(u16 m) { return float_of(static_cast<u32>(m) << 16); }
  static u16 narrow(float v) {
#if SCCL_GPU_CUDA && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    u16 m;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(m) : "f"(v));
    return m;
#else
    const u32 bits = bits_of(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<u16>(bits >> 16 | 0x40u);
    return static_cast<u16>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
#endif
  }
};

// The bits of the number 1.
inline u64 one_of(DataType type) {
  switch (type) {
    case DataType::float16:
      return 0x3c00;
    case DataType::bfloat16:
      return 0x3f80;
    case DataType::float32:
      return 0x3f800000;
    case DataType::float64:
      return 0x3ff0000000000000ull;
    case DataType::float8e4m3:
      return 0x38;
    case DataType::float8e5m2:
      return 0x3c;
    default:
      return 1;
  }
}

// Maps elements to unsigned numbers of the same order. NaN comes last: it is the result only if all elements are NaN.
template <class E, ReduceKernel kKernel>
struct Order {
  using Memory = typename E::Memory;
  static constexpr Memory kSign = static_cast<Memory>(Memory(1) << (8 * sizeof(Memory) - 1));

  static Memory key(Memory m) {
    if constexpr (E::kFloating) {
      if ((m & static_cast<Memory>(~kSign)) > E::kLastNumber)
        return kKernel == ReduceKernel::max ? Memory(0) : static_cast<Memory>(~Memory(0));
      return static_cast<Memory>((m & kSign) != 0 ? ~m : m ^ kSign);
    } else {
      return E::kSigned ? static_cast<Memory>(m ^ kSign) : m;
    }
  }
  static Memory element(Memory k) {
    if constexpr (E::kFloating) return static_cast<Memory>((k & kSign) != 0 ? k ^ kSign : ~k);
    return E::kSigned ? static_cast<Memory>(k ^ kSign) : k;
  }
};

}  // namespace sccl::device::gpu
