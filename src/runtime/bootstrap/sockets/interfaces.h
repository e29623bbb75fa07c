// Chooses the addresses of this host on which the root listens.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "runtime/bootstrap/sockets/address.h"

namespace sccl::runtime {

// `pattern` has the form of NCCL_SOCKET_IFNAME: a list of prefixes. "=" before the list means exact names, "^" all
// interfaces except these, "^=" all except exactly these names.
bool interface_matches(std::string_view pattern, std::string_view interface);

// Addresses with port 0, in order of preference, at least one. Without NCCL_SOCKET_IFNAME, of all interfaces that are
// up: first interfaces named ib*, then those in the subnet of `root`, then others; loopback last. Bridges of containers
// and virtual machines (docker*, br-*, virbr*) are used only if there is nothing else. Throws system_error, with the
// pattern in the message, when no interface fits. Until the deadline it waits for an interface that fits the pattern
// and is down, or has no address.
std::vector<Address> listening_addresses(const std::optional<Address>& root = std::nullopt,
                                         Deadline deadline = Deadline::in(std::chrono::milliseconds(0)));

// For errors: " NCCL_SOCKET_IFNAME=eth1: eth1 is down"; "" if the variable is not set, or no interface that it names is
// hindered.
std::string hindered_interfaces();

// The interface that has the address (the port is ignored); "" if there is none.
std::string interface_of(const Address& address);

// An interface that is up, has its cable in, and is in /sys/class/net, where engines look for it.
struct Interface {
  std::string name;
  std::string address;        // the first of those asked for: "10.0.1.7"
  std::uint64_t network = 0;  // the same number at all interfaces of one subnet
};
// Those that have the addresses (ports are ignored), each once, in the addresses' order.
std::vector<Interface> interfaces_of(const std::vector<Address>& addresses);

// "ipv4:port", "[ipv6]:port" or "host:port", as in NCCL_COMM_ID. Throws invalid_argument.
Address parse_address(const std::string& text);

}  // namespace sccl::runtime
