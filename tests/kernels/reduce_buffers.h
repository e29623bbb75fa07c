// Elements in buffers with guards, and what reductions of them must give.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/reduce_reference.h"

namespace sccl::test {

namespace ref = sccl::reference;

inline constexpr DataType kTypes[] = {DataType::int8,     DataType::uint8,      DataType::int32,
                                      DataType::uint32,   DataType::int64,      DataType::uint64,
                                      DataType::float16,  DataType::float32,    DataType::float64,
                                      DataType::bfloat16, DataType::float8e4m3, DataType::float8e5m2};
inline constexpr ReduceKernel kKernels[] = {ReduceKernel::sum, ReduceKernel::prod, ReduceKernel::max,
                                            ReduceKernel::min};
inline constexpr std::size_t kGuardBytes = 64;
inline constexpr unsigned char kGuard = 0xa5;
inline constexpr std::uint64_t kSeed = 20240229;

// Elements as they lie in memory.
using Bytes = std::vector<unsigned char>;

inline Bytes packed(DataType type, const std::vector<ref::Bits>& elements) {
  const std::size_t size = size_bytes(type);
  Bytes bytes(elements.size() * size);
  for (std::size_t i = 0; i < elements.size(); ++i) std::memcpy(&bytes[i * size], &elements[i], size);
  return bytes;
}

// Elements between guard bytes, `offset` elements after a 64-byte boundary.
class Buffer {
 public:
  Buffer(DataType type, std::size_t elements, std::size_t offset = 0)
      : size_(size_bytes(type)),
        elements_(elements),
        storage_(2 * kGuardBytes + 64 + (elements + offset) * size_, kGuard) {
    const auto base = reinterpret_cast<std::uintptr_t>(storage_.data());
    begin_ = kGuardBytes + (64 - base % 64) % 64 + offset * size_;
  }
  Buffer(DataType type, const Bytes& bytes, std::size_t elements, std::size_t offset = 0)
      : Buffer(type, elements, offset) {
    if (elements > 0) std::memcpy(data(), bytes.data(), elements * size_);
  }
  Buffer(Buffer&&) = default;
  Buffer(const Buffer&) = delete;

  void* data() { return storage_.data() + begin_; }
  ref::Bits operator[](std::size_t i) const {
    ref::Bits bits = 0;
    std::memcpy(&bits, storage_.data() + begin_ + i * size_, size_);
    return bits;
  }
  bool holds(const Bytes& bytes) const {
    return elements_ == 0 || std::memcmp(storage_.data() + begin_, bytes.data(), elements_ * size_) == 0;
  }
  bool guards_are_untouched() const {
    const Bytes guard(begin_ + kGuardBytes + 64, kGuard);
    const std::size_t end = begin_ + elements_ * size_;
    return std::memcmp(storage_.data(), guard.data(), begin_) == 0 &&
           std::memcmp(storage_.data() + end, guard.data(), storage_.size() - end) == 0;
  }

 private:
  std::size_t size_, elements_;
  Bytes storage_;
  std::size_t begin_;
};

// NaNs are equal to each other.
inline bool same(DataType type, ref::Bits a, ref::Bits b) {
  return a == b || (ref::is_nan(type, a) && ref::is_nan(type, b));
}

// Empty if the first elements are as expected and nothing else was written.
inline std::string difference(DataType type, const Buffer& got, const std::vector<ref::Bits>& expected,
                              std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!same(type, got[i], expected[i])) {
      return fmt::format("{}[{}] is {:#x}, not {:#x}", info(type).name, i, got[i], expected[i]);
    }
  }
  return got.guards_are_untouched() ? "" : "bytes outside the elements were written";
}

inline std::vector<ref::Bits> reduced(DataType type, ReduceKernel kernel,
                                      const std::vector<std::vector<ref::Bits>>& operands) {
  std::vector<ref::Bits> result;
  for (std::size_t i = 0; i < operands[0].size(); ++i) {
    ref::Accumulator accumulator(type, kernel, operands[0][i]);
    for (std::size_t k = 1; k < operands.size(); ++k) accumulator.add(operands[k][i]);
    result.push_back(accumulator.result());
  }
  return result;
}

// Half of them any bits, half numbers around one, whose sums and products stay numbers.
inline std::vector<ref::Bits> random_elements(DataType type, std::size_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<double> around_one(-2, 2);
  std::vector<ref::Bits> elements;
  for (std::size_t i = 0; i < count; ++i) {
    const bool tame = info(type).floating && i % 2 == 0;
    elements.push_back(tame ? ref::rounded(type, around_one(random)) : random() & ref::low_bits(ref::width(type)));
  }
  return elements;
}

}  // namespace sccl::test
