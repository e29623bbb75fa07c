// Factors of averages, rounded once from the exact ratio to the element type, with integer arithmetic only.
#include <bit>

#include "base/error.h"
#include "base/types.h"
#include "kernels/host/reduce/reduce_copy.h"
#include "kernels/host/vectors/element_formats.h"

namespace sccl::kernels {
namespace {

// 1 / divisor: the largest power of two below or equal to it, times a significand of kMantissaBits + 1 bits (fewer
// where the result is subnormal). Rounding up carries into the exponent.
template <class Element>
std::uint64_t reciprocal_of(std::uint64_t divisor) {
  using F = Format<Element>;
  const int exponent = -std::bit_width(divisor - 1);  // 2^exponent <= 1 / divisor < 2^(exponent + 1)
  const int smallest = 1 - F::kBias;
  const int unit = (exponent < smallest ? smallest : exponent) - F::kMantissaBits;  // 2^unit is the last place
  const auto one = static_cast<unsigned __int128>(1) << -unit;
  const auto floor = static_cast<std::uint64_t>(one / divisor);
  const auto twice_rest = 2 * static_cast<std::uint64_t>(one % divisor);
  const bool up = twice_rest > divisor || (twice_rest == divisor && floor % 2 == 1);
  const int binade = exponent < smallest ? 0 : exponent - smallest;
  return (static_cast<std::uint64_t>(binade) << F::kMantissaBits) + floor + (up ? 1 : 0);
}

}  // namespace

std::uint64_t reciprocal_bits(DataType type, int divisor) {
  if (divisor < 1) {
    fail(ErrorCode::internal_error, "no factor 1/{} exists (reciprocal_bits): divide by the number of ranks", divisor);
  }
  if (divisor == 1) return one_bits(type);
  const auto d = static_cast<std::uint64_t>(divisor);
  switch (type) {
    case DataType::float16:
      return reciprocal_of<Float16>(d);
    case DataType::bfloat16:
      return reciprocal_of<BFloat16>(d);
    case DataType::float32:
      return reciprocal_of<float>(d);
    case DataType::float64:
      return reciprocal_of<double>(d);
    case DataType::float8e4m3:
      return reciprocal_of<Float8E4M3>(d);
    case DataType::float8e5m2:
      return reciprocal_of<Float8E5M2>(d);
    default:
      fail(ErrorCode::internal_error,
           "1/{} is no value of integer type {} (reciprocal_bits): set the divisor of the reduction instead", divisor,
           info(type).name);
  }
}

std::uint64_t one_bits(DataType type) {
  switch (type) {
    case DataType::float16:
      return reciprocal_of<Float16>(1);
    case DataType::bfloat16:
      return reciprocal_of<BFloat16>(1);
    case DataType::float32:
      return reciprocal_of<float>(1);
    case DataType::float64:
      return reciprocal_of<double>(1);
    case DataType::float8e4m3:
      return reciprocal_of<Float8E4M3>(1);
    case DataType::float8e5m2:
      return reciprocal_of<Float8E5M2>(1);
    default:
      return 1;
  }
}

}  // namespace sccl::kernels
