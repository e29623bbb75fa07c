// Several devices used as one. A connection has one connection of an engine for each rail, a pair of devices of the two
// ends; its messages go over the rails in an order that the sender chooses from the rails' speeds and tells first, and
// the receiver puts them in that order again.
//
//   connection ---+--- rail 0: engine's connection, device eth0 ---+--- messages 0, 2, 4 ...
//                 +--- rail 1: engine's connection, device eth1 ---+--- messages 1, 3, 5 ...
//                 +--- watch:  engine's connection, device eth0 ------ the order; how many messages were sent
//
// A rail that cannot be connected is left out. One that fails later ends the connection: what was told on the watch and
// does not come over a rail for some time is lost, and the receiver names the rail's device.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/net.h"

namespace sccl::net {

// A device of this end.
struct Rail {
  std::shared_ptr<Net> net;
  int device = 0;             // of `net`
  std::string name;           // for the log: "eth1 (10.0.1.7)"
  std::uint64_t network = 0;  // devices of one network reach each other
  int mbits_per_s = 0;        // 0: unknown
};

inline constexpr std::size_t kMostRails = 4;

struct RailSettings {
  // Whether devices of different networks are joined where those of one network are not found at both ends.
  enum class Crossing : std::uint8_t { never, allowed } crossing = Crossing::never;
  std::chrono::milliseconds connect_limit{1000};  // for further rails when the first has been connected
  std::chrono::milliseconds loss_limit{4500};     // for a message that was told
};

// At least one rail; the first one carries the watch. Ends with different numbers of rails work together.
std::unique_ptr<Net> over_rails(std::vector<Rail> rails, const RailSettings& settings);

}  // namespace sccl::net
