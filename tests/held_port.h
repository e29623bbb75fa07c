// A port of the loopback interface that no other process can take, and at which nobody answers until the library itself
// listens there.
//
// The socket is bound and never listens, so connections are refused. It has SO_REUSEADDR, as the library's listeners
// have: Linux then lets a listener bind the same port, but gives the port to nobody who leaves the choice to the
// system.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

namespace sccl_test {

class HeldPort {
 public:
  HeldPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~HeldPort() { ::close(socket_); }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

  int number() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int socket_ = -1;
  int port_ = 0;
};

}  // namespace sccl_test
