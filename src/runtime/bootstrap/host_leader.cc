#include "runtime/bootstrap/host_leader.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/error.h"

namespace sccl::runtime {
namespace {

constexpr int kBacklog = 4096;

std::uint64_t part_of_name(const Secret& secret, std::uint64_t host, std::uint64_t number) {
  const std::array<std::uint64_t, 3> message{0x6c6561646572, host, number};
  return siphash(secret, std::as_bytes(std::span(message)));
}

}  // namespace

Address leader_address(const Secret& secret, std::uint64_t host) {
  const std::string name =
      fmt::format("sccl-meeting-{:016x}{:016x}", part_of_name(secret, host, 0), part_of_name(secret, host, 1));
  Address address;
  auto& local = reinterpret_cast<sockaddr_un&>(address.storage);
  local.sun_family = AF_UNIX;
  std::memcpy(local.sun_path + 1, name.data(), name.size());  // a zero first: abstract
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

pid_t process_that_leads(const Address& address) {
  const FileDescriptor asking(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  ucred listener{};
  socklen_t length = sizeof listener;
  if (!asking.valid() || ::connect(asking.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) ||
      ::getsockopt(asking.get(), SOL_SOCKET, SO_PEERCRED, &listener, &length) != 0)
    return 0;
  return listener.pid;
}

FileDescriptor listen_as_leader(const Address& address) {
  FileDescriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.valid()) fail_errno(errno, "opening a socket", "raise the limit on open files (ulimit -n)");
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0 &&
      ::listen(made.get(), kBacklog) == 0)
    return made;
  if (errno != EADDRINUSE) fail_errno(errno, "listening on an abstract Unix socket", "allow Unix sockets");
  return FileDescriptor();
}

}  // namespace sccl::runtime
