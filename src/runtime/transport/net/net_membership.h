// What joins a rank to the ranks of other hosts, as init leaves it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/net.h"
#include "runtime/transport/net/addresses.h"

namespace sccl::runtime {

struct NetMembership {
  std::shared_ptr<net::Net> net;            // the engine that all ranks have agreed on; this rank's own
  std::shared_ptr<NetAddresses> addresses;  // where the ranks accept connections
  std::uint64_t nonce = 0;                  // of the communicator, in every message
  std::vector<std::string> hosts;           // by rank, of those that are remote; empty for the others
};

}  // namespace sccl::runtime
