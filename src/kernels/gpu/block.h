// The interpreter's target on a GPU: a block of threads. The leader decides; all threads move data together.
//
//   leader                                   the others
//   await: polls until the lane can go on    wait at the barrier
//   ---------------------- barrier: all threads see what the leader and the peers wrote ------------------
//   all move data
//   ---------------------- barrier: all data of the block is written -------------------------------------
//   commit: publishes, advances              go to the next barrier
//
// The leader's fences stand next to the barriers: one fence after all polls of an operation, one before everything that
// the leader publishes (kernels/device/protocol.h has the argument). A poll is one relaxed load of the word that the
// leader waits for.
#pragma once

#include "kernels/gpu/arguments.h"
#include "kernels/gpu/reduce_copy.h"
#include "kernels/gpu/stop_signs.h"
#include "kernels/gpu/target.h"

namespace sccl::device::gpu {

// What all threads of the block move between the two halves of a step. No sinks: nothing.
struct HeldMove {
  u32 sources;
  u32 sinks;
  u32 divisor;
  bool scaled;
  u64 elements;
};

// The part of a block's shared memory that has a fixed size.
struct BlockMemory {
  Call call;
  Program program;
  Begun begun;
  HeldMove move;
  // Of this channel; in shared memory if staged:
  DeviceConnection* connections;
  LaneState* lanes;
  u32 words[2];  // what the leader tells all threads; used in turns
  // Leader only. Kept here so that they take no registers while data moves.
  const u64* watched;
  u64 seen;
  StopSigns signs;
  bool stop_seen;
  bool stopped;            // true: the kernel ends before it touches anything of the call
  const LaneState* state;  // of the lane that the leader steps; `lane` counts through all channels
  u32 lane;
  Chunk chunks[kInlineChunks];
};

inline Source* source_places(u8* places) { return reinterpret_cast<Source*>(places); }
inline u8** sink_places(u8* places, u32 most_operands) {
  return reinterpret_cast<u8**>(places + most_operands * sizeof(Source));
}

// Not a member of Block, so that the compiler knows that `memory` and `places` are shared memory.
template <class Mover>
inline void make_move(const CallArguments& arguments, const BlockMemory& memory, u8* places) {
  block_sync();
  const HeldMove& move = memory.move;
  move_block<Mover>(source_places(places), move.sources, sink_places(places, arguments.most_operands), move.sinks,
                    move.elements, move.divisor, {memory.call.type, memory.call.kernel, memory.call.element_bytes},
                    move.scaled);
}

class Block {
 public:
  using Connection = DeviceConnection;
  static constexpr bool kAlone = false;
  using Ll = LowLatency<Block>;
  static constexpr bool kLendsSlots = false;
  static constexpr bool shares_slots(const Call&, const Connection&) { return false; }
  static constexpr u32 depth(const Connection&) { return kSlotCount; }
  static u8* slots(const Connection& connection, u64 bytes) {
    return connection.payload + (bytes > kMostShortBytes ? connection.long_shift : 0);
  }
  // No fence orders this word and the flag: each tells the message that it belongs to.
  static void tell_length(const Connection& connection, SlotHeader& header, u64 bytes) {
    if (connection.travels != 0) store_published(&header.told, told_length(bytes, connection.position));
  }
  static constexpr bool kKeepsLines = true;  // the runtime decides which links carry lines

  Block(const CallArguments& arguments, BlockMemory& memory, u8* places, bool lone_lane)
      : arguments_(arguments), memory_(memory), places_(places), lone_lane_(lone_lane) {}

  static constexpr bool kSignedFlags = true;
  static u64 load_polled(const u64* from) { return load_relaxed_system(from); }
  static void store_published(u64* to, u64 value) { store_relaxed_system(to, value); }
  static u64 load_relaxed(const u64* from) { return load_word_system(from); }
  static void store_relaxed(u64* to, u64 value) { store_word_system(to, value); }
  static u64 load_lane(const u64* from) { return load_relaxed_system(from); }
  static void store_lane(u64* to, u64 value) { store_relaxed_system(to, value); }
  static void acquire(Scope scope) { fence_of(scope); }
  static void release(Scope scope) { fence_of(scope); }
  static void fence() {}  // rings no bells
  static void copy_word(void* to, const void* from, u64 bytes) {
    SCCL_ROLLED for (u64 i = 0; i < bytes; ++i) static_cast<u8*>(to)[i] = static_cast<const u8*>(from)[i];
  }
  static u64 one_bits(DataType type) { return one_of(type); }

