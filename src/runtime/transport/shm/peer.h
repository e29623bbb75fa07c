// A peer as transports of the host see it: where it is, and the memory through which it receives, where this process
// can reach that.
#pragma once

#include <memory>
#include <vector>

#include "platform/host/segment.h"
#include "runtime/control/members.h"

namespace sccl::runtime {

struct Peer {
  Locality locality = Locality::host;
  int process = 0;                         // for copies by the system
  std::shared_ptr<host::Segment> segment;  // laid out by MemoryLayout; null for a rank of another host

  // Its buffers have the same addresses here.
  bool shares_address_space() const { return locality == Locality::process; }
};

}  // namespace sccl::runtime
