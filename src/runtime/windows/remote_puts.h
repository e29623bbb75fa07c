// One-sided calls over hosts, at the rank that makes them: puts whose target is on another host, and the engine that
// brings other ranks' puts while this rank waits for their signals.
//
// A put returns when its data may change: they are in frames of the link then. The target takes them without making a
// call (transport/net/puts/window_table.h), so a put into a full link waits for no call of the target.
#pragma once

#include <functional>
#include <vector>

#include "runtime/call/window.h"
#include "runtime/control/control_all_gather.h"
#include "runtime/control/control_plane.h"
#include "runtime/transport/net/net_transport.h"

namespace sccl::runtime {

// For the thread that makes this rank's calls.
class RemotePuts {
 public:
  // All arguments must outlive this object.
  RemotePuts(const ControlPlane& control, ControlAllGather& control_all_gather, NetTransport& net)
      : control_(control), control_all_gather_(control_all_gather), net_(net) {}

  bool serves(Rank peer) const { return net_.reaches(peer); }
  WindowTable& windows() { return net_.memory().windows; }

  // `check` is called while the put waits, and may throw. Throws the errors of ControlAllGather, and remote_error if
  // the connection to the target is lost.
  void put(const PutRequest& request, const char* purpose, const std::function<void()>& check);

  // Calls `done` until it returns true, as ControlAllGather::wait_until does, and drives the engine in between.
  // `ranks`: for whom this rank waits; `done` may change it.
  void wait_until(const char* purpose, const std::vector<Rank>& ranks, const std::function<bool()>& done);

 private:
  void drive_until(const char* purpose, const std::vector<Rank>& ranks, const std::function<bool()>& done);
  void check_links(const char* purpose, const std::vector<Rank>& ranks) const;

  const ControlPlane& control_;
  ControlAllGather& control_all_gather_;
  NetTransport& net_;
};

}  // namespace sccl::runtime
