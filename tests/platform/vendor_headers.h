// Comparing this project's signatures with a vendor's.
#pragma once

#include <type_traits>

// Whether a call through one type is a call through the other, in the calling convention of 64-bit machines: as many
// parameters, each of the same size and class.
template <typename A, typename B>
constexpr bool same_parameter() {
  constexpr bool plain_a = std::is_pointer_v<A> || std::is_integral_v<A> || std::is_enum_v<A>;
  constexpr bool plain_b = std::is_pointer_v<B> || std::is_integral_v<B> || std::is_enum_v<B>;
  return sizeof(A) == sizeof(B) && plain_a == plain_b;
}
template <typename A, typename B>
struct SameCall : std::false_type {};
template <typename R, typename... As, typename S, typename... Bs>
struct SameCall<R (*)(As...), S (*)(Bs...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(As) == sizeof...(Bs))
      return same_parameter<R, S>() && (same_parameter<As, Bs>() && ...);
    else
      return false;
  }
  static constexpr bool value = compare();
};
