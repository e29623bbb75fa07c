// Values as bytes, and back. What is taken was often written by another process: nothing is read past its end.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace sccl {

template <typename T>
void append_values(std::vector<std::byte>& to, const T* values, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  // Not by insert(), of which g++ 12 warns where the vector is new.
  const std::size_t before = to.size();
  to.resize(before + count * sizeof(T));
  if (count > 0) std::memcpy(to.data() + before, values, count * sizeof(T));
}

// Takes values from the front. False, and nothing is taken, if there are too few bytes.
template <typename T>
[[nodiscard]] bool take_values(std::span<const std::byte>& from, T* values, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (count > from.size() / sizeof(T)) return false;
  if (count > 0) std::memcpy(static_cast<void*>(values), from.data(), count * sizeof(T));
  from = from.subspan(count * sizeof(T));
  return true;
}
template <typename T>
[[nodiscard]] bool take_value(std::span<const std::byte>& from, T& value) {
  return take_values(from, &value, 1);
}
// The same for bytes that stay where they are.
[[nodiscard]] inline bool take_bytes(std::span<const std::byte>& from, std::size_t count,
                                     std::span<const std::byte>& bytes) {
  if (count > from.size()) return false;
  bytes = from.first(count);
  from = from.subspan(count);
  return true;
}

}  // namespace sccl
