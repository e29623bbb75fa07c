// Exact numbers for rates and weights: sums are compared with ==, never with a tolerance.
//
// Boost.Rational (1.74) is not used: in C++20 a comparison with an integer recurses for ever, and overflow goes
// unnoticed.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"

namespace sccl::treegen {

class Rational {
 public:
  constexpr Rational(std::int64_t whole = 0) : numerator_(whole) {}  // NOLINT: whole numbers are rational
  Rational(std::int64_t numerator, std::int64_t denominator) : Rational(of(numerator, denominator)) {}

  std::int64_t numerator() const { return numerator_; }      // carries the sign
  std::int64_t denominator() const { return denominator_; }  // positive

  friend Rational operator+(const Rational& a, const Rational& b) {
    return of(wide(a.numerator_) * b.denominator_ + wide(b.numerator_) * a.denominator_,
              wide(a.denominator_) * b.denominator_);
  }
  friend Rational operator-(const Rational& a, const Rational& b) {
    return of(wide(a.numerator_) * b.denominator_ - wide(b.numerator_) * a.denominator_,
              wide(a.denominator_) * b.denominator_);
  }
  friend Rational operator*(const Rational& a, const Rational& b) {
    return of(wide(a.numerator_) * b.numerator_, wide(a.denominator_) * b.denominator_);
  }
  friend Rational operator/(const Rational& a, const Rational& b) {
    return of(wide(a.numerator_) * b.denominator_, wide(a.denominator_) * b.numerator_);
  }
  Rational& operator+=(const Rational& other) { return *this = *this + other; }
  Rational& operator-=(const Rational& other) { return *this = *this - other; }
  Rational& operator*=(const Rational& other) { return *this = *this * other; }
  Rational& operator/=(const Rational& other) { return *this = *this / other; }

  friend bool operator==(const Rational& a, const Rational& b) = default;  // both are in lowest terms
  friend std::strong_ordering operator<=>(const Rational& a, const Rational& b) {
    return wide(a.numerator_) * b.denominator_ <=> wide(b.numerator_) * a.denominator_;
  }

 private:
  __extension__ using Wide = __int128;
  static Wide wide(std::int64_t value) { return value; }

  static Rational of(Wide numerator, Wide denominator) {
    if (denominator == 0) fail(ErrorCode::internal_error, "an exact fraction has denominator 0");
    Wide a = numerator < 0 ? -numerator : numerator;
    Wide b = denominator < 0 ? -denominator : denominator;
    while (b != 0) a = std::exchange(b, a % b);
    if (denominator < 0) a = -a;
    numerator /= a;
    denominator /= a;
    constexpr Wide kMost = std::numeric_limits<std::int64_t>::max();
    if (numerator > kMost || numerator < -kMost || denominator > kMost)
      fail(ErrorCode::internal_error, "an exact fraction leaves 64 bits");
    Rational result;
    result.numerator_ = static_cast<std::int64_t>(numerator);
    result.denominator_ = static_cast<std::int64_t>(denominator);
    return result;
  }

  std::int64_t numerator_ = 0;
  std::int64_t denominator_ = 1;
};

inline double to_double(const Rational& value) {
  return static_cast<double>(value.numerator()) / static_cast<double>(value.denominator());
}

inline std::string to_text(const Rational& value) {
  const std::string numerator = std::to_string(value.numerator());
  return value.denominator() == 1 ? numerator : numerator + "/" + std::to_string(value.denominator());
}

}  // namespace sccl::treegen
