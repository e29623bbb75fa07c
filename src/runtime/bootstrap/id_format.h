// What stands in the 128 bytes of a unique id.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/siphash.h"
#include "runtime/bootstrap/unique_id.h"

namespace sccl::runtime {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  std::string text() const;  // "10.0.0.1:4711", "[fe80::1]:4711"
  int family() const { return storage.ss_family; }
};

Address make_address(const in_addr& address, std::uint16_t port);
Address make_address(const in6_addr& address, std::uint16_t port);

struct IdContent {
  static constexpr std::size_t kMostAddresses = 4;

  Secret secret;
  bool fixed = false;  // made from NCCL_COMM_ID: rank 0 opens the root
  std::vector<Address> addresses;
};

UniqueId encode(const IdContent& content);

// Throws invalid_argument when the bytes are not an id of this library.
IdContent decode(const UniqueId& id);

}  // namespace sccl::runtime
