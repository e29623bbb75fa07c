// Integer division by multiplication with the reciprocal, where a reciprocal of 64 bits is exact enough.
#include "kernels/host/reduce/reduce_divide.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace sccl::kernels {
namespace {

// n / divisor for n < 2^32: with m = ceil(2^64 / divisor) the error of n * m / 2^64 is below n / 2^64 < 1 / divisor,
// too small to reach the next integer.
class Reciprocal {
 public:
  explicit Reciprocal(std::uint32_t divisor) : multiplier_(~std::uint64_t{0} / divisor + 1) {}
  std::uint32_t quotient(std::uint32_t n) const {
    return static_cast<std::uint32_t>((static_cast<unsigned __int128>(multiplier_) * n) >> 64);
  }

 private:
  std::uint64_t multiplier_;
};

template <class T>
T quotient(T value, Reciprocal reciprocal, std::uint32_t divisor) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(value / static_cast<T>(divisor));
  } else if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(reciprocal.quotient(value));
  } else {
    const std::uint32_t magnitude = value < 0 ? -static_cast<std::uint32_t>(value) : static_cast<std::uint32_t>(value);
    const std::uint32_t result = reciprocal.quotient(magnitude);
    return static_cast<T>(value < 0 ? -result : result);
  }
}

template <class T>
void divide_elements(void* data, std::size_t elements, std::uint32_t divisor) {
  const Reciprocal reciprocal(divisor);
  auto* bytes = static_cast<unsigned char*>(data);
  for (std::size_t i = 0; i < elements; ++i, bytes += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    value = quotient(value, reciprocal, divisor);
    std::memcpy(bytes, &value, sizeof(T));
  }
}

}  // namespace

void divide(DataType type, void* data, std::size_t elements, std::uint32_t divisor) {
  switch (type) {
    case DataType::int8:
      return divide_elements<std::int8_t>(data, elements, divisor);
    case DataType::uint8:
      return divide_elements<std::uint8_t>(data, elements, divisor);
    case DataType::int32:
      return divide_elements<std::int32_t>(data, elements, divisor);
    case DataType::uint32:
      return divide_elements<std::uint32_t>(data, elements, divisor);
    case DataType::int64:
      return divide_elements<std::int64_t>(data, elements, divisor);
    case DataType::uint64:
      return divide_elements<std::uint64_t>(data, elements, divisor);
    default:
      fail(ErrorCode::internal_error, "type {} is not divided as an integer (divide): scale it instead",
           static_cast<int>(type));
  }
}

}  // namespace sccl::kernels
