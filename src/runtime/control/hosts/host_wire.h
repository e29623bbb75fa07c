// Messages between the agents of two hosts. Each agent dials the other's: a connection carries the dialer's changes and
// nothing comes back on it after the introduction.
//
//   dialer                                              listener
//   Hello {tag, nonce, identity, rank, hosts}  ------->
//                                              <-------  Welcome {MAC(secret, nonce, Hello), nonce'}
//   Proof {MAC(secret, nonce', Hello)}         ------->
//   frames: FrameHead {kind, bytes, MAC} and so many bytes
//
// Neither side believes anything before the other has proved that it knows the secret of the unique id. The key of the
// frames' MACs is made of the secret and both nonces; a MAC covers the frame's number, so that nothing can be left out,
// repeated or put in. Nothing is encrypted.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/siphash.h"
#include "runtime/bootstrap/meeting/wire.h"

namespace sccl::runtime::hosts {

inline constexpr std::uint64_t kTag = 0x3254534f484c4353;  // "SCLHOST2"
inline constexpr std::uint32_t kMostFrameBytes = 64u << 20;

struct Hello {
  std::uint64_t tag = kTag;
  wire::Nonce nonce{};
  std::uint64_t identity = 0;  // of the communicator
  std::int32_t rank = 0;       // the dialer
  std::int32_t from = 0;       // hosts, by number
  std::int32_t to = 0;
  std::int32_t reserved = 0;
};
struct Welcome {
  std::uint64_t mac = 0;
  wire::Nonce nonce{};
};
struct Proof {
  std::uint64_t mac = 0;
};

enum class Side : std::uint64_t { listener = 11, dialer = 12 };

inline std::uint64_t prove(const Secret& secret, const wire::Nonce& nonce, const Hello& hello, Side side) {
  const struct {
    wire::Nonce nonce;
    std::uint64_t side;
    Hello hello;
  } message{nonce, static_cast<std::uint64_t>(side), hello};
  return siphash(secret, wire::bytes_of(message));
}

inline Secret frame_key(const Secret& secret, const wire::Nonce& dialers, const wire::Nonce& listeners) {
  std::array<std::uint64_t, 5> message{1, dialers[0], dialers[1], listeners[0], listeners[1]};
  const std::uint64_t low = siphash(secret, std::as_bytes(std::span(message)));
  message[0] = 2;
  return {low, siphash(secret, std::as_bytes(std::span(message)))};
}

enum class FrameKind : std::uint32_t {
  changes,   // of the sender's ranks; empty: a sign of life
  handover,  // this agent ends, another one of its host will dial
  farewell,  // the last rank of the host has left
  verdicts,  // ends of ranks of hosts that the receiver is not connected to
};

// Before the changes of a host's ranks. Frames of a host are passed on to hosts that are not connected to it (grid.h),
// and may arrive on two ways: each is taken once.
struct ChangesHead {
  std::int32_t origin = 0;  // host
  std::uint32_t reserved = 0;
  std::uint64_t version = 0;  // grows with each frame of the host, whichever of its agents works
};

struct FrameHead {
  FrameKind kind = FrameKind::changes;
  std::uint32_t bytes = 0;
  std::uint64_t mac = 0;
};

inline std::uint64_t frame_mac(const Secret& key, std::uint64_t number, FrameKind kind,
                               std::span<const std::byte> payload) {
  Bytes message;
  const std::array<std::uint64_t, 2> head{number, static_cast<std::uint64_t>(kind)};
  wire::append(message, std::as_bytes(std::span(head)));
  wire::append(message, payload);
  return siphash(key, message);
}

}  // namespace sccl::runtime::hosts
