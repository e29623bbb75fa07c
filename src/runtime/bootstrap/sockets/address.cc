#include "runtime/bootstrap/sockets/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>

namespace sccl::runtime {

std::string Address::text() const {
  if (family() == AF_UNIX) return "a socket of this host";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family() == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return fmt::format("[{}]:{}", text.data(), ntohs(v6.sin6_port));
}

Address make_address(const in_addr& address, std::uint16_t port) {
  Address made;
  auto& v4 = reinterpret_cast<sockaddr_in&>(made.storage);
  v4.sin_family = AF_INET;
  v4.sin_addr = address;
  v4.sin_port = htons(port);
  made.length = sizeof v4;
  return made;
}

Address make_address(const in6_addr& address, std::uint16_t port) {
  Address made;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(made.storage);
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = address;
  v6.sin6_port = htons(port);
  made.length = sizeof v6;
  return made;
}

}  // namespace sccl::runtime
