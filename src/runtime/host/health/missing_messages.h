// Messages that a rank of another host has sent, and that do not come though the hosts hear of each other: the network
// holds them back for ever. The sender tells over the control connections how many it has sent (SentCounts).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "runtime/host/health/call_health.h"
#include "runtime/transport/net/net_transport.h"

namespace sccl::runtime {

class MissingMessages {
 public:
  // Called again and again in a long wait, with the engine. Throws remote_error if messages of a rank that the call
  // waits for are missing, and none has come from there, for as long as an interruption may hold them up.
  void check(const ControlPlane& control, const NetTransport& net, const WaitingCall& call);

 private:
  using Clock = std::chrono::steady_clock;
  struct Missing {
    std::uint64_t received;
    std::chrono::milliseconds since;  // as far as this rank has looked
    Clock::time_point looked;
  };
  std::map<Rank, Missing> missing_;
};

}  // namespace sccl::runtime
