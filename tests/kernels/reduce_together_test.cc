// Work past the caches, and several works at once.
#include <catch2/catch.hpp>
#include <deque>
#include <random>
#include <vector>

#include "kernels/host/reduce/reduce_copy.h"
#include "kernels/reduce_buffers.h"

using namespace sccl;
using namespace sccl::kernels;
using namespace sccl::test;

TEST_CASE("what is written past the caches arrives like the rest, wherever destinations lie and for every type") {
  constexpr std::size_t kElements = 20'011;  // of every type more than a piece, and a rest
  std::mt19937_64 random(kSeed);
  struct Offsets {
    std::size_t of[3];
  };
  for (DataType type : kTypes) {
    const auto a = random_elements(type, kElements, random);
    const auto b = random_elements(type, kElements, random);
    const auto sum = reduced(type, ReduceKernel::sum, {a, b});
    Buffer first(type, packed(type, a), kElements, 1), second(type, packed(type, b), kElements);
    const Operand operands[] = {{first.data(), 0}, {second.data(), 0}};
    for (const Offsets& offsets : {Offsets{{0, 0, 0}}, Offsets{{3, 3, 3}}, Offsets{{1, 0, 5}}, Offsets{{0, 0, 2}}})
      for (const int count : {1, 2, 3})
        for (const std::uint32_t streamed : {1u, 2u, 7u})
          for (const int sources : {1, 2}) {
            INFO(info(type).name << ", " << sources << " to " << count << " destinations, mask " << streamed
                                 << ", offsets " << offsets.of[0] << " " << offsets.of[1] << " " << offsets.of[2]);
            std::vector<Buffer> results;
            for (const std::size_t offset : offsets.of) results.emplace_back(type, kElements, offset);
            void* destinations[] = {results[0].data(), results[1].data(), results[2].data()};
            reduce_copy(
                {type, ReduceKernel::sum, operands, sources, false, 1, destinations, count, kElements, streamed});
            for (int i = 0; i < 3; ++i) {
              if (i < count) CHECK(difference(type, results[i], sources == 1 ? a : sum, kElements) == "");
              CHECK(results[i].guards_are_untouched());
            }
          }
  }
}

TEST_CASE("any number of operands and destinations may lie differently and be written past the caches") {
  constexpr std::size_t kElements = 5'003;
  constexpr int kMany = 40;
  std::mt19937_64 random(kSeed);
  std::vector<std::vector<ref::Bits>> inputs;
  std::vector<Buffer> sources, results;
  for (int i = 0; i < kMany; ++i) {
    inputs.push_back(random_elements(DataType::int32, kElements, random));
    sources.emplace_back(DataType::int32, packed(DataType::int32, inputs.back()), kElements, i % 3);
    results.emplace_back(DataType::int32, kElements, i % 5);
  }
  std::vector<Operand> operands;
  std::vector<void*> destinations;
  for (Buffer& source : sources) operands.push_back({source.data(), 0});
  for (Buffer& result : results) destinations.push_back(result.data());
  const auto sum = reduced(DataType::int32, ReduceKernel::sum, inputs);
  reduce_copy({DataType::int32, ReduceKernel::sum, operands.data(), kMany, false, 1, destinations.data(), kMany,
               kElements, ~0u});
  for (const Buffer& result : results) {
    CHECK(difference(DataType::int32, result, sum, kElements) == "");
    CHECK(result.guards_are_untouched());
  }
}

TEST_CASE("sums past the caches into places that lie differently may replace an operand") {
  constexpr std::size_t kElements = 20'011;
  std::mt19937_64 random(kSeed);
  const auto a = random_elements(DataType::float32, kElements, random);
  const auto b = random_elements(DataType::float32, kElements, random);
  const auto sum = reduced(DataType::float32, ReduceKernel::sum, {a, b});
  Buffer mine(DataType::float32, packed(DataType::float32, a), kElements, 3),
      theirs(DataType::float32, packed(DataType::float32, b), kElements), slot(DataType::float32, kElements);
  const Operand operands[] = {{mine.data(), 0}, {theirs.data(), 0}};
  void* destinations[] = {mine.data(), slot.data()};
  reduce_copy({DataType::float32, ReduceKernel::sum, operands, 2, false, 1, destinations, 2, kElements, 1});
  CHECK(difference(DataType::float32, mine, sum, kElements) == "");
  CHECK(difference(DataType::float32, slot, sum, kElements) == "");
}

