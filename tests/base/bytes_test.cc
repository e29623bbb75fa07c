// Values as bytes, and back.
#include "base/bytes.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

using sccl::append_values;
using sccl::take_bytes;
using sccl::take_value;
using sccl::take_values;

namespace {

std::vector<std::byte> five_numbers() {
  const std::array<std::uint32_t, 5> numbers{1, 2, 3, 4, 5};
  std::vector<std::byte> bytes;
  append_values(bytes, numbers.data(), numbers.size());
  return bytes;
}

}  // namespace

TEST_CASE("values are taken as they were appended") {
  const auto bytes = five_numbers();
  std::span<const std::byte> rest(bytes);
  std::uint32_t first = 0;
  std::array<std::uint32_t, 3> next{};
  std::span<const std::byte> last;
  REQUIRE(take_value(rest, first));
  REQUIRE(take_values(rest, next.data(), next.size()));
  REQUIRE(take_bytes(rest, sizeof first, last));
  CHECK(first == 1);
  CHECK(next == std::array<std::uint32_t, 3>{2, 3, 4});
  CHECK(last.data() == bytes.data() + 4 * sizeof first);
  CHECK(rest.empty());
}

TEST_CASE("what is longer than the rest is not taken, however long, and the rest stays") {
  const auto bytes = five_numbers();
  std::span<const std::byte> rest = std::span(bytes).first(bytes.size() - 1);
  std::array<std::uint32_t, 5> numbers{};
  std::span<const std::byte> in_place;
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t count : {std::size_t{5}, kMost / sizeof(std::uint32_t) + 2, kMost})
    CHECK_FALSE(take_values(rest, numbers.data(), count));
  CHECK_FALSE(take_bytes(rest, bytes.size(), in_place));
  CHECK(numbers == std::array<std::uint32_t, 5>{});
  CHECK(rest.size() == bytes.size() - 1);
  CHECK(take_values(rest, numbers.data(), 4));
  CHECK(take_values(rest, numbers.data(), 0));
  CHECK(numbers.back() == 0);
}
