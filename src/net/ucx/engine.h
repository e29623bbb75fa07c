// UCX as an engine: active messages between workers, one worker for each Net.
//
// Messages up to some KiB are sent eagerly and copied once at the receiver; longer messages are announced first and
// move straight into the posted buffer (rendezvous). Addresses name network devices only; otherwise UCX would try
// shared memory between network namespaces of one machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/net.h"

namespace sccl::net::ucx {

struct Options {
  // Part of the header of every message; a message with another nonce is dropped.
  std::uint64_t nonce = 0;
  // UCX's names of the devices to use ("eth0", "mlx5_0:1"), separated by commas; empty: UCX chooses.
  std::string devices;
};

// Throws system_error when UCX cannot be loaded or has no device.
std::unique_ptr<Net> open(const Options& options);

}  // namespace sccl::net::ucx
