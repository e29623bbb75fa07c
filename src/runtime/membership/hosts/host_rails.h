// The interfaces of this host that data may use beside one another.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/choose.h"
#include "runtime/bootstrap/sockets/address.h"

namespace sccl::runtime {

inline constexpr int kMostMbitsPerS = 10'000'000;  // more is no figure

// As the driver says: /sys may be mounted for another network namespace. 0: unknown.
int mbits_per_s_of(const std::string& interface);

// What a NIC is taken for of which nobody tells the speed (SCCL_NIC_MBITS).
int assumed_mbits_per_s();

// Those that `reached` names ("eth0,eth1"), over which this host's agent has reached others, and then the others that
// may be used by NCCL's rules (listening_addresses). An interface slower than a quarter of the fastest is left out
// unless it is the first.
std::vector<net::NetInterface> rails_of_this_host(const std::string& reached, const std::optional<Address>& root);

}  // namespace sccl::runtime
