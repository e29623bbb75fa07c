// UCX as an engine: active messages between workers, one worker for each Net.
//
// Messages up to some KiB, over TCP up to 256 KiB, are sent eagerly and copied once at the receiver; longer messages
// are announced first and move straight into the posted buffer (rendezvous). Addresses name network devices only;
// otherwise UCX would try shared memory between network namespaces of one machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "net/net.h"

namespace sccl::net::ucx {

struct Options {
  // Part of the header of every message; a message with another nonce is dropped.
  std::uint64_t nonce = 0;
  // Interfaces for TCP ("eth0"), separated by commas; empty: UCX chooses among all it has.
  std::string devices;
  // This host has RDMA devices, which UCX prefers to TCP.
  bool rdma = false;
  // Until then an interface is waited for that UCX_NET_DEVICES names and that is down.
  Deadline deadline = Deadline::in(std::chrono::milliseconds(0));
  // A connection that fails before anything was sent over it is tried again for so long, and `devices` that are all
  // down are waited for: the network may be interrupted.
  std::chrono::milliseconds reconnect_limit{0};
  // No other engine reaches the peers: accept() throws UnreachablePeer when a peer that asked cannot be answered.
  bool is_only_way = false;
};

// Throws system_error when UCX cannot be loaded or has no device, invalid_usage when the user's settings of UCX name
// none (user_settings.h).
std::unique_ptr<Net> open(const Options& options);

}  // namespace sccl::net::ucx
