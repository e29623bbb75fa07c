// UCX as an engine: active messages between workers, one worker for each Net.
//
// Messages up to some KiB are sent eagerly and copied once at the receiver; longer ones announce themselves and move
// straight into the posted buffer (rendezvous). Addresses name network devices only, since UCX would otherwise take
// shared memory between network namespaces of one machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/net.h"

namespace sccl::net::ucx {

struct Options {
  // Stands in the header of every message; a message with another one is dropped.
  std::uint64_t nonce = 0;
  // UCX's names of the devices to use ("eth0", "mlx5_0:1"), separated by commas; empty: UCX chooses.
  std::string devices;
};

// Throws system_error when UCX cannot be loaded or has no device.
std::unique_ptr<Net> open(const Options& options);

}  // namespace sccl::net::ucx