TEST_CASE("works together give what they give one by one, wherever they lie") {
  constexpr std::size_t kElements = 5'011;
  std::mt19937_64 random(kSeed);
  struct Shape {
    int sources, destinations;
    std::size_t elements;
  };
  const Shape sum{2, 1, kElements}, to_two{1, 2, kElements}, one{1, 1, kElements}, shorter{1, 1, 4'003},
      wide{3, 2, kElements}, none{1, 1, 0}, to_many{1, 9, 500};
  const std::vector<std::vector<Shape>> groups = {{sum, one},
                                                  {one, sum},
                                                  {to_two, one},
                                                  {one, to_two},
                                                  {one, one},
                                                  {sum, sum},
                                                  {one, one, to_two, sum},
                                                  {shorter, wide, one},
                                                  {none, sum, one},
                                                  {to_many, to_many, one},
                                                  {one},
                                                  {}};
  for (DataType type : kTypes)
    for (const auto& group : groups)
      for (const std::size_t offset : {0, 1, 5})
        for (const std::uint32_t streamed : {0u, 1u, 2u, 3u}) {
          INFO(info(type).name << ", group " << &group - groups.data() << ", offset " << offset << ", mask "
                               << streamed);
          std::deque<Buffer> sources, results, alone;
          std::deque<std::vector<Operand>> operands;
          std::deque<std::vector<void*>> destinations;
          std::vector<ReduceCopy> works;
          for (const Shape& shape : group) {
            operands.emplace_back();
            destinations.emplace_back();
            std::vector<void*> places;
            for (int i = 0; i < shape.sources; ++i) {
              const auto elements = random_elements(type, shape.elements, random);
              sources.emplace_back(type, packed(type, elements), shape.elements, i);
              operands.back().push_back({sources.back().data(), 0});
            }
            for (int i = 0; i < shape.destinations; ++i) {
              results.emplace_back(type, shape.elements, offset * static_cast<std::size_t>(i + 1));
              alone.emplace_back(type, shape.elements);
              destinations.back().push_back(results.back().data());
              places.push_back(alone.back().data());
            }
            ReduceCopy work{type, ReduceKernel::sum,          operands.back().data(), shape.sources,  false,
                            1,    destinations.back().data(), shape.destinations,     shape.elements, streamed};
            works.push_back(work);
            work.destinations = places.data();
            work.streamed = 0;
            reduce_copy(work);
          }
          reduce_copy_together(works);
          std::size_t at = 0;
          for (const Shape& shape : group)
            for (int i = 0; i < shape.destinations; ++i, ++at) {
              std::vector<ref::Bits> expected;
              for (std::size_t k = 0; k < shape.elements; ++k) expected.push_back(alone[at][k]);
              CHECK(difference(type, results[at], expected, shape.elements) == "");
            }
        }
}

TEST_CASE("integer averages and copies in place may be among works together") {
  constexpr std::size_t kElements = 3'001;
  std::mt19937_64 random(kSeed);
  const auto a = random_elements(DataType::int32, kElements, random);
  const auto b = random_elements(DataType::int32, kElements, random);
  Buffer first(DataType::int32, packed(DataType::int32, a), kElements),
      second(DataType::int32, packed(DataType::int32, b), kElements), average(DataType::int32, kElements, 3),
      expected(DataType::int32, kElements), copied(DataType::int32, kElements, 1);
  const Operand operands[] = {{first.data(), 0}, {second.data(), 0}};
  void* const averages[] = {average.data()};
  void* const in_place[] = {first.data(), copied.data()};
  void* const reference[] = {expected.data()};
  const ReduceCopy division{DataType::int32, ReduceKernel::sum, operands, 2, false, 2, averages, 1, kElements, 1};
  ReduceCopy by_itself = division;
  by_itself.destinations = reference;
  reduce_copy(by_itself);
  const ReduceCopy works[] = {division,
                              {DataType::int32, ReduceKernel::sum, operands, 1, false, 1, in_place, 2, kElements, 2}};
  reduce_copy_together(works);
  for (std::size_t i = 0; i < kElements; ++i) {
    REQUIRE(average[i] == expected[i]);
    REQUIRE(copied[i] == a[i]);
    REQUIRE(first[i] == a[i]);
  }
}
