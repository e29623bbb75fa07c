// Each element type as the reducer sees it: how many elements fit a vector, how to compute with them, how to order
// them.
#if defined(SCCL_ELEMENT_LANES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SCCL_ELEMENT_LANES_H
#undef SCCL_ELEMENT_LANES_H
#else
#define SCCL_ELEMENT_LANES_H
#endif

#include <type_traits>

#include "base/scalar_types.h"
#include "kernels/host/vectors/element_convert.h"

HWY_BEFORE_NAMESPACE();
namespace sccl::kernels::HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::Vec<D> product(D, hn::Vec<D> a, hn::Vec<D> b) {
  return hn::Mul(a, b);
}
#if HWY_TARGET != HWY_SCALAR
// There is no product of byte vectors: even and odd bytes are multiplied as halves of 16-bit lanes.
HWY_INLINE hn::Vec<hn::ScalableTag<std::uint8_t>> product(hn::ScalableTag<std::uint8_t> d,
                                                          hn::Vec<hn::ScalableTag<std::uint8_t>> a,
                                                          hn::Vec<hn::ScalableTag<std::uint8_t>> b) {
  const hn::ScalableTag<std::uint16_t> pairs;
  const auto low_byte = hn::Set(pairs, std::uint16_t{0xff});
  const auto x = hn::BitCast(pairs, a);
  const auto y = hn::BitCast(pairs, b);
  const auto even = hn::And(hn::Mul(x, y), low_byte);
  const auto odd = hn::Mul(hn::ShiftRight<8>(x), hn::AndNot(low_byte, y));
  return hn::BitCast(d, hn::Or(even, odd));
}
#endif

// Of sums and products in order: a NaN that goes first remains, made quiet.
template <class V>
HWY_INLINE V first_nan_or(V first, V quiet, V result) {
  return hn::IfThenElse(hn::IsNaN(first), quiet, result);
}

// One or two vectors of float32 for each vector in memory.
struct OneWide {
  using Wide = hn::Vec<WideFloat>;
  static HWY_INLINE Wide add(Wide a, Wide b) { return hn::Add(a, b); }
  static HWY_INLINE Wide multiply(Wide a, Wide b) { return hn::Mul(a, b); }
};
struct TwoWide {
  struct Wide {
    hn::Vec<WideFloat> first, second;
  };
  static HWY_INLINE Wide add(Wide a, Wide b) { return {hn::Add(a.first, b.first), hn::Add(a.second, b.second)}; }
  static HWY_INLINE Wide multiply(Wide a, Wide b) { return {hn::Mul(a.first, b.first), hn::Mul(a.second, b.second)}; }
  friend HWY_INLINE Wide first_nan_or(Wide first, Wide quiet, Wide result) {
    return {kernels::HWY_NAMESPACE::first_nan_or(first.first, quiet.first, result.first),
            kernels::HWY_NAMESPACE::first_nan_or(first.second, quiet.second, result.second)};
  }
};

// Memory: the tag of vectors in memory. Wide: the type for arithmetic.
template <class Element>
struct LanesOf {
  using Memory = hn::ScalableTag<BitsOf<Element>>;
  // Wrapping arithmetic does not depend on the sign.
  using D = hn::ScalableTag<std::conditional_t<std::is_integral_v<Element>, BitsOf<Element>, Element>>;
  using Wide = hn::Vec<D>;
  static HWY_INLINE Wide widen(hn::Vec<Memory> v) { return hn::BitCast(D(), v); }
  static HWY_INLINE hn::Vec<Memory> narrow(Wide v) { return hn::BitCast(Memory(), v); }
  static HWY_INLINE Wide add(Wide a, Wide b) { return hn::Add(a, b); }
  static HWY_INLINE Wide multiply(Wide a, Wide b) { return product(D(), a, b); }
};

template <>
struct LanesOf<Float16> : OneWide {
  using Memory = Narrow<std::uint16_t>;
  static HWY_INLINE Wide widen(hn::Vec<Memory> v) { return widened(Float16(), v); }
  static HWY_INLINE hn::Vec<Memory> narrow(Wide v) { return rounded(Float16(), v); }
};

#if HWY_TARGET == HWY_SCALAR

template <>
struct LanesOf<BFloat16> : OneWide {
  using Memory = Narrow<std::uint16_t>;
  static HWY_INLINE Wide widen(hn::Vec<Memory> v) {
    return hn::BitCast(WideFloat(), hn::ShiftLeft<16>(hn::PromoteTo(WideBits(), v)));
  }
  static HWY_INLINE hn::Vec<Memory> narrow(Wide v) {
    return hn::DemoteTo(Memory(), hn::BitCast(WideSigned(), hn::ShiftRight<16>(rounded_upper_half(v))));
  }
};

