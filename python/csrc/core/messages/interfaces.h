// The addresses of this host at which ranks of other hosts can reach this process: libsccl's rules for interfaces.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <string>
#include <vector>

namespace sccl_torch {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::string text() const;  // "10.0.0.1:4711", "[fd00::1]:4711"
};

constexpr std::size_t kMostAddresses = 8;

// NCCL_SOCKET_IFNAME: a list of prefixes; "=" before it means exact names, "^" all interfaces but these.
bool interface_matches(const std::string& pattern, const std::string& interface);

// With port 0, at most kMostAddresses: of interfaces that are up and fit `pattern` and `family` (AF_INET, AF_INET6, or
// "" for both). Without a pattern bridges of containers (docker*, br-*, virbr*) are left out where there is anything
// else; loopback always is.
std::vector<SocketAddress> usable_addresses(const std::string& pattern, const std::string& family);

}  // namespace sccl_torch
