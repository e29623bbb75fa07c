// Joins what the ranks of each host have reduced (program/eager_reduction.h). The first rank of each host exchanges
// blocks of sums with the first ranks of the others, by a schedule for as many ranks as there are hosts, over the
// connections of all other calls.
//
// Who makes a host's sum follows from who comes when, and no other host can know it: so one rank is bound to the
// exchange in advance. By then it has come, as the sum holds its data.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/call/requests.h"
#include "runtime/call/signature.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/host/connections.h"
#include "runtime/host/engine_use.h"
#include "runtime/host/health/progress.h"
#include "runtime/host/lanes/call_geometry.h"
#include "runtime/host/lanes/lane_progress.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

// What moves the messages of a rank's calls.
struct CallParts {
  HostConnections& connections;
  CallGeometry& geometry;
  LaneProgress& lanes;
  EngineUse& engine;
};

class HostExchange {
 public:
  // `membership` and the parts must outlive this object.
  HostExchange(const Membership& membership, const CallParts& parts);

  // A call whose blocks follow.
  void begin(const CollectiveRequest& request, const CallSignature& signature);
  // Replaces this host's sums by the sums of all hosts: at all hosts or, for a Reduce, at the root's.
  void start(std::byte* sums, std::size_t elements);
  bool is_active() const { return is_active_; }
  // Not active any more after Progress::done.
  Progress step();
  // No block can be exchanged yet.
  void rest() { parts_.engine.leave(); }
  std::vector<LaneWait> waits() const { return parts_.lanes.waits(); }

 private:
  Choice choice(std::size_t bytes) const;

  const Membership& membership_;
  const CallParts parts_;
  PlanCache plans_;
  CollectiveRequest request_{};  // over hosts: its ranks are hosts
  std::uint32_t message_hash_ = 0;
  HostShape shape_;
  bool is_active_ = false;
};

}  // namespace sccl::runtime