template <class Element>
struct Float8Lanes : OneWide {
  using Memory = Narrow<std::uint8_t>;
  static HWY_INLINE Wide widen(hn::Vec<Memory> v) {
    return widened_from_float16(Element(), float16_of(Element(), Narrow<std::uint16_t>(), Memory(), v));
  }
  static HWY_INLINE hn::Vec<Memory> narrow(Wide v) { return rounded(Element(), v); }
};

#else

// Even and odd elements become the lower and upper halves of 32-bit lanes, so no element changes its lane.
template <>
struct LanesOf<BFloat16> : TwoWide {
  using Memory = hn::ScalableTag<std::uint16_t>;
  static HWY_INLINE Wide widen(hn::Vec<Memory> v) {
    const WideBits d;
    const auto both = hn::BitCast(d, v);
    return {hn::BitCast(WideFloat(), hn::ShiftLeft<16>(both)),
            hn::BitCast(WideFloat(), hn::And(both, hn::Set(d, 0xffff0000u)))};
  }
  static HWY_INLINE hn::Vec<Memory> narrow(Wide v) {
    const auto even = hn::ShiftRight<16>(rounded_upper_half(v.first));
    const auto odd = hn::And(rounded_upper_half(v.second), hn::Set(WideBits(), 0xffff0000u));
    return hn::BitCast(Memory(), hn::Or(even, odd));
  }
};

// fp8 is converted through 16-bit lanes; two vectors of float32 share that conversion.
template <class Element>
struct Float8Lanes : TwoWide {
  using Middle = hn::ScalableTag<std::uint16_t>;
  using Memory = hn::Rebind<std::uint8_t, Middle>;
  static HWY_INLINE Wide widen(hn::Vec<Memory> v) {
    const auto middle = float16_of(Element(), Middle(), Memory(), v);
    return {widened_from_float16(Element(), hn::LowerHalf(middle)),
            widened_from_float16(Element(), hn::UpperHalf(hn::Half<Middle>(), middle))};
  }
  static HWY_INLINE hn::Vec<Memory> narrow(Wide v) {
    return hn::Combine(Memory(), rounded(Element(), v.second), rounded(Element(), v.first));
  }
};

#endif

template <>
struct LanesOf<Float8E4M3> : Float8Lanes<Float8E4M3> {};
template <>
struct LanesOf<Float8E5M2> : Float8Lanes<Float8E5M2> {};

// Maps an element's bits one-to-one to integers in the order of the elements. For `max` every NaN is below every
// number, for `min` above: the larger (smaller) integer is the reduction, which is NaN only if all elements are NaN.
//
// Negative numbers are flipped, which orders the bits as -NaN < -inf .. -0 < +0 .. inf < +NaN. Adding a constant then
// rotates the NaNs of one end to the other end.
template <class Element, ReduceKernel kKernel>
struct Order {
  using Bits = BitsOf<Element>;
  static constexpr Bits kSignBit = Format<Element>::kSignBit;
  static constexpr Bits kNumbers = Bits(Format<Element>::kLastNumber + 1);
  static constexpr Bits kRotation =
      kKernel == ReduceKernel::max ? Bits(Bits(0) - kNumbers - kSignBit) : Bits(kNumbers + kSignBit);

  template <class D>
  static HWY_INLINE hn::Vec<D> flip_negative(D d, hn::Vec<D> bits) {
    const hn::RebindToSigned<D> ds;
    const auto sign = hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(ds, bits)));
    return hn::Xor(bits, hn::And(sign, hn::Set(d, Bits(kSignBit - 1))));
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToSigned<D>> key(D d, hn::Vec<D> bits) {
    return hn::BitCast(hn::RebindToSigned<D>(), hn::Add(flip_negative(d, bits), hn::Set(d, kRotation)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> element(D d, hn::Vec<hn::RebindToSigned<D>> key) {
    return flip_negative(d, hn::Sub(hn::BitCast(d, key), hn::Set(d, kRotation)));
  }
};

template <class Element, ReduceKernel kKernel>
requires std::is_integral_v<Element>
struct Order<Element, kKernel> {
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<Element, D>> key(D, hn::Vec<D> bits) {
    return hn::BitCast(hn::Rebind<Element, D>(), bits);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> element(D d, hn::Vec<hn::Rebind<Element, D>> key) {
    return hn::BitCast(d, key);
  }
};

}  // namespace sccl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
