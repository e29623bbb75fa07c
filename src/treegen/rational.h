// Exact numbers for rates and weights: sums are compared with ==, never with a tolerance.
#pragma once

#include <boost/rational.hpp>
#include <cstdint>
#include <string>

namespace sccl::treegen {

using Rational = boost::rational<std::int64_t>;

inline double to_double(const Rational& value) {
  return static_cast<double>(value.numerator()) / static_cast<double>(value.denominator());
}

inline std::string to_text(const Rational& value) {
  const std::string numerator = std::to_string(value.numerator());
  return value.denominator() == 1 ? numerator : numerator + "/" + std::to_string(value.denominator());
}

}  // namespace sccl::treegen
