// Conversions of the floating types narrower than 32 bits to and from vectors of float32, for one instruction set. No
// conversion reads or makes a float32 subnormal, so all are exact however the processor treats subnormals.
#if defined(SCCL_ELEMENT_CONVERT_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SCCL_ELEMENT_CONVERT_H
#undef SCCL_ELEMENT_CONVERT_H
#else
#define SCCL_ELEMENT_CONVERT_H
#endif

#include "hwy/highway.h"
#include "kernels/host/vectors/element_formats.h"

HWY_BEFORE_NAMESPACE();
namespace sccl::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Highway's emulated float16 conversions truncate and lack infinities; only the instructions round correctly.
#undef SCCL_FLOAT16_INSTRUCTIONS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#define SCCL_FLOAT16_INSTRUCTIONS 1
#else
#define SCCL_FLOAT16_INSTRUCTIONS 0
#endif

using WideFloat = hn::ScalableTag<float>;
using WideBits = hn::RebindToUnsigned<WideFloat>;
using WideSigned = hn::RebindToSigned<WideFloat>;
template <class T>
using Narrow = hn::Rebind<T, WideFloat>;

// The bits, without the sign, of `magnitude` (a float32's bits without the sign) rounded to nearest even in `Element`.
//
// Adding the power of two whose unit in the last place is the wanted unit makes the float addition round. The wanted
// unit is that of the number's own binade, but at least that of the smallest normal binade, which all smaller numbers
// share. So normal and subnormal results need no distinction: in binade b above the smallest one they are (b << M) +
// multiple.
template <class Element>
HWY_INLINE hn::Vec<WideBits> rounded_magnitude(hn::Vec<WideBits> magnitude) {
  using F = Format<Element>;
  const WideBits d;
  const WideFloat df;
  constexpr int kDropped = 23 - F::kMantissaBits;
  constexpr std::uint32_t kSmallestBinade = std::uint32_t(127 - F::kBias + 1) << 23;
  // For float16 the end is one step beyond its largest number, which already encodes infinity; the other types end at
  // their largest number.
  constexpr std::uint32_t kEnd = std::uint32_t(127 - F::kBias + (F::kOverflow >> F::kMantissaBits)) << 23 |
                                 std::uint32_t(F::kOverflow & ((1u << F::kMantissaBits) - 1)) << kDropped;
  const auto is_nan = hn::Gt(hn::BitCast(WideSigned(), magnitude), hn::Set(WideSigned(), 0x7f800000));
  const auto capped = hn::Min(magnitude, hn::Set(d, kEnd));
  const auto binade = hn::And(hn::Max(capped, hn::Set(d, kSmallestBinade)), hn::Set(d, 0x7f800000u));
  const auto rounder = hn::Add(binade, hn::Set(d, std::uint32_t(kDropped) << 23));
  const auto sum = hn::BitCast(d, hn::Add(hn::BitCast(df, capped), hn::BitCast(df, rounder)));
  const auto base = hn::ShiftRight<kDropped>(hn::Sub(binade, hn::Set(d, kSmallestBinade)));
  const auto number = hn::Add(base, hn::Sub(sum, rounder));
  return hn::IfThenElse(hn::RebindMask(d, is_nan), hn::Set(d, std::uint32_t(F::kQuietNan)), number);
}

// The bits of `v` rounded in `Element`, one element in the low bits of each lane.
template <class Element>
HWY_INLINE hn::Vec<WideBits> rounded_bits(hn::Vec<WideFloat> v) {
  constexpr int kUnused = 32 - 8 * int(sizeof(BitsOf<Element>));
  const WideBits d;
  const auto bits = hn::BitCast(d, v);
  const auto sign = hn::And(bits, hn::Set(d, 0x80000000u));
  return hn::Or(rounded_magnitude<Element>(hn::Xor(bits, sign)), hn::ShiftRight<kUnused>(sign));
}

template <class Element>
requires(sizeof(BitsOf<Element>) == 1) HWY_INLINE hn::Vec<Narrow<std::uint8_t>> rounded(Element, hn::Vec<WideFloat> v) {
  return hn::U8FromU32(rounded_bits<Element>(v));
}

