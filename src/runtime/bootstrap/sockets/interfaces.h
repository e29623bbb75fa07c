// Which addresses of this host the root listens on.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bootstrap/sockets/address.h"

namespace sccl::runtime {

// NCCL_SOCKET_IFNAME's forms: a list of prefixes, "=" before it means exact names, "^" all but these, "^=" all but
// exactly these.
bool interface_matches(std::string_view pattern, std::string_view interface);

// Addresses with port 0, in order of preference, at least one. Without NCCL_SOCKET_IFNAME: all interfaces that are up;
// those named ib* first, then those in the subnet of `root`, then others; bridges of containers and virtual machines
// (docker*, br-*, virbr*) only where there is nothing else; loopback last. Throws system_error when nothing fits,
// naming the pattern.
std::vector<Address> listening_addresses(const std::optional<Address>& root = std::nullopt);

// The interface that has the address, without its port; "" when none has.
std::string interface_of(const Address& address);

// "ipv4:port", "[ipv6]:port" or "host:port", as in NCCL_COMM_ID. Throws invalid_argument.
Address parse_address(const std::string& text);

}  // namespace sccl::runtime
