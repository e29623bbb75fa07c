// The 128 opaque bytes by which ranks find each other: our tag, a 128-bit secret, addresses and port of the root.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace sccl::runtime {

struct UniqueId {
  std::array<std::byte, 128> bytes{};
};

// Opens the root's listening socket and starts the thread of the root. The thread ends when the ranks of the
// communicator have met, or SCCL_INIT_TIMEOUT_MS after the last activity. If NCCL_COMM_ID is set, the id is made from
// that address, and rank 0 opens the root when it connects. Throws system_error when no socket can be opened.
UniqueId create_unique_id();

// The same, but ignores NCCL_COMM_ID. For communicators that are made from another communicator.
UniqueId create_private_id();

// SCCL_INIT_TIMEOUT_MS: how long ranks wait for each other while a communicator is made.
std::chrono::milliseconds init_timeout();

// SCCL_HOST_FANOUT: up to this many ranks meet at the root itself; more meet through the leaders of their hosts. Up to
// this many leaders join the root itself; more form a tree.
int host_fanout();

}  // namespace sccl::runtime
