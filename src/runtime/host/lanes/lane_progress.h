// Steps the lanes of the call in progress on this thread: by the interpreter, or by ShortCall if every message is
// short.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kernels/host/short_call.h"
#include "kernels/host/target.h"
#include "runtime/control/control_plane.h"
#include "runtime/host/health/progress.h"
#include "runtime/host/lanes/call_geometry.h"
#include "runtime/host/lanes/lane_lead.h"

namespace sccl::runtime {

class LaneProgress {
 public:
  // `membership` must outlive this object.
  explicit LaneProgress(const Membership& membership);

  // A call with its geometry, its program and the program's connections. If only the buffers and the number of the call
  // are new, restart() is enough. `call` and `shape` must stay until the call ends.
  struct Start {
    const kernels::FlatProgram& program;
    const device::Call& call;
    const HostShape& shape;
    std::span<kernels::HostConnection> connections;
    const void* output = nullptr;
    bool new_geometry = true;
    std::optional<kernels::ShortCall::Carrier> short_by{};  // of the messages of a call that may be short
  };
  void start(const Start& start);
  // The last turn of a call has moved something: `lead_` is as at a start.
  void restart() {
    if (shape_->shown.any()) [[unlikely]]
      show_buffers();
    for (device::LaneState& lane : lanes_) lane = kFirstStep;
    unfinished_lanes_ = lanes_.size();
  }

  // The same for a call whose chunks lie elsewhere.
  void restart_elsewhere() {
    short_call_.take_places(*call_);
    restart();
  }

  // One turn of every lane. An outcome that ends the call is kept for the caller: see ended().
  Progress step() { return (this->*step_)(); }
  // After idle: false while another step is certain to move nothing. Costs one load.
  bool may_go_on() const { return target_.may_go_on(); }
  // may_go_on() is true until the next step: the caller waits for something else than lanes do.
  void awaits_anything() { target_.awaits_anything(); }

  // Why the call cannot go on; set by step().
  struct End {
    // mismatch, failed, or blocked: the peer took its buffers back and left
    device::Outcome outcome = device::Outcome::progressed;
    Rank peer = -1;
    int error = 0;  // errno, after failed
  };
  const std::optional<End>& ended() const { return ended_; }

  bool finished() const { return unfinished_lanes_ == 0; }
  // Payloads of this call lie in the caller's buffers until the engine has sent them.
  bool has_shown() const { return target_.has_shown(); }
  // What blocked lanes wait for.
  std::vector<LaneWait> waits() const;
  // The position of each lane. For a finished lane, `slice` is the number of slices.
  std::span<const device::LaneState> lanes() const { return lanes_; }

 private:
  template <class Wire>
  using InterpreterOf = device::Interpreter<kernels::HostTarget, device::OneProtocol<Wire>>;
  // Of one turn. size_t avoids a store-forwarding stall.
  struct Turn {
    std::size_t operations = 0;
    std::size_t unfinished = 0;  // lanes
  };

  static constexpr device::LaneState kFirstStep{0, 0, 0, -1, 0};

  void show_buffers() { target_.may_show(shape_->shown.of_call(call_->input, call_->output)); }
  Progress step_short();
  template <class Wire>
  Progress step_interpreted();
  Progress note(Turn turn);
  template <class Interpreter>
  Turn step_lanes(Interpreter& interpreter);
  template <class Interpreter>
  Turn step_together(Interpreter& interpreter);
  template <class Interpreter>
  device::Outcome step_lane(Interpreter& interpreter, std::size_t lane);
  device::u64 slice_of_slowest_lane() const;
  bool ends(device::Outcome outcome, std::size_t lane);
  void note_withdrawal(Rank peer);
  LaneWait wait_of(std::size_t lane) const;

  Withdrawal withdrawal_;
  PeerHealth health_;
  kernels::HostTarget target_;
  kernels::ShortCall short_call_;
  Progress (LaneProgress::*step_)() = nullptr;  // of the call's protocol, chosen when the call starts
  device::Program program_{};
  const device::Call* call_ = nullptr;
  const HostShape* shape_ = nullptr;
  std::span<kernels::HostConnection> connections_;
  std::vector<device::LaneState> lanes_;
  std::size_t unfinished_lanes_ = 0;
  LaneLead lead_;
  std::optional<End> ended_;
};

}  // namespace sccl::runtime
