// Runs one rank's calls on the host: asks which plan serves a call, binds the plan to buffers and connections, and
// steps its lanes. step() returns when no lane can go on, so that one thread can drive several ranks.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/call/requests.h"
#include "runtime/call/stop.h"
#include "runtime/control/arrivals.h"
#include "runtime/host/choosing/chooser.h"
#include "runtime/host/connections.h"
#include "runtime/host/current_call.h"
#include "runtime/host/eager_calls.h"
#include "runtime/host/engine_use.h"
#include "runtime/host/health/call_health.h"
#include "runtime/host/health/progress.h"
#include "runtime/host/lanes/call_geometry.h"
#include "runtime/host/lanes/lane_progress.h"
#include "runtime/membership/membership.h"
#include "runtime/program/transfers.h"
#include "runtime/trace/call_trace.h"
#include "runtime/transport/mapped/mapped_buffers.h"
#include "runtime/waiting/waiter.h"

namespace sccl::runtime {

class Executor final : public WaitingCall {
 public:
  // All must outlive the executor; without a vendor's library `vendor` is null.
  Executor(const Membership& membership, const StopFlags& stop, VendorBackend* vendor = nullptr);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Begins a collective (count > 0, more than one rank), or a batch of point-to-point transfers. One at a time.
  // `options`: of this call, or null; they outlive it.
  void begin(const CollectiveRequest& request);
  void begin(const CollectiveRequest& request, const CallOptions* options);
  void begin(std::span<const PointToPointRequest> batch);

  using Progress = runtime::Progress;
  // One turn of every lane. Throws invalid_usage on a mismatch among ranks and remote_error when a peer's memory can
  // no longer be reached.
  Progress step() {
    if (!current_.lanes_alone) [[unlikely]]
      return step_observed();
    return note(lanes_.step());
  }

  // After Progress::idle: false while another step would be in vain for certain.
  bool may_go_on() const { return engine_.is_held() || lanes_.may_go_on(); }

  // The choice that serves the collective in progress; null while the ranks compare their buffers or await a decision,
  // and for a call that is reduced by the ranks that are there.
  const Choice* served() const {
    return current_.is_held_back() || arrival_.eager.is_active() || chooser_.vendor().is_deciding() ? nullptr
                                                                                                    : chooser_.served();
  }
  // After a turn that moved something: a call that never waits ends, too, when somebody wants that, or when a rank of a
  // communicator over hosts is gone.
  Progress look_up() { return health_.look_up(*this); }
  // Somebody else wants the call to end: check_health() says who.
  bool is_stopped() const { return health_.is_stopped(); }
  // See CallHealth::check.
  Progress check_health();

  // For a call that ends early: returns when no peer reads or writes this rank's buffers any more. If a peer has been
  // stopped while it uses a buffer, the pages are taken back from the peer.
  void withdraw();

  EngineUse& engine() { return engine_; }
  Chooser& chooser() { return chooser_; }
  // The waiter of the thread that makes this rank's calls.
  Waiter& waiter() { return waiter_; }

  const CallSignature* signature() const override { return current_.collective ? &current_.signature : nullptr; }
  std::vector<LaneWait> waits() const override;
  Progress advance() override { return step(); }

 private:
  void begin_settled(const CollectiveRequest& request, const CallOptions* options);
  void begin_again(const CollectiveRequest& request);
  void serve(const CollectiveRequest& request, Chooser::Buffers buffers, const CallWish* wish);
  Progress step_observed();
  Progress note(Progress progress) {
    if (lanes_.ended()) [[unlikely]]
      fail_ended();
    if (progress != Progress::idle) calls_.note_motion();
    if (progress == Progress::done) complete();
    return progress;
  }
  bool prepare();
  void complete();
  [[noreturn, gnu::cold]] void fail_ended() const;

  const Membership& membership_;
  Calls calls_;
  CallHealth health_;
  struct Arrival {
    ArrivalMeter meter;
    EagerCalls eager;
  };
  Arrival arrival_;
  Chooser chooser_;  // with the vendor's library, if there is one
  HostConnections connections_;
  MappedBuffers mapped_;
  CallGeometry geometry_;
  LaneProgress lanes_;
  TransferBatch transfers_;
  Waiter waiter_;
  EngineUse engine_;
  const std::unique_ptr<CallTrace> trace_;  // null without SCCL_TRACE
  const bool is_plain_;                     // no trace, engine between hosts or vendor's library
  CurrentCall current_;
};

}  // namespace sccl::runtime
