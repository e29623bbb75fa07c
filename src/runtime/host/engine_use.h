// One rank's use of the engine between hosts, in the thread that makes the rank's calls.
//
// While a thread makes calls whose messages go to other hosts, the engine is that thread's: from the first such call on
// until the turn ends, except while the thread sleeps. Calls among the ranks of one host leave the engine to its own
// thread. If all ranks are on one host, there is no engine, and nothing here does anything.
#pragma once

#include <atomic>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "kernels/host/messages/landing.h"
#include "runtime/control/control_plane.h"
#include "runtime/host/health/call_health.h"
#include "runtime/host/health/missing_messages.h"
#include "runtime/host/health/progress.h"
#include "runtime/host/lanes/lane_progress.h"
#include "runtime/transport/net/net_transport.h"
#include "runtime/waiting/waiter.h"

namespace sccl::runtime {

class EngineUse {
 public:
  // `net`: null if no rank is remote. Both must outlive this object.
  EngineUse(NetTransport* net, Waiter& waiter) : net_(net), waiter_(waiter) {}
  EngineUse(const EngineUse&) = delete;
  EngineUse& operator=(const EngineUse&) = delete;

  // The time in which this thread may hold the engine.
  class Turn {
   public:
    explicit Turn(EngineUse& engine) : engine_(engine) {}
    ~Turn() { end(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void end() { engine_.leave(); }

   private:
    EngineUse& engine_;
  };

  bool exists() const { return net_ != nullptr; }
  // Null if all ranks are on one host.
  NetTransport* net() const { return net_; }
  bool is_held() const { return is_held_; }
  void before_sleep() {
    if (is_held_) net_->turns().sleep();
  }
  void after_sleep() {
    if (is_held_) net_->turns().wake();
  }

  // A call begins. If its program has messages for other hosts, makes connections to their ranks and takes the engine.
  struct Work {
    device::Program program{};
    std::span<const kernels::HostConnection> connections;
    const device::Call* call = nullptr;
    const HostShape* shape = nullptr;
  };
  void begin(const Work& work);
  // The same for a call that has the program of the last one.
  void begin_again() {
    lanes_wait_ = has_looked_ = false;
    if (!leaves_host_) return;
    enter();
    if (work_.shape->shown.lands) [[unlikely]]
      begin_landings();
  }
  // For a call that waits for ranks of this host: the engine's own thread drives it meanwhile.
  void leave() {
    if (!std::exchange(is_held_, false)) return;
    if (!landings_.empty()) [[unlikely]] {  // the call ends early
      end_landings();
      net_->unsent(NetTransport::Unsent::to_come_is_lost);
    }
    if (std::exchange(has_shown_, false)) [[unlikely]] {  // the call ends early
      net_->unsent(NetTransport::Unsent::of_buffers_is_lost);
      unsent_.clear();
    }
    waiter_.expect(Waiter::Polls::memory);
    net_->leave();
  }
  // A call ends early: when this returns, nothing comes into its result any more. For the thread that makes the call.
  void end_receives() {
    end_landings();
    if (is_held_) net_->unsent(NetTransport::Unsent::to_come_is_lost);
  }
  // What the call that has begun exchanges with ranks of other hosts.
  std::vector<RemoteTraffic> traffic() const;
  // Only while the engine is held. Steps the lanes, gives the engine messages to send, then takes those that it has
  // received: ranks that exchange messages send at the same time, and not each after it has looked for the other's.
  // A call has not ended before the engine has sent what lies in the call's buffers.
  Progress step(LaneProgress& lanes);
  // The ranks for which payloads of a call lie in its buffers, after its lanes have ended.
  const std::vector<Rank>& unsent() const { return unsent_; }
  // For a call in which nothing moves, while the engine is held: throws remote_error if a connection to a rank that the
  // call awaits has failed, or loses messages.
  void check(const ControlPlane& control, const WaitingCall& call);

  // Some call of this rank ended early. When this returns, no rank of another host writes into this rank's windows any
  // more. For any thread.
  void note_early_end();
  // Before this rank leaves: waits until its messages have reached its peers, only briefly if the rank was aborted.
  // Does nothing if one of the rank's calls has ended early.
  void drain(const PeerHealth& health, Presence left);

 private:
  // An operation that sends to another host what it, or one that it waits for, takes from a rank of this host.
  struct Forward {
    device::u32 lane;
    device::u32 op;
  };

  void enter();
  void find_forwards();
  // Whether one of them is the next operation of its lane.
  bool will_forward(const LaneProgress& lanes) const;
  void begin_landings();
  void end_landings() {
    for (kernels::Landing* const landing : landings_) landing->end();
    landings_.clear();
  }
  Progress wait_for_shown(bool left);
  // Calls `visit(peer, direction)` for every message of a slice.
  template <typename Visit>
  void visit_messages(Visit&& visit) const;
  bool use(Rank peer);

  NetTransport* const net_;
  Waiter& waiter_;
  Work work_;                                // that has begun
  bool is_held_ = false;                     // between enter and leave of net_
  bool leaves_host_ = false;                 // the last call's program has messages for other hosts
  bool lanes_wait_ = false;                  // for a message, since their last step
  bool has_looked_ = false;                  // the last step moved something, and found no message after that
  std::vector<Forward> forwards_;            // of the program that has begun; short calls of crowded ranks only
  std::vector<kernels::Landing*> landings_;  // of the call in progress
  std::vector<Rank> unsent_;
  MissingMessages missing_;
  bool has_shown_ = false;  // the call in progress has payloads that lie in its buffers until they are sent
  std::atomic<bool> ended_early_{false};
};

}  // namespace sccl::runtime
