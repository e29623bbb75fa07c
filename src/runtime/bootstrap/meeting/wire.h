// The messages between a rank and a node of the meeting. A node is the root, the leader of a host (host_leader.h), or
// the root of another id of ncclCommInitRankScalable; the latter two speak for all ranks that came to them.
//
//   rank, or node that speaks for ranks      node
//   Hello {tag, nonce}            ------->
//                                 <-------   Proof {MAC(secret, nonce, "root"), nonce', instance}
//   Join {MAC(secret, nonce', "rank"), rank, ranks, ...}  ---->
//   frames, both ways: Header {kind, length} and `length` bytes; the node's first one is a welcome
//
// Neither side sends anything of value before the other side has proved that it knows the secret of the unique id. All
// ranks run on machines of one byte order, and one version of this library. Ranks of different versions must be able to
// say so: Hello, Proof, JoinHead, Header, Welcome and the numbers of the kinds up to `welcome` stay as they are.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/settings/libsccl_version.h"
#include "base/siphash.h"
#include "base/types.h"
#include "runtime/bootstrap/meeting/bytes.h"
#include "runtime/bootstrap/sockets/address.h"

namespace sccl::runtime::wire {

inline constexpr std::uint64_t kTag = 0x34544f4f424c4353;  // "SCLBOOT4"
inline constexpr std::uint32_t kMostFrameBytes = 16u << 20;

using Nonce = std::array<std::uint64_t, 2>;

struct Hello {
  std::uint64_t tag = kTag;
  Nonce nonce{};
};
struct Proof {
  std::uint64_t mac = 0;
  Nonce nonce{};
  std::uint64_t instance = 0;  // distinguishes this root from other roots at the same address
};

// Where a node listens.
struct Place {
  std::uint32_t count = 0;
  std::array<Address, kMostAddresses> addresses{};

  static Place of(const std::vector<Address>& addresses);
  std::vector<Address> list() const;
};

enum class Joiner : std::uint32_t {
  rank,
  leader,  // of a host; speaks for the ranks that came to it
  root,    // of another id; speaks for the ranks that came to it
  orphan,  // a rank that has lost its host's leader and asks for the reason
};

// The first of several ids, told to the root of another one. The secret is masked by one that both sides know.
struct FirstId {
  Secret masked_secret;
  Place place;
};

using HostName = std::array<char, 64>;
HostName own_host_name();
// Of a name that came over a connection, which may have no end.
std::string text_of(const HostName& name);

struct JoinHead {
  std::uint64_t mac = 0;
  std::int32_t rank = 0;  // of a root: the number of its id
  std::int32_t ranks = 0;
  Joiner joiner = Joiner::rank;
  std::uint32_t id_number = 0;  // of the node's id in the list, from 0
  std::uint32_t id_count = 1;
  std::uint32_t version = libsccl_version();
  std::uint64_t ids_hash = 0;  // of the whole list
  HostName host{};
};
struct Join : JoinHead {
  Place place;    // of a leader
  FirstId first;  // where id_number > 0
};

enum class Kind : std::uint32_t {
  gather,    // rank -> node: this rank's blob
  gathered,  // node -> rank: all blobs, each preceded by its length
  failed,    // rank -> node: the reason why this rank gives up
  leave,     // upwards: init is over for this rank, or all ranks of this node
  missing,   // upwards: the deadline has passed; asks which ranks are missing
  error,     // downwards: ErrorCode and text. Upwards, of a node: the same
  welcome,   // downwards: the Join was taken; Welcome
  came,      // upwards, of a node: Arrivals of ranks
  blobs,     // upwards, of a node: BlobHeads, each followed by the blob
  redirect,  // downwards: this leader shall join another leader; Redirect
  placed,    // upwards: a redirected leader has joined the other one
  unplaced,  // upwards: it could not reach it and joins here
};
struct Header {
  Kind kind = Kind::gather;
  std::uint32_t reserved = 0;
  std::uint64_t length = 0;  // 64 bits: all ranks' blobs together may exceed 4 GiB
};
struct Welcome {
  std::uint64_t instance = 0;  // of the first id's root
  std::int32_t leader = -1;    // the rank that leads the host; -1: this is a root
  std::uint32_t version = libsccl_version();
};
struct Redirect {
  std::int32_t leader = 0;
  std::int32_t reserved = 0;
  Place place;
};
struct Arrival {
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::uint64_t ids_hash = 0;
  HostName host{};
};
struct BlobHead {
  std::int32_t rank = 0;
  std::uint32_t reserved = 0;
  std::uint64_t length = 0;
};

enum class Role : std::uint64_t { root = 1, rank = 2, descriptors = 3 };

inline std::uint64_t prove(const Secret& secret, const Nonce& nonce, Role role) {
  const std::array<std::uint64_t, 3> message{nonce[0], nonce[1], static_cast<std::uint64_t>(role)};
  return siphash(secret, std::as_bytes(std::span(message)));
}

// The rank and the node run different versions of the library.
std::string versions_text(const JoinHead& join, std::uint32_t nodes_version);

// Of a node that has not answered after the deadline: "heard nothing from ...". `leader`: the rank that leads its host;
// -1: it is a root.
std::string silence_text(const Address& node, std::int32_t leader);

// Masks a secret, or takes the mask off.
Secret masked(const Secret& value, const Secret& key, const Nonce& nonce);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

inline void append(Bytes& to, std::span<const std::byte> bytes) { append_values(to, bytes.data(), bytes.size()); }

inline Header header_of(Kind kind, std::uint64_t payload_bytes) { return {kind, 0, payload_bytes}; }

inline Bytes frame(Kind kind, std::span<const std::byte> payload) {
  Bytes bytes;
  bytes.reserve(sizeof(Header) + payload.size());
  const Header header = header_of(kind, payload.size());
  append(bytes, bytes_of(header));
  append(bytes, payload);
  return bytes;
}

// The payload of an error.
Bytes error_of(std::int32_t code, const std::string& text);

// Random values. Throw system_error.
Nonce make_nonce();
Secret make_secret();

}  // namespace sccl::runtime::wire
