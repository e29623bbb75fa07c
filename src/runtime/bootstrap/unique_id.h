// The 128 opaque bytes by which ranks find each other: our tag, a 128-bit secret, addresses and port of the root.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace sccl::runtime {

struct UniqueId {
  std::array<std::byte, 128> bytes{};
};

// Opens the root's listening socket and starts the thread that lets the ranks of one communicator meet; the thread
// ends when all have met, or SCCL_INIT_TIMEOUT_MS after the last activity. With NCCL_COMM_ID set the id is made from
// that address, and rank 0 opens the root when it connects. Throws system_error when no socket can be opened.
UniqueId create_unique_id();

// The same whatever NCCL_COMM_ID says, for communicators that are made from another one.
UniqueId create_private_id();

// SCCL_INIT_TIMEOUT_MS: how long ranks wait for one another while a communicator is made.
std::chrono::milliseconds init_timeout();

}  // namespace sccl::runtime