#if SCCL_FLOAT16_INSTRUCTIONS
HWY_INLINE hn::Vec<Narrow<std::uint16_t>> rounded(Float16, hn::Vec<WideFloat> v) {
  return hn::BitCast(Narrow<std::uint16_t>(), hn::DemoteTo(Narrow<hwy::float16_t>(), v));
}
HWY_INLINE hn::Vec<WideFloat> widened(Float16, hn::Vec<Narrow<std::uint16_t>> v) {
  return hn::PromoteTo(WideFloat(), hn::BitCast(Narrow<hwy::float16_t>(), v));
}
#else
HWY_INLINE hn::Vec<Narrow<std::uint16_t>> rounded(Float16, hn::Vec<WideFloat> v) {
  return hn::DemoteTo(Narrow<std::uint16_t>(), hn::BitCast(WideSigned(), rounded_bits<Float16>(v)));
}
HWY_INLINE hn::Vec<WideFloat> widened(Float16, hn::Vec<Narrow<std::uint16_t>> v) {
  const WideBits d;
  const WideSigned ds;
  const WideFloat df;
  const auto bits = hn::PromoteTo(d, v);
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(d, 0x7fffu)));
  const auto normal = hn::Add(magnitude, hn::Set(d, 112u << 23));
  // 0.m is 1.m - 1, in the smallest normal binade.
  const auto one_more = hn::BitCast(df, hn::Add(magnitude, hn::Set(d, 113u << 23)));
  const auto subnormal = hn::BitCast(d, hn::Sub(one_more, hn::Set(df, 0x1p-14f)));
  const auto is_subnormal = hn::Lt(hn::BitCast(ds, magnitude), hn::Set(ds, 1 << 23));
  const auto is_special = hn::Gt(hn::BitCast(ds, magnitude), hn::Set(ds, (31 << 23) - 1));
  const auto special = hn::And(hn::BitCast(d, hn::VecFromMask(ds, is_special)), hn::Set(d, 0x7f800000u));
  const auto finite = hn::IfThenElse(hn::RebindMask(d, is_subnormal), subnormal, normal);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d, 0x8000u)));
  return hn::BitCast(df, hn::Or(hn::Or(finite, special), sign));
}
#endif

// A float32's bits with the upper half rounded to bfloat16. A NaN here is a quieted operand or the processor's default
// NaN: its lower half is zero, so rounding leaves the upper half unchanged.
HWY_INLINE hn::Vec<WideBits> rounded_upper_half(hn::Vec<WideFloat> v) {
  const WideBits d;
  const auto bits = hn::BitCast(d, v);
  const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  return hn::Add(hn::Add(bits, last), hn::Set(d, 0x7fffu));
}

// An fp8 number with its bits in the places of float16. E5M2 is the upper half of float16. The result for E4M3 is too
// small by a factor of 2^8.
template <class D16, class D8>
HWY_INLINE hn::Vec<D16> float16_of(Float8E5M2, D16 d, D8, hn::Vec<D8> v) {
  return hn::ShiftLeft<8>(hn::PromoteTo(d, v));
}
// E4M3 has one exponent bit less. The extra bit stays zero except in NaN. NaN's other bits are all ones, so adding 1 at
// the last of them carries into the extra bit.
template <class D16, class D8>
HWY_INLINE hn::Vec<D16> float16_of(Float8E4M3, D16 d, D8, hn::Vec<D8> v) {
  const hn::RebindToSigned<D16> ds;
  const auto extended = hn::BitCast(d, hn::PromoteTo(ds, hn::BitCast(hn::RebindToSigned<D8>(), v)));
  const auto placed = hn::And(hn::ShiftLeft<7>(extended), hn::Set(d, std::uint16_t{0xbf80}));
  const auto carried = hn::Add(placed, hn::Set(d, std::uint16_t{0x0080}));
  return hn::Or(placed, hn::And(carried, hn::Set(d, std::uint16_t{0x4000})));
}
HWY_INLINE hn::Vec<WideFloat> widened_from_float16(Float8E5M2, hn::Vec<Narrow<std::uint16_t>> v) {
  return widened(Float16(), v);
}
HWY_INLINE hn::Vec<WideFloat> widened_from_float16(Float8E4M3, hn::Vec<Narrow<std::uint16_t>> v) {
  return hn::Mul(widened(Float16(), v), hn::Set(WideFloat(), 256.0f));
}

}  // namespace sccl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
