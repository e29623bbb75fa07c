// The device source, executed by a device that the host plays.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "base/types.h"
#include "gpu/host_device.h"
#include "kernels/host/reduce/reduce_copy.h"
#include "kernels/reduce_reference.h"

using namespace sccl;
namespace gpu = sccl::device::gpu;
namespace ref = sccl::reference;
using device::u32;
using device::u64;
using device::u8;

namespace {

struct Case {
  DataType type;
  ReduceKernel kernel;
  u32 sources;
  u32 sinks;
  std::size_t elements;
  std::size_t offset;  // of all buffers, in elements; negative parity moves the second source only
  bool uneven;
  bool scaled;
  u32 divisor;
};

std::string text(const Case& c) {
  return fmt::format("{} kernel {} {}->{} elements {} offset {} uneven {} scaled {} divisor {}", info(c.type).name,
                     static_cast<int>(c.kernel), c.sources, c.sinks, c.elements, c.offset, c.uneven, c.scaled,
                     c.divisor);
}

std::vector<u8> random_bytes(std::mt19937_64& random, std::size_t bytes) {
  std::vector<u8> data(bytes);
  for (u8& byte : data) byte = static_cast<u8>(random());
  return data;
}

ref::Bits element(DataType type, const u8* at) {
  ref::Bits bits = 0;
  std::memcpy(&bits, at, size_bytes(type));
  return bits;
}

// "" or the first element at which block and host differ, other than in a NaN's bits.
template <class Mover>
std::string compare_by(const Case& c, std::mt19937_64& random) {
  const std::size_t size = size_bytes(c.type);
  const std::size_t bytes = (c.elements + c.offset + 2) * size + 64;
  std::vector<std::vector<u8>> inputs;
  for (u32 s = 0; s < c.sources; ++s) inputs.push_back(random_bytes(random, bytes));
  std::vector<std::vector<u8>> block_out(c.sinks, std::vector<u8>(bytes, 0xa5));
  std::vector<std::vector<u8>> host_out = block_out;
  const auto begin = [&](std::vector<u8>& data, u32 index) {
    const auto base = reinterpret_cast<std::uintptr_t>(data.data());
    return data.data() + (16 - base % 16) % 16 + (c.offset + (c.uneven && index == 0 ? 1 : 0)) * size;
  };
  const ref::Bits factor =
      kernels::reciprocal_bits(c.type, info(c.type).floating ? 3 : 1) + (info(c.type).floating ? 0 : 6);
  std::vector<device::Source> sources;
  std::vector<kernels::Operand> operands;
  for (u32 s = 0; s < c.sources; ++s) {
    sources.push_back({begin(inputs[s], s), factor});
    operands.push_back({begin(inputs[s], s), factor});
  }
  std::vector<u8*> block_sinks;
  std::vector<void*> host_sinks;
  for (u32 i = 0; i < c.sinks; ++i) {
    block_sinks.push_back(begin(block_out[i], 1));
    host_sinks.push_back(begin(host_out[i], 1));
  }
  gpu::on_grid(1, 3, [&](u32, u32) {
    gpu::move_block<Mover>(sources.data(), c.sources, block_sinks.data(), c.sinks, c.elements, c.divisor,
                           {c.type, c.kernel, static_cast<u32>(size)}, c.scaled);
  });
  kernels::reduce_copy({c.type, c.kernel, operands.data(), static_cast<int>(c.sources), c.scaled, c.divisor,
                        host_sinks.data(), static_cast<int>(c.sinks), c.elements});
  for (u32 i = 0; i < c.sinks; ++i) {
    for (std::size_t e = 0; e < c.elements; ++e) {
      const ref::Bits mine = element(c.type, block_sinks[i] + e * size);
      const ref::Bits theirs = element(c.type, static_cast<u8*>(host_sinks[i]) + e * size);
      if (mine != theirs && !(ref::is_nan(c.type, mine) && ref::is_nan(c.type, theirs)))
        return fmt::format("{}: element {} is {:x}, on the host {:x}", text(c), e, mine, theirs);
    }
    for (std::size_t e = c.elements; e <= c.elements; ++e)
      if (element(c.type, block_sinks[i] + e * size) != element(c.type, static_cast<u8*>(host_sinks[i]) + e * size))
        return text(c) + ": wrote beyond the end";
  }
  return "";
}

// By the kernels of one type and operation, and by the one for all.
std::string compare(const Case& c, std::mt19937_64& random) {
  std::string wrong = compare_by<gpu::ReducingOne>(c, random);
  if (const std::string other = compare_by<gpu::ReducingAny>(c, random); !other.empty()) wrong += " for all: " + other;
  return wrong;
}

}  // namespace

