// An IPv4 or IPv6 address with a port.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace sccl::runtime {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  std::string text() const;  // "10.0.0.1:4711", "[fe80::1]:4711"
  int family() const { return storage.ss_family; }
};

// A host tells others at most this many of its addresses.
inline constexpr std::size_t kMostAddresses = 4;

Address make_address(const in_addr& address, std::uint16_t port);
Address make_address(const in6_addr& address, std::uint16_t port);

}  // namespace sccl::runtime
