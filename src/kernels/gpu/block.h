// The interpreter's target on a GPU: a block of threads whose leader decides and whose members move data together.
//
//   leader                                   the others
//   await: polls until the lane can go on    wait at the barrier
//   ---------------------- barrier: what the leader and the peers wrote is visible ----------------------
//   all move data
//   ---------------------- barrier: all data of the block is written -------------------------------------
//   commit: publishes, advances              go to the next barrier
//
// The leader's acquire and the barrier make a peer's payload visible to all threads of the block; the barrier and the
// leader's release (a fence and a store of system scope) make the block's payload visible to the peer.
#pragma once

#include "kernels/gpu/arguments.h"
#include "kernels/gpu/reduce_copy.h"
#include "kernels/gpu/stop_signs.h"
#include "kernels/gpu/target.h"

namespace sccl::device::gpu {

// The part of a block's shared memory whose size is known.
struct BlockMemory {
  Call call;
  Program program;
  u32 words[2];  // what the leader tells, in turns
  bool stopped;
  Chunk chunks[kInlineChunks];
};

template <class Mover>
class Block {
 public:
  using Connection = DeviceConnection;
  static constexpr bool kAlone = false;
  using Ll = LowLatency<Block>;
  static constexpr bool kLendsSlots = false;
  static constexpr u32 depth(const Connection&) { return kSlotCount; }
  static constexpr bool kKeepsLines = true;  // what a link does is the runtime's to know

  Block(const CallArguments& arguments, BlockMemory& memory, u8* places, bool lone_lane)
      : arguments_(arguments), memory_(memory), places_(places), lone_lane_(lone_lane) {}

  static u64 load_acquire(const u64* from) { return load_acquire_system(from); }
  static u64 load_relaxed(const u64* from) { return load_word_system(from); }
  static void store_release(u64* to, u64 value) { store_release_system(to, value); }
  static void store_relaxed(u64* to, u64 value) { store_word_system(to, value); }
  static u64 load_lane(const u64* from) { return load_acquire_device(from); }
  static void store_lane(u64* to, u64 value) { store_release_device(to, value); }
  static void fence() {}  // rings no bells; every store of a flag is a release of its own
  static void copy_word(void* to, const void* from, u64 bytes) {
    SCCL_ROLLED for (u64 i = 0; i < bytes; ++i) static_cast<u8*>(to)[i] = static_cast<const u8*>(from)[i];
  }
  static u64 one_bits(DataType type) { return one_of(type); }

  static u32 thread() { return thread_index(); }
  static u32 threads() { return thread_count(); }
  static bool leads() { return thread_index() == 0; }
  static void sync() { block_sync(); }
  static u32 warp_lanes() { return gpu::warp_lanes(); }
  static bool warp_all(bool mine) { return gpu::warp_all(mine); }
  static LinePart load_line_part(const u64* from, bool active) { return gpu::load_line_part(from, active); }
  static void store_line_part(u64* to, const LinePart& part, bool active) { gpu::store_line_part(to, part, active); }

  template <typename Function>
  static bool all(Function&& function) {
    return block_all(function());
  }
  template <typename Function>
  static void commit(Function&& function) {
    block_sync();
    if (leads()) function();
  }
  template <typename Function>
  auto agree(Function&& function) {
    using Result = decltype(function());
    u32& word = memory_.words[turn_];
    turn_ ^= 1;  // the word before is read until the next barrier
    if (leads()) word = static_cast<u32>(function());
    block_sync();
    return static_cast<Result>(word);
  }
  // As agree; a leader that has nothing else to do stays until something can go on.
  template <typename Function>
  Outcome await(Function&& function) {
    return agree([&] {
      Outcome outcome = function();
      while (outcome == Outcome::blocked && lone_lane_ && !must_stop()) {
        pause();
        outcome = function();
      }
      return outcome;
    });
  }

  Source* sources() { return reinterpret_cast<Source*>(places_); }
  u8** sinks() { return reinterpret_cast<u8**>(places_ + arguments_.most_operands * sizeof(Source)); }
  u8* bounce(u32 operand) { return bounce_ + (operand + 1) * arguments_.bounce_bytes; }
  u8* result() { return bounce_; }
  void enter_lane(u32 lane, const LaneState& state) {
    state_ = &state;
    lane_ = lane;
    bounce_ = arguments_.bounce + static_cast<u64>(lane) * arguments_.bounce_buffers * arguments_.bounce_bytes;
  }

  void reduce_copy(const Call& call, const Source* sources, u32 source_count, bool scaled, u8* const* sinks,
                   u32 sink_count, u64 elements, u32 divisor) const {
    move_block<Mover>(sources, source_count, sinks, sink_count, elements, divisor, call.element_bytes, scaled);
  }

  // Programs that ask for it are not given to devices: peers' memory is mapped, or slots are used.
  static bool fetch(const Connection&, u8*, u64, u64) { return false; }
  static bool put(const Connection&, u64, const u8*, u64) { return false; }
  static void ring(const Connection&) {}
  static void ring_after_fence(const Connection&) {}
  static void awaits(const u64*, u32, u64, const void*) {}
  static void fills_slot(u32, const Connection&) {}

  // Whether the block has been told to stop; all threads get the same answer.
  bool stopped() {
    return agree([&] { return must_stop(); });
  }
  // The leader's: notes why, for the host and for the other ranks. Only the first reason counts.
  void stop(StopReason reason, int peer) {
    tell_host(arguments_.host, reason, static_cast<u64>(peer));
    SCCL_ROLLED for (u32 rank = 0; rank < arguments_.ranks; ++rank) {
      Control* const control = arguments_.peer_controls[rank];
      if (control == nullptr || load_relaxed_system(&control->stop) != 0) continue;
      store_relaxed_system(&control->stop_peer, arguments_.rank);
      store_release_system(&control->stop, static_cast<u64>(rank == arguments_.rank ? reason : StopReason::peer));
    }
  }

 private:
  bool must_stop() {
    if (!stop_seen_) stop_seen_ = signs_.look(arguments_, state_->blocked_on_peer, state_, lane_);
    return stop_seen_;
  }

  const CallArguments& arguments_;
  BlockMemory& memory_;
  u8* places_;
  u8* bounce_ = nullptr;
  bool lone_lane_;
  u32 turn_ = 0;
  StopSigns signs_;
  bool stop_seen_ = false;
  const LaneState* state_ = nullptr;
  u32 lane_ = 0;
};

}  // namespace sccl::device::gpu
