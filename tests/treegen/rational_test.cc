// Exact fractions.
#include "treegen/math/rational.h"

#include <catch2/catch.hpp>

using namespace sccl;
using namespace sccl::treegen;

TEST_CASE("fractions are kept in lowest terms with a positive denominator") {
  CHECK(Rational(6, -4) == Rational(-3, 2));
  CHECK(Rational(6, -4).denominator() == 2);
  CHECK(Rational(0, 5) == 0);
  CHECK(to_text(Rational(24, 7)) == "24/7");
  CHECK(to_text(Rational(14, 7)) == "2");
}

TEST_CASE("sums of thirds and sevenths have no rounding") {
  Rational sum;
  for (int i = 0; i < 21; ++i) sum += i % 2 == 0 ? Rational(1, 3) : Rational(1, 7);
  CHECK(sum == Rational(11, 3) + Rational(10, 7));
  CHECK(sum > 5);
  CHECK(Rational(1, 3) < Rational(34, 100));
  CHECK(Rational(5, 3) / Rational(10, 9) == Rational(3, 2));
}

TEST_CASE("a fraction that leaves 64 bits is an error, never a wrong number") {
  const Rational large(std::int64_t{1} << 62);
  CHECK_THROWS_AS(large + large, Error);
  CHECK_THROWS_AS(Rational(1, std::int64_t{1} << 40) * Rational(1, (std::int64_t{1} << 40) - 1), Error);
  CHECK_THROWS_AS(Rational(1) / Rational(0), Error);
}
