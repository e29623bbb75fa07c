// The messages between a rank and the root.
//
//   rank                                     root
//   Hello {tag, nonce}            ------->
//                                 <-------   Proof {MAC(secret, nonce, "root"), nonce', process, instance}
//   Join {MAC(secret, nonce', "rank"), rank, ranks}  ---->
//   frames, both ways: Header {kind, length} and `length` bytes; the root's first one is a welcome
//
// Neither side sends anything of value before the other side has proved that it knows the secret of the unique id. All
// ranks run this library version on machines of one byte order.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/siphash.h"
#include "runtime/bootstrap/bootstrap.h"

namespace sccl::runtime::wire {

inline constexpr std::uint64_t kTag = 0x33544f4f424c4353;  // "SCLBOOT3"
inline constexpr std::uint32_t kMostFrameBytes = 16u << 20;

using Nonce = std::array<std::uint64_t, 2>;

struct Hello {
  std::uint64_t tag = kTag;
  Nonce nonce{};
};
struct Proof {
  std::uint64_t mac = 0;
  Nonce nonce{};
  std::uint64_t process = 0;   // the root's
  std::uint64_t instance = 0;  // distinguishes this root from other roots at the same address
};
struct Join {
  std::uint64_t mac = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
};

enum class Kind : std::uint32_t {
  gather,    // rank -> root: this rank's blob
  gathered,  // root -> rank: all blobs, each preceded by its length
  failed,    // rank -> root: the reason why this rank gives up
  leave,     // rank -> root: init is over for this rank
  missing,   // rank -> root: the deadline has passed; asks which ranks are missing
  error,     // root -> rank: ErrorCode and text
  welcome,   // root -> rank: the root has taken the rank's Join
};
struct Header {
  Kind kind = Kind::gather;
  std::uint32_t reserved = 0;
  std::uint64_t length = 0;  // 64 bits: all ranks' blobs together may exceed 4 GiB
};

enum class Role : std::uint64_t { root = 1, rank = 2, descriptors = 3 };

inline std::uint64_t prove(const Secret& secret, const Nonce& nonce, Role role) {
  const std::array<std::uint64_t, 3> message{nonce[0], nonce[1], static_cast<std::uint64_t>(role)};
  return siphash(secret, std::as_bytes(std::span(message)));
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

inline void append(Bytes& to, std::span<const std::byte> bytes) {
  const std::size_t before = to.size();
  to.resize(before + bytes.size());
  if (!bytes.empty()) std::memcpy(to.data() + before, bytes.data(), bytes.size());
}

inline Header header_of(Kind kind, std::uint64_t payload_bytes) { return {kind, 0, payload_bytes}; }

inline Bytes frame(Kind kind, std::span<const std::byte> payload) {
  Bytes bytes;
  const Header header = header_of(kind, payload.size());
  append(bytes, bytes_of(header));
  append(bytes, payload);
  return bytes;
}

// Random values. Throw system_error.
Nonce make_nonce();
Secret make_secret();

}  // namespace sccl::runtime::wire
