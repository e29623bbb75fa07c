// A switch in user space with delay, loss and a rate, for kernels without netem. Every host has a TUN interface; a
// process reads packets, holds each back as long as the wire would, and writes it to the interface of the host that
// has its address (10.77.0.N of host N - 1). It takes a core under load.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace sccl::tools {

struct LinkShape {
  double delay_us = 0;    // one way
  double bits_per_s = 0;  // of each interface of a host, outwards; 0: unbounded
  double loss = 0;        // share of packets
  int interfaces = 1;     // of each host, each in a network of its own; several only without delay and loss

  bool has_own_wire() const { return delay_us > 0 || loss > 0; }
  bool plain() const { return !has_own_wire() && bits_per_s == 0 && interfaces == 1; }
};

// "500us", "2ms", "1s"; "1gbit", "100mbit"; "0.1%". Throw invalid_argument, which says what is wanted.
double parse_delay_us(const std::string& text);
double parse_rate(const std::string& text);
double parse_loss(const std::string& text);

class SlowLink {
 public:
  // `spaces`: descriptors of network namespaces, by host; each gets the interface eth0, which has no address yet.
  // Throws std::runtime_error.
  SlowLink(const std::vector<int>& spaces, const LinkShape& shape);
  ~SlowLink();
  SlowLink(SlowLink&& other) noexcept : process_(std::exchange(other.process_, -1)) {}
  SlowLink& operator=(SlowLink&&) = delete;

 private:
  pid_t process_ = -1;
};

}  // namespace sccl::tools
