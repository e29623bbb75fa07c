// A peer, for transports of the host: its locality, and the memory through which it receives messages.
#pragma once

#include <memory>
#include <vector>

#include "platform/host/segment.h"
#include "runtime/control/members.h"

namespace sccl::runtime {

struct Peer {
  Locality locality = Locality::host;
  int process = 0;                         // process id, for copies by the system
  std::shared_ptr<host::Segment> segment;  // laid out by MemoryLayout; null for a rank of another host

  // The peer's buffers have the same addresses in this process.
  bool shares_address_space() const { return locality == Locality::process; }
};

}  // namespace sccl::runtime