  // Polls of a word before the leader looks whether to wait on.
  u32 patience() const { return lone_lane_ ? 64 : 1; }
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
    turn_ ^= 1;  // threads read the other word until the next barrier
    if (leads()) word = static_cast<u32>(function());
    block_sync();
    return static_cast<Result>(word);
  }
  // As agree(), but a leader with a single lane polls until the lane can go on. One place calls the function, so that
  // the kernel contains its code once.
  template <typename Function, typename Then>
  Outcome await(Function&& function, Then&& then) {
    return agree([&] {
      Outcome outcome;
      do outcome = function();
      while (outcome == Outcome::blocked && lone_lane_ && word_changes());
      if (outcome == Outcome::progressed) then();
      return outcome;
    });
  }
  Begun& begun(Begun&) { return memory_.begun; }
  void watch(const u64* word, u64 seen) {
    memory_.watched = word;
    memory_.seen = seen;
  }
  // `lanes` may be a staged copy; other blocks read a lane's progress in the original.
  u64* lane_word(LaneState*, u32 lane) const {
    const u32 channel = block_index() / arguments_.blocks_per_channel;
    return &arguments_.lanes[channel * arguments_.program.lane_count + lane].finished;
  }

  Source* sources() { return source_places(places_); }
  u8** sinks() { return sink_places(places_, arguments_.most_operands); }
  u8* bounce(u32 operand) { return bounce_ + (operand + 1) * arguments_.bounce_bytes; }
  u8* result() { return bounce_; }
  void enter_lane(u32 lane, const LaneState& state) {
    if (leads()) {
      memory_.state = &state;
      memory_.lane = lane;
    }
    bounce_ = arguments_.bounce + static_cast<u64>(lane) * arguments_.bounce_buffers * arguments_.bounce_bytes;
  }

  void hold_move(u32 sources, bool scaled, u32 sinks, u64 elements, u32 divisor) {
    memory_.move = {sources, sinks, divisor, scaled, elements};
  }
  static void reduce_copy(const Call&, const Source*, u32, bool, u8* const*, u32, u64, u32) {}  // hold_move() instead

  // Devices get no programs that fetch or put: peers' memory is mapped, or slots are used.
  static bool fetch(const Connection&, u8*, u64, u64) { return false; }
  static bool put(const Connection&, u64, const u8*, u64) { return false; }
  static void ring(const Connection&) {}
  static void ring_after_fence(const Connection&) {}
  static void awaits(const u64*, u32, u64, const void*) {}
  static void fills_slot(u32, const Connection&) {}

  // Whether the block must stop; all threads get the same answer.
  bool stopped() {
    return agree([&] { return must_stop(); });
  }
  // Leader only: reports the reason to the host and to the other ranks. Only the first reason counts.
  void stop(StopReason reason, int peer) { stop_all_ranks(arguments_, reason, peer); }

 private:
  static void fence_of(Scope scope) {
    if (scope == Scope::system) fence_system();
    if (scope == Scope::device) fence_device();
  }
  // False: the block must stop.
  bool word_changes() {
    const u64* const word = memory_.watched;
    const u64 seen = memory_.seen;
    while (load_relaxed_system(word) == seen) {
      if (must_stop()) return false;
      pause();
    }
    return true;
  }
  bool must_stop() {
    if (!memory_.stop_seen)
      memory_.stop_seen = memory_.signs.look(arguments_, memory_.state->blocked_on_peer, memory_.state, memory_.lane);
    return memory_.stop_seen;
  }

  const CallArguments& arguments_;
  BlockMemory& memory_;
  u8* places_;
  u8* bounce_ = nullptr;
  bool lone_lane_;
  u32 turn_ = 0;
};

}  // namespace sccl::device::gpu
