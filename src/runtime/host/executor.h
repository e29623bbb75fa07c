// Runs one rank's calls: binds a program to buffers and connections and steps its lanes. A call in progress gives the
// thread back whenever no lane can go on, so that one thread can drive several ranks.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/host/short_call.h"
#include "kernels/host/target.h"
#include "runtime/call/requests.h"
#include "runtime/call/signature.h"
#include "runtime/call/stop.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/tuning/chooser.h"
#include "runtime/control/memberships.h"
#include "runtime/control/waiter.h"
#include "runtime/membership/membership.h"
#include "runtime/program/transfers.h"
#include "runtime/transport/mapped/mapped_buffers.h"
#include "schedule/layout.h"

namespace sccl::runtime {

// What a reduction means for the kernel: which operation, which factor, whether the result is divided.
void apply_reduction(const Reduction& reduction, DataType type, int ranks, device::Call& call);

class Executor {
 public:
  // `stop` must outlive it.
  Executor(Membership membership, const StopFlags& stop);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Begins a collective (count > 0, more than one rank), or a batch of point-to-point transfers. One at a time.
  void begin(const CollectiveRequest& request);
  void begin(std::span<const PointToPointRequest> batch);

  enum class Progress : std::uint8_t { moved, idle, done };
  // One turn of every lane. Throws invalid_usage on a mismatch among ranks and remote_error when a peer's memory can
  // no longer be reached.
  Progress step();

  // After Progress::idle: false while another step would be in vain for certain. Costs one load.
  bool may_go_on() const { return target_.may_go_on(); }

  // The slow half of waiting: throws when this rank was aborted, a peer failed, left or died, or ranks disagree.
  // Called when nothing has moved for a while. What had arrived from a peer that left is taken meanwhile, which may
  // complete the call: the answer is step()'s.
  Progress check_health();

  // Somebody else wants the call to end: check_health() says who.
  bool is_stopped() const {
    return stop_.abort.load(std::memory_order_relaxed) || stop_.revoked.load(std::memory_order_relaxed);
  }

  // For messages: "AllReduce(count=4, float, sum) as call 7, waiting for rank 3".
  std::string waiting_text() const;
  // The ranks that the call in progress waits for.
  std::vector<Rank> awaited() const;

  // When a call ends early: returns when no peer reads or writes this rank's buffers any more. Of a peer that has been
  // stopped in the middle of it, the pages are taken away.
  void withdraw();

  // Returns when no peer is in the middle of reading or writing other ranks' buffers that it began to before now. False
  // when one has been for half a second.
  bool await_release() const;

  // What peers see of a failure of this rank (which also withdraws), and of its leaving.
  void publish_fault(int code, const std::string& text);
  void leave(Presence how);

  // Of the thread that makes this rank's calls.
  Waiter& waiter() { return waiter_; }
  host::Doorbell& bell() { return membership_.own_state().bell; }
  const Membership& membership() const { return membership_; }
  Membership& membership() { return membership_; }

 private:
  void connect_rings(MemoryLayout::RingKind kind);
  void show_call();
  void serve(const CollectiveRequest& request, Chooser::Buffers buffers);
  bool repeats(const CollectiveRequest& request) const;
  void begin_again(const CollectiveRequest& request);
  bool compare_buffers();
  void map_buffers(bool mapped);
  // As its own, not through the system.
  bool sees_peers_buffers() const { return maps_buffers_ || membership_.reach() == Reach::shared_space; }
  void fill_call(const CollectiveRequest& request, const Choice& choice, const Plan& plan);
  void fill_shape(const CollectiveRequest& request, const Choice& choice, const Plan& plan);
  struct Extent {
    std::size_t longest = 1;  // chunk; all in elements
    std::size_t input_end = 0;
    std::size_t output_end = 0;
  };
  Extent place_chunks(const CollectiveRequest& request, const Plan& plan);
  bool leaves_caches(const Extent& extent, std::size_t element_bytes) const;
  MemoryLayout::RingKind ring_kind_for(std::size_t longest_bytes) const;
  void start_lanes(const kernels::FlatProgram& program);
  using Interpreter = device::Interpreter<kernels::HostTarget>;
  // Whole words: a load of one that was stored in part waits for all stores before it, those to peers' slots among
  // them.
  struct Pass {
    std::size_t operations = 0;
    std::size_t unfinished = 0;  // lanes
  };
  Pass step_lanes(Interpreter& interpreter);
  Pass step_together(Interpreter& interpreter);
  device::u64 slice_of_slowest_lane() const;
  void check(device::Outcome outcome, std::size_t lane);
  device::Outcome step_lane(Interpreter& interpreter, std::size_t lane);
  const Peer* withdrawn_peer() const;
  void fail_withdrawn(const Peer& peer) const;
  [[noreturn]] void fail_mismatch(Rank peer);
  [[noreturn]] void fail_transfer();
  Progress check_peer(Rank rank);
  Progress check_completed(const Peer& peer, Rank rank);
  void check_gathering(const Peer& peer, Rank rank) const;
  void compare_calls(Rank rank);
  void compare_past_calls(Rank rank);
  void compare_all_calls();
  bool waits_for(Rank rank) const;

  void note_wait();
  void note_motion();

  Membership membership_;
  ListedMembership listed_{membership_};
  Waiter waiter_{membership_.ranks};
  const StopFlags& stop_;
  Chooser chooser_{membership_};
  MappedBuffers mapped_{membership_};
  std::vector<device::Connection> connections_;
  std::vector<kernels::SharedSlots> shared_slots_;  // of the connections
  std::vector<std::vector<device::u64>> stale_lines_;
  kernels::HostTarget target_;

  // The geometry that call_ has when it is a collective's: the same again needs no new one.
  struct Shape {
    const Plan* plan = nullptr;
    Form form = Form::slots;
    ProtocolChoice protocol = ProtocolChoice::simple;
    std::size_t slice_bytes = 0;
    std::size_t count = 0;
    DataType type = DataType::int8;
    bool maps_buffers = false;
    bool operator==(const Shape&) const = default;
  };
  Shape shape_;
  kernels::ShortCall short_call_;
  std::size_t streamed_bytes_ = 0;  // of the receive buffer: all, or none

  // The call in progress.
  std::span<device::Connection> call_connections_;  // as its program numbers them: of its kind
  CallSignature signature_;
  const CollectiveInfo* about_ = nullptr;  // its collective
  bool collective_ = false;
  bool repeatable_ = false;      // the same call again is served the same way
  bool compares_calls_ = false;  // with all ranks', at its end
  bool runs_short_ = false;      // by short_call_
  bool lanes_in_turn_ = false;   // a slice of each
  bool moves_together_ = false;  // those of lanes that can go on
  std::uint64_t call_hash_ = 0;
  std::optional<CollectiveRequest> comparing_;             // begins when the ranks have compared their buffers
  bool maps_buffers_ = false;                              // all of them, all ranks'
  std::vector<device::u64> input_shifts_, output_shifts_;  // by rank, then
  bool touches_peers_ = false;                             // reads and writes their buffers
  device::Program program_{};
  device::Call call_{};
  std::vector<schedule::ChunkPlace> places_;
  std::vector<device::Chunk> chunks_;
  std::vector<device::LaneState> lanes_;
  std::vector<device::u8> scratch_;
  std::size_t unfinished_lanes_ = 0;

  TransferBatch transfers_;
  std::uint64_t calls_ = 0;
};

}  // namespace sccl::runtime
