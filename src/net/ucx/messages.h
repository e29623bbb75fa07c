// The headers of active messages in their transmitted form. Both ends are little-endian machines.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sccl::net::ucx {

// Numbers of the handlers.
inline constexpr unsigned kHelloMessage = 1;
inline constexpr unsigned kWelcomeMessage = 2;
inline constexpr unsigned kDataMessage = 3;
inline constexpr unsigned kProbeMessage = 4;
inline constexpr unsigned kEchoMessage = 5;

// The first bytes of a listener's handle; the worker's address follows.
struct HandleHead {
  static constexpr std::uint64_t kMagic = 0x316863612d6c6373;
  std::uint64_t magic;
  std::uint64_t listener;
};

// A sender asks a listener for a connection; the address of its worker follows as data.
struct Hello {
  std::uint64_t nonce;
  std::uint64_t listener;
  std::uint64_t sender;
};

// The receiver's answer.
struct Welcome {
  std::uint64_t nonce;
  std::uint64_t sender;
  std::uint64_t receiver;
};

// A sender whose UCX needs it asks for an echo before it sends data (greetings.h).
struct Probe {
  std::uint64_t nonce;
  std::uint64_t receiver;
};

struct Echo {
  std::uint64_t nonce;
  std::uint64_t sender;
};

// Positions count the messages of a connection: eager messages and rendezvous may overtake each other inside UCX. The
// first part of a message in two parts follows in the same header if it is short.
struct DataHead {
  std::uint64_t nonce;
  std::uint64_t receiver;
  std::uint64_t position;
};
inline constexpr std::size_t kMostFirstPartBytes = 512;

}  // namespace sccl::net::ucx
