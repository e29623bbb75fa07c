// Abstract Unix sockets, which lead to ranks of this host.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>

namespace sccl_torch {

inline sockaddr_un local_address(const std::string& name, int rank, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string full = name + "-" + std::to_string(rank);
  const std::size_t used = std::min(full.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, full.data(), used);  // the first byte is 0: an abstract name
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + used);
  return address;
}

inline ucred credentials_of(int fd) {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) who.uid = static_cast<uid_t>(-1);
  return who;
}

inline std::string system_text(int error) { return std::generic_category().message(error); }

}  // namespace sccl_torch
