#include "kernels/host/reduce/reduce_copy.h"

#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/host/reduce/reduce_loops.h"
#include "kernels/host/vectors/instruction_set.h"
#include "kernels/reduce_buffers.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace sccl;
using namespace sccl::kernels;
using namespace sccl::test;

namespace {

// The rest of the test program keeps the best instructions.
class ChosenSet {
 public:
  explicit ChosenSet(InstructionSet set) { use_instruction_set(set); }
  ~ChosenSet() { use_instruction_set(available_instruction_sets().front()); }
};

std::vector<ref::Bits> all_elements(DataType type) {
  std::vector<ref::Bits> elements;
  for (ref::Bits bits = 0; bits <= ref::low_bits(ref::width(type)); ++bits) elements.push_back(bits);
  return elements;
}

// One call of two operands into a third place.
std::string pair_difference(DataType type, ReduceKernel kernel, const std::vector<ref::Bits>& a,
                            const std::vector<ref::Bits>& b, const std::vector<ref::Bits>& expected) {
  Buffer first(type, packed(type, a), a.size()), second(type, packed(type, b), b.size()), to(type, a.size());
  const Operand operands[] = {{first.data(), 0}, {second.data(), 0}};
  void* destination = to.data();
  reduce_copy({type, kernel, operands, 2, false, 1, &destination, 1, a.size()});
  return difference(type, to, expected, a.size());
}

std::string scale_difference(DataType type, const std::vector<ref::Bits>& a, ref::Bits factor,
                             const std::vector<ref::Bits>& expected) {
  Buffer first(type, packed(type, a), a.size()), to(type, a.size());
  const Operand operand{first.data(), factor};
  void* destination = to.data();
  reduce_copy({type, ReduceKernel::sum, &operand, 1, true, 1, &destination, 1, a.size()});
  return difference(type, to, expected, a.size());
}

// A request with everything that can vary.
struct Case {
  DataType type;
  ReduceKernel kernel;
  bool scaled;
  std::size_t elements;
  std::size_t offset;  // in elements, from a 64-byte boundary
  int operands;
  int destinations;
  std::optional<int> in_place;  // the operand that is the first destination
};

std::string to_string(const Case& c) {
  return fmt::format("{} kernel {} scaled {}: {} elements at {}, {} operands, {} destinations, in place {}",
                     info(c.type).name, static_cast<int>(c.kernel), c.scaled, c.elements, c.offset, c.operands,
                     c.destinations, c.in_place.value_or(-1));
}

// What a set of cases works on: the operands, their factors and the results.
struct Data {
  std::vector<Bytes> operands;
  std::vector<ref::Bits> factors;
  std::vector<ref::Bits> expected;
  Bytes expected_bytes;
};

std::string case_difference(const Case& c, const Data& data) {
  std::vector<Buffer> sources, sinks;
  std::vector<Operand> operands;
  std::vector<void*> destinations;
  for (int k = 0; k < c.operands; ++k) {
    sources.emplace_back(c.type, data.operands[k], c.elements, (c.offset + k) % 5);
    operands.push_back({sources.back().data(), data.factors[k]});
  }
  for (int i = 0; i < c.destinations; ++i) {
    sinks.emplace_back(c.type, c.elements, c.offset + i);
    const bool is_operand = i == 0 && c.in_place;
    destinations.push_back(is_operand ? sources[*c.in_place].data() : sinks.back().data());
  }
  reduce_copy(
      {c.type, c.kernel, operands.data(), c.operands, c.scaled, 1, destinations.data(), c.destinations, c.elements});
  for (int i = 0; i < c.destinations; ++i) {
    const Buffer& written = i == 0 && c.in_place ? sources[*c.in_place] : sinks[i];
    if (written.holds(data.expected_bytes) && written.guards_are_untouched()) continue;
    const std::string found = difference(c.type, written, data.expected, c.elements);
    if (!found.empty()) return to_string(c) + ": " + found;
  }
  for (int k = 0; k < c.operands; ++k) {
    if (c.destinations > 0 && c.in_place == k) continue;
    const bool unchanged = sources[k].holds(data.operands[k]) && sources[k].guards_are_untouched();
    if (!unchanged) return to_string(c) + ": an operand was changed";
  }
  return "";
}

std::vector<Case> shapes(DataType type, ReduceKernel kernel, bool scaled, int operands, std::size_t most_elements) {
  std::vector<Case> cases;
  for (std::size_t elements = 0; elements <= 70; elements += operands > 8 ? 5 : 1) {
    const int destinations = static_cast<int>(elements % 6);
    cases.push_back({type, kernel, scaled, elements, elements % 3, operands, destinations, {}});
    cases.push_back({type, kernel, scaled, elements, 1, operands, 1, static_cast<int>(elements) % operands});
  }
  for (int destinations = 0; destinations <= 5; ++destinations) {
    cases.push_back({type, kernel, scaled, most_elements, 1, operands, destinations, {}});
  }
  for (int k = 0; k<operands; k += operands> 8 ? 9 : 1) {
    cases.push_back({type, kernel, scaled, 67, 1, operands, 1, k});
    cases.push_back({type, kernel, scaled, 131, 0, operands, 3, k});
  }
  cases.push_back({type, kernel, scaled, most_elements, 0, operands, 1, 0});
  return cases;
}

// Every shape of request for one type, kernel and scaling, with every set of instructions.
std::string shapes_difference(DataType type, ReduceKernel kernel, bool scaled, std::uint64_t seed) {
  for (int count : {1, 2, 3, 5, 8, 64}) {
    const std::size_t most_elements = count > 8 ? 150 : 1000;
    std::mt19937_64 random(seed);
    Data data;
    data.factors = random_elements(type, static_cast<std::size_t>(count), random);
    std::vector<std::vector<ref::Bits>> entering;
    for (int k = 0; k < count; ++k) {
      entering.push_back(random_elements(type, most_elements, random));
      data.operands.push_back(packed(type, entering.back()));
      if (!scaled) continue;
      for (auto& element : entering.back()) element = ref::scaled(type, element, data.factors[k]);
    }
    data.expected = reduced(type, kernel, entering);
    data.expected_bytes = packed(type, data.expected);
    for (InstructionSet set : available_instruction_sets()) {
      const ChosenSet chosen(set);
      for (const Case& c : shapes(type, kernel, scaled, count, most_elements)) {
        const std::string found = case_difference(c, data);
        if (!found.empty()) return fmt::format("{} instructions: {}", name(set), found);
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("every shape of reduction gives the reference's elements and touches nothing else") {
  INFO("seed " << kSeed);
  for (DataType type : kTypes) {
    for (ReduceKernel kernel : kKernels) {
      CHECK(shapes_difference(type, kernel, false, kSeed) == "");
      CHECK(shapes_difference(type, kernel, true, kSeed + 1) == "");
    }
  }
}

TEST_CASE("all pairs of fp8 numbers reduce to the nearest fp8 number of the exact result") {
  for (DataType type : {DataType::float8e4m3, DataType::float8e5m2}) {
    std::vector<ref::Bits> a, b;
    for (ref::Bits x = 0; x < 256; ++x) {
      for (ref::Bits y = 0; y < 256; ++y) {
        a.push_back(x);
        b.push_back(y);
      }
    }
    for (ReduceKernel kernel : kKernels) {
      const auto expected = reduced(type, kernel, {a, b});
      for (InstructionSet set : available_instruction_sets()) {
        const ChosenSet chosen(set);
        INFO(name(set) << " instructions, kernel " << static_cast<int>(kernel));
        CHECK(pair_difference(type, kernel, a, b, expected) == "");
      }
    }
  }
}

TEST_CASE("every fp8 number is scaled by every fp8 factor with one rounding") {
  for (DataType type : {DataType::float8e4m3, DataType::float8e5m2}) {
    const auto a = all_elements(type);
    for (ref::Bits factor = 0; factor < 256; ++factor) {
      std::vector<ref::Bits> expected;
      for (ref::Bits element : a) expected.push_back(ref::scaled(type, element, factor));
      for (InstructionSet set : available_instruction_sets()) {
        const ChosenSet chosen(set);
        INFO(name(set) << " instructions, factor " << factor);
        REQUIRE(scale_difference(type, a, factor, expected) == "");
      }
    }
  }
}

TEST_CASE("all float16 and bfloat16 numbers reduce with typical and extreme partners") {
  std::mt19937_64 random(kSeed);
  INFO("seed " << kSeed);
  for (DataType type : {DataType::float16, DataType::bfloat16}) {
    const auto a = all_elements(type);
    std::vector<ref::Bits> partners;
    for (double v : {0.0, -0.0, 1.0, -1.0, 1.0 / 3, 0.5, 1e-6, -3e-8, 6e-5, 1000.0, 65504.0, 3e38}) {
      partners.push_back(ref::rounded(type, v));
    }
    for (ref::Bits special : {0x0001, 0x8001, 0x7c00, 0xfc00, 0x7f80, 0xff80, 0x7fff}) partners.push_back(special);
    for (ref::Bits partner : partners) {
      const std::vector<ref::Bits> b(a.size(), partner);
      for (ReduceKernel kernel : kKernels) {
        const auto expected = reduced(type, kernel, {a, b});
        for (InstructionSet set : available_instruction_sets()) {
          const ChosenSet chosen(set);
          INFO(name(set) << " instructions, kernel " << static_cast<int>(kernel) << ", partner " << partner);
          CHECK(pair_difference(type, kernel, a, b, expected) == "");
        }
      }
    }
    std::vector<ref::Bits> b;
    for (std::size_t i = 0; i < a.size(); ++i) b.push_back(random() & 0xffff);
    for (ReduceKernel kernel : kKernels) {
      const auto expected = reduced(type, kernel, {a, b});
      for (InstructionSet set : available_instruction_sets()) {
        const ChosenSet chosen(set);
        INFO(name(set) << " instructions, kernel " << static_cast<int>(kernel) << ", random partners");
        CHECK(pair_difference(type, kernel, a, b, expected) == "");
      }
    }
  }
}

TEST_CASE("all float16 and bfloat16 numbers survive copies bit for bit and scaling by one as numbers") {
  for (DataType type : {DataType::float16, DataType::bfloat16}) {
    const auto a = all_elements(type);
    Buffer from(type, packed(type, a), a.size()), to(type, a.size());
    const Operand operand{from.data(), 0};
    void* destination = to.data();
    reduce_copy({type, ReduceKernel::sum, &operand, 1, false, 1, &destination, 1, a.size()});
    CHECK(std::memcmp(from.data(), to.data(), 2 * a.size()) == 0);
    for (InstructionSet set : available_instruction_sets()) {
      const ChosenSet chosen(set);
      INFO(name(set) << " instructions");
      CHECK(scale_difference(type, a, one_bits(type), a) == "");
    }
  }
}

TEST_CASE("maxima and minima of floats ignore NaN, order zeros and do not depend on the operands' order") {
  for (DataType type : kTypes) {
    if (!info(type).floating) continue;
    const double infinity = std::numeric_limits<double>::infinity();
    std::vector<ref::Bits> special{1, 2, ref::low_bits(ref::width(type)), ref::low_bits(ref::width(type) - 1)};
    for (double v : {0.0, -0.0, 1.0, -1.0, 2.0, -2.0, infinity, -infinity}) special.push_back(ref::rounded(type, v));
    std::vector<ref::Bits> a, b;
    for (ref::Bits x : special) {
      for (ref::Bits y : special) {
        a.push_back(x);
        b.push_back(y);
      }
    }
    for (ReduceKernel kernel : {ReduceKernel::max, ReduceKernel::min}) {
      const auto expected = reduced(type, kernel, {a, b});
      for (InstructionSet set : available_instruction_sets()) {
        const ChosenSet chosen(set);
        INFO(name(set) << " instructions");
        CHECK(pair_difference(type, kernel, a, b, expected) == "");
        CHECK(pair_difference(type, kernel, b, a, expected) == "");
      }
    }
  }
}

TEST_CASE("several operands in one call give the bits of one call for each, payloads of NaN included, where said so") {
  constexpr std::size_t kElements = 150;
  std::mt19937_64 random(kSeed);
  for (DataType type : kTypes) {
    std::vector<Bytes> given;
    for (int k = 0; k < 4; ++k) {
      auto elements = random_elements(type, kElements, random);
      // Every third one is NaN or infinite in floats.
      if (info(type).floating)
        for (std::size_t i = 0; i < kElements; i += 3)
          elements[i] |= ref::rounded(type, std::numeric_limits<double>::infinity());
      given.push_back(packed(type, elements));
    }
    for (ReduceKernel kernel : kKernels) {
      const int operands = rounds_at_each_operand(type, kernel) ? 4 : 2;
      for (InstructionSet set : available_instruction_sets()) {
        const ChosenSet chosen(set);
        for (std::uint32_t reversed = 0; reversed < 1u << operands; reversed += 2) {
          std::vector<Buffer> sources;
          for (const Bytes& bytes : given) sources.emplace_back(type, bytes, kElements);
          Buffer one_by_one(type, given[0], kElements), at_once(type, kElements);
          std::vector<Operand> all{{sources[0].data(), 0}};
          void* to = one_by_one.data();
          for (std::size_t k = 1; k < static_cast<std::size_t>(operands); ++k) {
            all.push_back({sources[k].data(), 0});
            const Operand sum{to, 0};
            const bool is_reversed = (reversed >> k & 1) != 0;
            const Operand pair[] = {is_reversed ? all[k] : sum, is_reversed ? sum : all[k]};
            reduce_copy({type, kernel, pair, 2, false, 1, &to, 1, kElements, 0, kInOrder});
          }
          to = at_once.data();
          reduce_copy({type, kernel, all.data(), operands, false, 1, &to, 1, kElements, 0, kInOrder | reversed});
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < kElements; ++i) wrong += at_once[i] != one_by_one[i] ? 1 : 0;
          INFO(info(type).name << " kernel " << static_cast<int>(kernel) << ", " << name(set) << ", " << reversed);
          CHECK(wrong == 0);
        }
      }
    }
  }
  for (DataType type : {DataType::float16, DataType::bfloat16, DataType::float8e4m3, DataType::float8e5m2}) {
    CHECK_FALSE(rounds_at_each_operand(type, ReduceKernel::sum));
    CHECK(rounds_at_each_operand(type, ReduceKernel::max));
  }
}

TEST_CASE("integer averages truncate towards zero in every destination") {
  for (DataType type : kTypes) {
    if (info(type).floating) continue;
    std::mt19937_64 random(kSeed);
    const ref::Bits sign = ref::Bits{1} << (ref::width(type) - 1);
    std::vector<ref::Bits> a{0, 1, 2, 3, sign, sign + 1, sign - 1, ref::low_bits(ref::width(type))};
    for (int i = 0; i < 300; ++i) a.push_back(random() & ref::low_bits(ref::width(type)));
    const std::vector<ref::Bits> zeros(a.size(), 0);
    for (std::uint32_t divisor : {2u, 3u, 7u, 10u, 255u, 256u, 65537u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      std::vector<ref::Bits> expected;
      for (ref::Bits element : a) {
        const bool is_signed = ref::is_signed_integer(type);
        const ref::Bits quotient = is_signed
                                       ? static_cast<ref::Bits>(ref::extended(type, element) / std::int64_t{divisor})
                                       : element / divisor;
        expected.push_back(quotient & ref::low_bits(ref::width(type)));
      }
      for (int operands : {1, 2, 3}) {
        Buffer first(type, packed(type, a), a.size(), 1), zero(type, packed(type, zeros), a.size()),
            second(type, a.size()), third(type, a.size(), 3);
        const Operand all[] = {{first.data(), 0}, {zero.data(), 0}, {zero.data(), 0}};
        void* destinations[] = {first.data(), second.data(), third.data()};
        reduce_copy({type, ReduceKernel::sum, all, operands, false, divisor, destinations, 3, a.size()});
        INFO("divisor " << divisor << ", operands " << operands);
        CHECK(difference(type, first, expected, a.size()) == "");
        CHECK(difference(type, second, expected, a.size()) == "");
        CHECK(difference(type, third, expected, a.size()) == "");
      }
    }
  }
}

TEST_CASE("large copies reach every destination, also when one of them is the source") {
  constexpr std::size_t kElements = 100'003;
  std::mt19937_64 random(kSeed);
  const auto a = random_elements(DataType::uint8, kElements, random);
  Buffer from(DataType::uint8, packed(DataType::uint8, a), kElements, 1), second(DataType::uint8, kElements),
      third(DataType::uint8, kElements, 3);
  const Operand operand{from.data(), 0};
  void* destinations[] = {second.data(), from.data(), third.data()};
  reduce_copy({DataType::uint8, ReduceKernel::sum, &operand, 1, false, 1, destinations, 3, kElements});
  CHECK(difference(DataType::uint8, from, a, kElements) == "");
  CHECK(difference(DataType::uint8, second, a, kElements) == "");
  CHECK(difference(DataType::uint8, third, a, kElements) == "");
}

TEST_CASE("factors of averages are the rounded reciprocals") {
  for (DataType type : kTypes) {
    CHECK(ref::is_nan(type, one_bits(type)) == false);
    if (!info(type).floating) {
      CHECK(one_bits(type) == 1);
      CHECK(reciprocal_bits(type, 1) == 1);
      CHECK_THROWS_AS(reciprocal_bits(type, 2), Error);
      continue;
    }
    CHECK(ref::value(type, one_bits(type)) == 1.0);
    CHECK_THROWS_AS(reciprocal_bits(type, 0), Error);
    for (int divisor = 1; divisor <= 5000; ++divisor) {
      CAPTURE(info(type).name, divisor);
      REQUIRE(reciprocal_bits(type, divisor) == ref::rounded(type, 1.0 / divisor));
    }
    for (int divisor : {65536, 1 << 24, (1 << 30) + 1, 2147483646, 2147483647}) {
      CAPTURE(info(type).name, divisor);
      CHECK(reciprocal_bits(type, divisor) == ref::rounded(type, 1.0 / divisor));
    }
  }
}

TEST_CASE("a request without operands or of no known type is refused") {
  std::uint32_t element = 7;
  void* destination = &element;
  const Operand operand{&element, 0};
  CHECK_THROWS_AS(reduce_copy({DataType::int32, ReduceKernel::sum, &operand, 0, false, 1, &destination, 1, 1}), Error);
  CHECK_THROWS_AS(reduce_copy({DataType{12}, ReduceKernel::sum, &operand, 1, false, 1, &destination, 1, 1}), Error);
  CHECK_THROWS_AS(reduce_copy({DataType::int32, ReduceKernel{4}, &operand, 1, false, 1, &destination, 1, 1}), Error);
  CHECK(element == 7);
}

#if defined(__x86_64__)
namespace {

// A caller that flushes subnormals, reads them as zero and rounds up, or down.
constexpr unsigned kFlush = 0x8040;
constexpr unsigned kRoundUp = 0x4000;

class CallersSettings {
 public:
  explicit CallersSettings(unsigned bits) : before_(_mm_getcsr()) { _mm_setcsr(before_ | bits); }
  ~CallersSettings() { _mm_setcsr(before_); }

 private:
  unsigned before_;
};

}  // namespace

TEST_CASE("a caller's floating-point settings neither change results nor are changed") {
  std::mt19937_64 random(kSeed);
  INFO("seed " << kSeed);
  for (DataType type : kTypes) {
    if (!info(type).floating) continue;
    std::vector<ref::Bits> a = random_elements(type, 2000, random), b = random_elements(type, 2000, random);
    const ref::Bits exponent = ref::low_bits(ref::shape(type).exponent_bits) << ref::shape(type).mantissa_bits;
    for (std::size_t i = 0; i < a.size(); i += 4) {
      a[i] &= ~exponent;
      b[i] &= ~exponent;
    }
    for (ReduceKernel kernel : kKernels) {
      const auto expected = reduced(type, kernel, {a, b});
      for (InstructionSet set : available_instruction_sets()) {
        const ChosenSet chosen(set);
        INFO(name(set) << " instructions, kernel " << static_cast<int>(kernel));
        Buffer first(type, packed(type, a), a.size()), second(type, packed(type, b), b.size()), to(type, a.size());
        const Operand operands[] = {{first.data(), 0}, {second.data(), 0}};
        void* destination = to.data();
        unsigned after;
        {
          const CallersSettings settings(kFlush | kRoundUp);
          reduce_copy({type, kernel, operands, 2, false, 1, &destination, 1, a.size()});
          after = _mm_getcsr();
        }
        CHECK(difference(type, to, expected, a.size()) == "");
        CHECK((after & (kFlush | kRoundUp)) == (kFlush | kRoundUp));
      }
    }
  }
}

TEST_CASE("fp8 and float16 conversions are exact even where the processor flushes subnormals") {
  for (DataType type : {DataType::float8e4m3, DataType::float8e5m2, DataType::float16}) {
    const auto every = all_elements(type);
    std::vector<ref::Bits> a, b;
    for (std::size_t i = 0; i < 65536; ++i) {
      a.push_back(every[i % every.size()]);
      b.push_back(every[i * 40503 / 65536 % every.size()]);
    }
    for (ReduceKernel kernel : kKernels) {
      const auto expected = reduced(type, kernel, {a, b});
      for (InstructionSet set : available_instruction_sets()) {
        INFO(name(set) << " instructions, kernel " << static_cast<int>(kernel));
        const bool half = type == DataType::float16;
        const Loops& loops = half ? half_float_loops(set, type) : float8_loops(set, type);
        Buffer first(type, packed(type, a), a.size()), second(type, packed(type, b), b.size()), to(type, a.size());
        const Operand operands[] = {{first.data(), 0}, {second.data(), 0}};
        void* destination = to.data();
        {
          const CallersSettings settings(kFlush);
          loops.kernels[static_cast<int>(kernel)].pair({type, kernel, operands, 2, false, 1, &destination, 1, a.size()},
                                                       {});
        }
        CHECK(difference(type, to, expected, a.size()) == "");
      }
    }
  }
}
#endif
