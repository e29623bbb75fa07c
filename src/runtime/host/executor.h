// Runs one rank's calls on the host: asks which plan serves a call, binds it to buffers and connections, and steps its
// lanes. A call in progress gives the thread back whenever no lane can go on, so that one thread can drive several
// ranks.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/call/requests.h"
#include "runtime/call/signature.h"
#include "runtime/call/stop.h"
#include "runtime/control/arrivals.h"
#include "runtime/host/call_geometry.h"
#include "runtime/host/call_health.h"
#include "runtime/host/chooser.h"
#include "runtime/host/connections.h"
#include "runtime/host/lane_progress.h"
#include "runtime/host/progress.h"
#include "runtime/membership/membership.h"
#include "runtime/program/eager_tree.h"
#include "runtime/program/transfers.h"
#include "runtime/trace/call_trace.h"
#include "runtime/transport/mapped/mapped_buffers.h"
#include "runtime/waiting/waiter.h"

namespace sccl::runtime {

class Executor final : private WaitingCall {
 public:
  // Both must outlive it.
  Executor(const Membership& membership, const StopFlags& stop);
  ~Executor() override = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Begins a collective (count > 0, more than one rank), or a batch of point-to-point transfers. One at a time.
  void begin(const CollectiveRequest& request);
  void begin(std::span<const PointToPointRequest> batch);

  using Progress = runtime::Progress;
  // One turn of every lane. Throws invalid_usage on a mismatch among ranks and remote_error when a peer's memory can
  // no longer be reached.
  Progress step();

  // After Progress::idle: false while another step would be in vain for certain.
  bool may_go_on() const { return net_ != nullptr || is_eager() || lanes_.may_go_on(); }

  // The engine between hosts is this thread's from beginning to end of a call, but for the time that it sleeps. Nothing
  // of it exists where all ranks are on one host.
  class EngineTurn {
   public:
    explicit EngineTurn(Executor& executor) : net_(executor.net_) {
      if (net_ != nullptr) net_->enter();
    }
    ~EngineTurn() { end(); }
    EngineTurn(const EngineTurn&) = delete;
    EngineTurn& operator=(const EngineTurn&) = delete;
    void end() {
      if (net_ != nullptr) std::exchange(net_, nullptr)->leave();
    }

   private:
    NetTransport* net_;
  };
  void before_sleep() {
    if (net_ != nullptr) net_->before_sleep();
  }
  void after_sleep() {
    if (net_ != nullptr) net_->after_sleep();
  }
  // What serves the collective in progress; null while the ranks compare their buffers.
  const Choice* served() const { return comparing_ || is_eager() ? nullptr : chooser_.served(); }
  // Somebody else wants the call to end: check_health() says who.
  bool is_stopped() const { return health_.is_stopped(); }

  // See CallHealth::check.
  Progress check_health();
  // For messages: "AllReduce(count=4, float, sum) as call 7, waiting for rank 3".
  std::string waiting_text() const { return CallHealth::text(*this); }
  // The ranks that the call in progress waits for.
  std::vector<Rank> awaited() const { return CallHealth::awaited(*this); }

  // When a call ends early: returns when no peer reads or writes this rank's buffers any more. Of a peer that has been
  // stopped in the middle of it, the pages are taken away.
  void withdraw();
  // Before this rank leaves in peace: what it has sent reaches its peers, unless a call of it has ended early.
  void drain();
  // From any thread: background work ends soon.
  void interrupt() { chooser_.interrupt(); }

  // Of the thread that makes this rank's calls.
  Waiter& waiter() { return waiter_; }
  host::Doorbell& bell() const { return membership_.control.bells().own(); }

 private:
  const CallSignature* signature() const override { return current_.collective ? &current_.signature : nullptr; }
  std::vector<LaneWait> waits() const override;
  Progress advance() override { return step(); }

  void serve(const CollectiveRequest& request, Chooser::Buffers buffers);
  bool repeats(const CollectiveRequest& request) const;
  void begin_again(const CollectiveRequest& request);
  bool compare_buffers();
  void use_peers(const kernels::FlatProgram& program, std::span<const kernels::HostConnection> connections);
  Progress step_lanes();
  bool is_eager() const { return eager_ && eager_->is_active(); }
  Progress step_eager();
  void complete();
  [[gnu::cold]] void measure_arrival();
  // For the trace; out of the way of calls without one.
  [[gnu::cold]] void trace_begin();
  [[gnu::cold]] void trace_choice(const Choice& choice);
  [[gnu::cold]] void trace_progress(Progress progress);
  [[noreturn]] void fail_ended() const;

  const Membership& membership_;
  Calls calls_;
  CallHealth health_;
  ArrivalMeter arrivals_;
  Chooser chooser_;
  HostConnections connections_;
  NetTransport* const net_;  // of connections_; null: no rank is remote
  MappedBuffers mapped_;
  CallGeometry geometry_;
  LaneProgress lanes_;
  TransferBatch transfers_;
  const std::unique_ptr<EagerTree> eager_;  // null without SCCL_ARRIVAL=eager
  Waiter waiter_;
  const std::unique_ptr<CallTrace> trace_;  // null without SCCL_TRACE

  // The call in progress, or the last one.
  struct Current {
    CallSignature signature;
    std::uint64_t hash = 0;  // of the signature without its number
    bool collective = false;
    bool repeatable = false;  // the same call again is served the same way
    bool compares = false;    // with all ranks', at its end
  };
  Current current_;
  std::atomic<bool> ended_early_{false};        // some call; set by whichever thread ends it
  std::uint64_t count_ = 0;                     // of collectives
  std::optional<CollectiveRequest> comparing_;  // begins when the ranks have compared their buffers
};

}  // namespace sccl::runtime