TEST_CASE("a block reduces as the host does, for all types and operations") {
  std::mt19937_64 random(20261121);
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int kernel = 0; kernel < kReduceKernelCount; ++kernel) {
      Case c{static_cast<DataType>(type), static_cast<ReduceKernel>(kernel), 2, 1, 301, 0, false, false, 1};
      CHECK(compare(c, random) == "");
      c.sources = 3, c.sinks = 2, c.elements = 77, c.offset = 1;
      CHECK(compare(c, random) == "");
      c.uneven = true, c.elements = 40;
      CHECK(compare(c, random) == "");
      c.elements = 1;
      CHECK(compare(c, random) == "");
      if (c.kernel != ReduceKernel::sum) continue;
      c.uneven = false, c.scaled = true, c.elements = 130;
      CHECK(compare(c, random) == "");
      c.sources = 1;
      CHECK(compare(c, random) == "");
      if (info(c.type).floating) continue;
      c.sources = 4, c.scaled = false, c.divisor = 4;
      CHECK(compare(c, random) == "");
    }
}

TEST_CASE("a block copies bytes between any addresses") {
  std::mt19937_64 random(7);
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{777}, std::size_t{5000}})
    for (const std::size_t offset : {0u, 3u, 4u})
      for (const bool uneven : {false, true}) {
        Case c{DataType::uint8, ReduceKernel::sum, 1, 2, bytes, offset, uneven, false, 1};
        CHECK(compare(c, random) == "");
      }
}

TEST_CASE("narrow floats round to the nearest even of their format, every one of them") {
  std::mt19937_64 random(11);
  const auto check = [&](auto element, DataType type) {
    using E = decltype(element);
    for (u32 bits = 0; bits < 1u << (8 * size_bytes(type)); ++bits) {
      const auto memory = static_cast<typename E::Memory>(bits);
      const float wide = E::widen(memory);
      const auto value = static_cast<float>(ref::value(type, bits));
      if (!(wide == value && std::signbit(wide) == std::signbit(value)) && !(std::isnan(wide) && std::isnan(value))) {
        INFO(info(type).name << " " << bits);
        CHECK(wide == value);
      }
    }
    for (int i = 0; i < 200000; ++i) {
      const auto wide = gpu::float_of(static_cast<u32>(random()));
      const ref::Bits wanted = ref::rounded(type, wide);
      const ref::Bits got = E::narrow(wide);
      if (got != wanted && !(std::isnan(wide) && ref::is_nan(type, got))) {
        INFO(info(type).name << " " << wide);
        CHECK(got == wanted);
      }
    }
  };
  check(gpu::Element<DataType::float16>{}, DataType::float16);
  check(gpu::Element<DataType::bfloat16>{}, DataType::bfloat16);
  check(gpu::Element<DataType::float8e4m3>{}, DataType::float8e4m3);
  check(gpu::Element<DataType::float8e5m2>{}, DataType::float8e5m2);
}

TEST_CASE("parts of a chunk cover it once, whatever the channels") {
  for (const u64 elements : {0ull, 1ull, 511ull, 512ull, 513ull, 100000ull})
    for (const u32 size : {1u, 2u, 8u})
      for (const u32 parts : {1u, 2u, 3u, 7u, 32u}) {
        const device::Chunk chunk{10, 20, elements, 5, 0};
        u64 next = 0;
        for (u32 channel = 0; channel < parts + 2; ++channel) {
          const device::Chunk part = device::part_of(chunk, size, parts, channel);
          CHECK(((part.flags & device::kAbsent) == 0) == (channel < parts));
          CHECK(part.tag == 5);
          if (part.elements == 0) continue;
          CHECK(part.input_offset == 10 + next);
          CHECK(part.output_offset == 20 + next);
          CHECK(next * size % device::kPartUnitBytes == 0);
          next += part.elements;
        }
        CHECK(next == elements);
      }
}
