// Runs one rank's calls on the host: asks which plan serves a call, binds the plan to buffers and connections, and
// steps its lanes. step() returns when no lane can go on, so that one thread can drive several ranks.
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
#include "runtime/program/transfers.h"
#include "runtime/trace/call_trace.h"
#include "runtime/transport/mapped/mapped_buffers.h"
#include "runtime/waiting/waiter.h"

namespace sccl::runtime {

class Executor final : private WaitingCall {
 public:
  // Both must outlive the executor.
  Executor(const Membership& membership, const StopFlags& stop);
  ~Executor() override = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Begins a collective (count > 0, more than one rank), or a batch of point-to-point transfers. One at a time.
  void begin(const CollectiveRequest& request);
  void begin(const CollectiveRequest& request, const CallOptions& options);
  void begin(std::span<const PointToPointRequest> batch);

  using Progress = runtime::Progress;
  // One turn of every lane. Throws invalid_usage on a mismatch among ranks and remote_error when a peer's memory can
  // no longer be reached.
  Progress step() {
    if (!is_plain_ || comparing_) [[unlikely]]
      return step_observed();
    return note(lanes_.step());
  }

  // After Progress::idle: false while another step would be in vain for certain.
  bool may_go_on() const { return has_engine_ || lanes_.may_go_on(); }

  // The engine between hosts is this thread's while it makes calls whose messages go to other hosts, but for the time
  // that it sleeps: from the first such call on until the turn ends. Nothing of it exists where all ranks are on one
  // host, and calls among those of one host leave it to the engine's own thread.
  class EngineTurn {
   public:
    explicit EngineTurn(Executor& executor) : executor_(executor) {}
    ~EngineTurn() { end(); }
    EngineTurn(const EngineTurn&) = delete;
    EngineTurn& operator=(const EngineTurn&) = delete;
    void end() { executor_.leave_engine(); }

   private:
    Executor& executor_;
  };
  void before_sleep() {
    if (has_engine_) net_->before_sleep();
  }
  void after_sleep() {
    if (has_engine_) net_->after_sleep();
  }
  // The choice that serves the collective in progress; null while the ranks compare their buffers.
  const Choice* served() const { return comparing_ ? nullptr : chooser_.served(); }
  // After a turn that moved something: a call that never waits ends, too, when somebody wants that, or when a rank of a
  // communicator over hosts is gone.
  Progress look_up() { return health_.look_up(*this); }
  // See Chooser.
  bool can_serve(const std::string& algorithm, Collective collective, Rank root) {
    return chooser_.can_serve(algorithm, collective, root);
  }
  // Somebody else wants the call to end: check_health() says who.
  bool is_stopped() const { return health_.is_stopped(); }

  // See CallHealth::check.
  Progress check_health();
  // For messages: "AllReduce(count=4, float, sum) as call 7, waiting for rank 3".
  std::string waiting_text() const { return CallHealth::text(*this); }
  // The ranks that the call in progress waits for.
  std::vector<Rank> awaited() const { return CallHealth::awaited(*this); }

  // For a call that ends early: returns when no peer reads or writes this rank's buffers any more. If a peer has been
  // stopped while it uses a buffer, the pages are taken back from the peer.
  void withdraw();
  // Before this rank is destroyed normally: waits until its messages have reached its peers. Does nothing if one of its
  // calls has ended early.
  void drain();
  // Ends background work soon. For any thread.
  void interrupt() { chooser_.interrupt(); }

  // The waiter of the thread that makes this rank's calls.
  Waiter& waiter() { return waiter_; }
  host::Doorbell& bell() const { return membership_.control.bells().own(); }

 private:
  const CallSignature* signature() const override { return current_.collective ? &current_.signature : nullptr; }
  std::vector<LaneWait> waits() const override;
  Progress advance() override { return step(); }

  void serve(const CollectiveRequest& request, Chooser::Buffers buffers);
  // Of the call that begins; null where it asks for nothing.
  const CallWish* own_wish() const { return asked_ != nullptr && !asked_->wish.empty() ? &asked_->wish : nullptr; }
  bool repeats(const CollectiveRequest& request) const;
  void begin_again(const CollectiveRequest& request);
  Progress step_observed();
  Progress note(Progress progress) {
    if (lanes_.ended()) [[unlikely]]
      fail_ended();
    if (progress != Progress::idle) calls_.note_motion();
    if (progress == Progress::done) complete();
    return progress;
  }
  bool compare_buffers();
  bool use_remote_peers(const kernels::FlatProgram& program, std::span<const kernels::HostConnection> connections);
  void enter_engine();
  void leave_engine() {
    if (!std::exchange(has_engine_, false)) return;
    waiter_.expect(Waiter::Polls::memory);
    net_->leave();
  }
  Progress step_lanes();
  void complete();
  [[gnu::cold]] void measure_arrival();
  // For the trace; cold, because calls without a trace must not pay for it.
  [[gnu::cold]] void trace_begin();
  [[gnu::cold]] void trace_choice(const Choice& choice);
  [[gnu::cold]] void trace_progress(Progress progress);
  [[noreturn, gnu::cold]] void fail_ended() const;

  const Membership& membership_;
  Calls calls_;
  CallHealth health_;
  ArrivalMeter arrivals_;
  Chooser chooser_;
  HostConnections connections_;
  NetTransport* const net_;   // of connections_; null: no rank is remote
  bool has_engine_ = false;   // between enter and leave of net_
  bool leaves_host_ = false;  // the geometry's program has messages for other hosts
  MappedBuffers mapped_;
  CallGeometry geometry_;
  LaneProgress lanes_;
  TransferBatch transfers_;
  Waiter waiter_;
  const std::unique_ptr<CallTrace> trace_;  // null without SCCL_TRACE
  const bool is_plain_;                     // no trace, and no engine between hosts: one test in every step

  // The call in progress, or the last one.
  struct Current {
    CallSignature signature;
    std::uint64_t hash = 0;  // of the signature without its number
    bool collective = false;
    bool repeatable = false;  // a repetition of the call is served the same way
    bool compares = false;    // at its end, the call compares its signature with all ranks' signatures
  };
  Current current_;
  const CallOptions* asked_ = nullptr;          // while a call with options begins
  std::atomic<bool> ended_early_{false};        // some call; set by whichever thread ends it
  std::uint64_t count_ = 0;                     // of collectives
  std::optional<CollectiveRequest> comparing_;  // this call begins when the ranks have compared their buffers
};

}  // namespace sccl::runtime
