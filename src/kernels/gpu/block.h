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

// Which operations of a call go straight (straight_operation.h): those in flagged words, in slots, or none.
enum class Way : u8 { interpreted, words, slots };
struct WordPlace;

// The part of a block's shared memory that has a fixed size.
struct BlockMemory {
  Call call;
  Program program;
  Begun begun;
  HeldMove move;
  // Of this channel; in shared memory if staged:
  DeviceConnection* connections;
  LaneState* lanes;
  // Places for one operation:
  Source* sources;
  u8** sinks;
  WordPlace* word_sinks;  // instead
  u8* bounce;             // of the lane that the leader steps
  u64 bounce_bytes;
  u32 word;          // what the leader tells all threads
  bool lone_lane;    // the leader's lane is the only one of the block that has not finished
  bool lanes_apart;  // other blocks run lanes of the channel
  Way way;
  // Leader only. Kept here so that they take no registers while data moves.
  Scope owed;
  const CallArguments* arguments;
  u64* lane_words;  // of this channel: where a lane's progress is told to the others, a LaneState apart
  const u64* watched;
  u64 seen;
  StopSigns signs;
  bool stop_seen;
  bool stopped;            // true: the kernel ends before it touches anything of the call
  u64 count;               // of the communicator's kernels, this one included
  const LaneState* state;  // of the lane that the leader steps; `lane` counts through all channels
  u32 lane;
  Chunk chunks[kInlineChunks];
};

// One for each block, at an address that the compiler knows.
SCCL_BLOCK_VARIABLE(BlockMemory, block_memory)

// All threads.
template <class Mover>
inline void make_move() {
  block_sync();
  const BlockMemory& memory = block_memory();
  const HeldMove& move = memory.move;
  move_block<Mover>(memory.sources, move.sources, memory.sinks, move.sinks, move.elements, move.divisor,
                    {memory.call.type, memory.call.kernel, memory.call.element_bytes}, move.scaled);
}

// Has no members: what it knows lies in the block's memory.
class Block {
 public:
  using Connection = DeviceConnection;
  static constexpr bool kAlone = false;
  using Ll = LowLatency<Block>;
  static constexpr bool kLendsSlots = false;
  static constexpr bool shares_slots(const Call&, const Connection&) { return false; }
  // A proxy knows no calls: over the network slots are always as many.
  static u32 slot_shift(const Connection& connection) { return connection.travels != 0 ? 0 : call().slot_shift; }
  static u32 slots(const Connection& connection) { return kSlotCount << slot_shift(connection); }
  // Slots of another number lie across those that earlier messages fill: the receiver must have emptied all of them.
  static u32 depth(const Connection& connection, u64) {
    return connection.slot_shift == slot_shift(connection) ? slots(connection) : 1;
  }
  static void fill_slot(Connection& connection) { connection.slot_shift = slot_shift(connection); }
  static u8* slot(const Connection& connection, u64 bytes) {
    return connection.payload + (bytes > kMostShortBytes ? connection.long_shift : 0) +
           (connection.position & (slots(connection) - 1)) * (connection.slot_bytes >> slot_shift(connection));
  }
  // No fence orders this word and the flag: each tells the message that it belongs to.
  static void tell_length(const Connection& connection, SlotHeader& header, u64 bytes) {
    if (connection.travels != 0) store_published(&header.told, told_length(bytes, connection.position));
  }
  static constexpr bool kKeepsLines = true;  // the runtime decides which links carry lines

  static const Program& program() { return block_memory().program; }
  static const Call& call() { return block_memory().call; }
  static Connection* connections() { return block_memory().connections; }
  static LaneState* lanes() { return block_memory().lanes; }
  static Scope& owed() { return block_memory().owed; }

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

  static bool tries_straight() { return block_memory().way == Way::slots; }
  // Polls of a word before the leader looks whether to wait on.
  static u32 patience() { return block_memory().lone_lane ? 64 : 1; }
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
  // A barrier must come between two of these: threads may still read the word. An operation has one, and run_lanes()
  // where nothing moved.
  template <typename Function>
  static auto agree(Function&& function) {
    using Result = decltype(function());
    u32& word = block_memory().word;
    if (leads()) word = static_cast<u32>(function());
    block_sync();
    return static_cast<Result>(word);
  }
  // As agree(), but a leader with a single lane polls until the lane can go on. One place calls the function, so that
  // the kernel contains its code once.
  template <typename Function, typename Then>
  static Outcome await(Function&& function, Then&& then) {
    return agree([&] {
      Outcome outcome;
      do outcome = function();
      while (outcome == Outcome::blocked && block_memory().lone_lane && word_changes());
      if (outcome == Outcome::progressed) then();
      return outcome;
    });
  }
  static Begun& begun(Begun&) { return block_memory().begun; }
  static void watch(const u64* word, u64 seen) {
    block_memory().watched = word;
    block_memory().seen = seen;
  }
  // How far the lanes are apart that wait for one another. Barriers order the lanes of one block.
  static Scope reach_of_lanes() { return block_memory().lanes_apart ? Scope::device : Scope::none; }
  // The lanes may be a staged copy; other blocks read a lane's progress in the original.
  static u64* lane_word(LaneState*, u32 lane) {
    return block_memory().lane_words + lane * (sizeof(LaneState) / sizeof(u64));
  }

  static Source* sources() { return block_memory().sources; }
  static u8** sinks() { return block_memory().sinks; }
  static u8* bounce(u32 operand) { return block_memory().bounce + (operand + 1) * block_memory().bounce_bytes; }
  static u8* result() { return block_memory().bounce; }
  // Between two barriers of the block: the other threads use what is set here.
  static void enter_lane(const CallArguments& arguments, u32 lane, const LaneState& state, bool lone) {
    if (!leads()) return;
    block_memory().lone_lane = lone;
    block_memory().state = &state;
    block_memory().lane = lane;
    block_memory().bounce =
        arguments.bounce + static_cast<u64>(lane) * arguments.bounce_buffers * arguments.bounce_bytes;
  }

  static void hold_move(u32 sources, bool scaled, u32 sinks, u64 elements, u32 divisor) {
    block_memory().move = {sources, sinks, divisor, scaled, elements};
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
  static bool stopped() {
    return agree([] { return must_stop(); });
  }
  // Leader only: reports the reason to the host and to the other ranks. Only the first reason counts.
  static void stop(StopReason reason, int peer) { stop_all_ranks(*block_memory().arguments, reason, peer); }

 private:
  static void fence_of(Scope scope) {
    if (scope == Scope::system) fence_system();
    if (scope == Scope::device) fence_device();
  }
  // False: the block must stop.
  static bool word_changes() {
    const u64* const word = block_memory().watched;
    const u64 seen = block_memory().seen;
    while (load_relaxed_system(word) == seen) {
      if (must_stop()) return false;
      pause();
    }
    return true;
  }
  static bool must_stop() {
    BlockMemory& memory = block_memory();
    if (!memory.stop_seen)
      memory.stop_seen = memory.signs.look(*memory.arguments, memory.state->blocked_on_peer, memory.state, memory.lane);
    return memory.stop_seen;
  }
};

}  // namespace sccl::device::gpu
