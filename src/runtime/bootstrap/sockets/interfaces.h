// Chooses the addresses of this host on which the root listens.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bootstrap/sockets/address.h"

namespace sccl::runtime {

// `pattern` has the form of NCCL_SOCKET_IFNAME: a list of prefixes. "=" before the list means exact names, "^" all
// interfaces except these, "^=" all except exactly these names.
bool interface_matches(std::string_view pattern, std::string_view interface);

// Addresses with port 0, in order of preference, at least one. Without NCCL_SOCKET_IFNAME, of all interfaces that are
// up: first interfaces named ib*, then those in the subnet of `root`, then others; loopback last. Bridges of containers
// and virtual machines (docker*, br-*, virbr*) are used only if there is nothing else. Throws system_error, with the
// pattern in the message, when no interface fits.
std::vector<Address> listening_addresses(const std::optional<Address>& root = std::nullopt);

// The interface that has the address (the port is ignored); "" if there is none.
std::string interface_of(const Address& address);

// "ipv4:port", "[ipv6]:port" or "host:port", as in NCCL_COMM_ID. Throws invalid_argument.
Address parse_address(const std::string& text);

}  // namespace sccl::runtime
