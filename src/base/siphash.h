// SipHash-2-4 (Aumasson and Bernstein): a keyed hash by which two processes prove that they know the same secret.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace sccl {

struct Secret {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

inline std::uint64_t siphash(const Secret& key, std::span<const std::byte> message) {
  std::uint64_t v0 = 0x736f6d6570736575ull ^ key.low;
  std::uint64_t v1 = 0x646f72616e646f6dull ^ key.high;
  std::uint64_t v2 = 0x6c7967656e657261ull ^ key.low;
  std::uint64_t v3 = 0x7465646279746573ull ^ key.high;
  const auto round = [&] {
    v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
    v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
  };
  const auto absorb = [&](std::uint64_t word) {
    v3 ^= word;
    round(), round();
    v0 ^= word;
  };
  std::size_t at = 0;
  for (; at + 8 <= message.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, message.data() + at, 8);  // little endian, as all our platforms
    absorb(word);
  }
  std::uint64_t last = static_cast<std::uint64_t>(message.size()) << 56;
  for (std::size_t i = 0; at + i < message.size(); ++i) last |= static_cast<std::uint64_t>(message[at + i]) << (8 * i);
  absorb(last);
  v2 ^= 0xff;
  round(), round(), round(), round();
  return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace sccl
