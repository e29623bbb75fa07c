// The straight way through one operation of a lane: no thread decides for the others. Thread i sees to the i-th
// operand, destination and dependency, so that all of them are looked at in the time of one.
//
//   every thread
//   finds where its operand and its destination lie; looks whether its message, the room for its message and its
//   dependency are there
//   ---------------------- barrier: is all there? no: nothing has changed, and the interpreter waits ------------------
//   all threads move the data (in slots behind one more barrier)
//   ---------------------- barrier ------------------------------------------------------------------------------------
//   publishes its message, or gives its message back; the leader advances the lane
//   ---------------------- barrier ------------------------------------------------------------------------------------
//
// Of flagged words (`ll`) a thread takes two of each message, and combines them in registers in the order of the
// operands. Only then, after one more barrier, it is known whether all is there.
//
// What is not so simple is left to the interpreter, which does the same with the same messages: factors, operations
// that move nothing, lines, and waits for longer than some polls; of words also peers' buffers, divisors, data that are
// no whole words of four bytes, and more data than the threads hold.
//
// Order in slots. As in protocol.h, with each thread in place of the leader for its own messages: the thread that has
// read a flag, a tail, or the progress of a lane of another block, fences (fence A) before the barrier, and the barrier
// orders the fence before the loads and stores of all threads. The thread that publishes or gives back fences after the
// barrier behind all loads and stores (fence R), and stores the flag or the tail after that fence.
//
// Order of words. A word is payload and flag in one load, so words need no fence (protocol.h). A word may be replaced
// once its reader has given the message back. The reader stores the tail behind a barrier, behind branches on the words
// that the threads have loaded, and no device stores before a branch is decided. So the loads have their values, in
// registers, before the tail is stored.
#pragma once

#include "kernels/device/posted_buffers.h"
#include "kernels/gpu/block.h"

namespace sccl::device::gpu {

inline constexpr u32 kWordBytes = 4;  // payload of a word

// Where an operand or a destination lies. A table in the block's memory has those of an operation.
struct alignas(16) WordPlace {
  u64 address;  // of local memory, or of the words of a message
  u64 mark;     // the flag of these words, at its place in a word; 0: local memory; kNowhere: nothing is stored
};
inline constexpr u64 kNowhere = 1;

inline WordPlace* operand_places() { return reinterpret_cast<WordPlace*>(block_memory().sources); }
inline WordPlace* destination_places() { return block_memory().word_sinks; }

using Words = LowLatency<Block>;

// What one operation works on. The same in every thread.
struct StraightTurn {
  StraightTurn(const Op& operation, u64 slice_of_chunk) : op(operation), slice(slice_of_chunk) {
    const Call& call = block_memory().call;
    elements = slice_elements(call, op, slice);
    bytes = elements * call.element_bytes;
    signature = call.signature ^ call.chunks[op.chunk].tag;
  }
  // Whether the operation has data, and each of its parts a thread.
  bool fits() const {
    const u32 most = thread_count();
    return op.kind == OpKind::move && elements > 0 && op.operand_count <= most && op.destination_count <= most &&
           op.dependency_count <= most;
  }
  u32 words() const { return static_cast<u32>(bytes / kWordBytes); }

  Op op;
  u64 slice;
  u32 signature;
  u64 elements;
  u64 bytes;
};

// What one thread sees to, besides its eight bytes.
struct OwnEnds {
  DeviceConnection* sends = nullptr;
  DeviceConnection* receives = nullptr;
  WordPlace sent{0, 0};
  WordPlace received{0, 0};
};

// Pairs with Block::store_lane of the other lane, as in Interpreter::dependencies_met.
inline bool own_dependency_met(const StraightTurn& turn) {
  const BlockMemory& memory = block_memory();
  if (thread_index() >= turn.op.dependency_count) return true;
  const Dependency& wait = memory.program.dependencies[turn.op.dependency_begin + thread_index()];
  const u64 needed = operations_needed(memory.program, wait, turn.slice);
  if (needed == 0) return true;
  const u64* const word = Block::lane_word(memory.lanes, wait.lane);
  u32 polls = Block::patience();
  while (Block::load_lane(word) < needed) {
    if (polls-- == 0) return false;
    pause();
  }
  Block::acquire(Block::reach_of_lanes());
  return true;
}

// Enters this thread's places into the tables. False: not in words, or no room.
inline bool find_own_words(const StraightTurn& turn, OwnEnds& own) {
  const BlockMemory& memory = block_memory();
  const u32 mine = thread_index();
  const bool operand_is_mine = mine < turn.op.operand_count;
  const bool destination_is_mine = mine < turn.op.destination_count;
  bool simple = true;
  if (operand_is_mine) {
    const Access access = memory.program.operands[turn.op.operand_begin + mine];
    simple = access.via != Via::remote;
    if (access.via == Via::slot) {
      own.receives = memory.connections + access.connection;
      own.received = {reinterpret_cast<u64>(Words::words(*own.receives)), Words::flag(*own.receives)
                                                                              << Words::kFlagShift};
    } else {
      own.received.address = reinterpret_cast<u64>(local_address(memory.call, access, turn.slice));
      simple = simple && own.received.address % kWordBytes == 0;
    }
    operand_places()[mine] = own.received;
  }
  if (destination_is_mine) {
    const Access access = memory.program.destinations[turn.op.destination_begin + mine];
    simple = simple && access.via != Via::remote;
    if (access.via == Via::slot) {
      own.sends = memory.connections + access.connection;
      own.sent = {reinterpret_cast<u64>(Words::words(*own.sends)), Words::flag(*own.sends) << Words::kFlagShift};
      const u64 before = own.sends->ll_seen_tail;
      simple = Words::has_room(*own.sends, turn.bytes) && simple;
      if (own.sends->ll_seen_tail != before) Block::acquire(Scope::system);  // pairs with the reader's tail
    } else {
      own.sent.address = reinterpret_cast<u64>(local_address(memory.call, access, turn.slice));
      simple = simple && own.sent.address % kWordBytes == 0;
      // A copy onto its own source is left out: other lanes may read the block there.
      const Access first = memory.program.operands[turn.op.operand_begin];
      if (turn.op.operand_count == 1 && first.via == Via::local &&
          reinterpret_cast<u64>(local_address(memory.call, first, turn.slice)) == own.sent.address)
        own.sent.mark = kNowhere;
    }
    destination_places()[mine] = own.sent;
  }
  return simple;
}

// Polls until the word has the flag. False: it has not come.
inline bool await_word(const u64* word, u64& seen, u64 mark, u32& polls) {
  while ((seen ^ mark) >> Words::kFlagShift != 0) {
    if (polls == 0) return false;
    --polls;
    pause();
    seen = Block::load_relaxed(word);
  }
  return true;
}

inline bool own_message_is_ours(const StraightTurn& turn, const OwnEnds& own) {
  if (own.receives == nullptr) return true;
  const u64* const word = reinterpret_cast<const u64*>(own.received.address);
  u64 seen = Block::load_relaxed(word);
  u32 polls = Block::patience();
  return await_word(word, seen, own.received.mark, polls) && static_cast<u32>(seen) == turn.signature;
}

// The two words of payload that a thread moves; the last thread may have one.
struct Unit {
  u32 at;     // the first one
  bool wide;  // there is a second one
};

// Takes this thread's words of every operand, and keeps those of the first one as they are. False: one is not there.
template <class Sum>
inline bool take_units(u32 operand_count, const Unit& unit, Sum& sum, u64& kept) {
  constexpr u32 kAtOnce = 4;  // operands whose loads are on their way at a time
  u32 polls = Block::patience();
  SCCL_ROLLED for (u32 first = 0; first < operand_count; first += kAtOnce) {
    u64 low[kAtOnce], high[kAtOnce];
    SCCL_UNROLLED for (u32 i = 0; i < kAtOnce; ++i) {
      if (first + i >= operand_count) break;
      const WordPlace place = operand_places()[first + i];
      if (place.mark == 0) {
        const u32* const words = reinterpret_cast<const u32*>(place.address) + unit.at;
        low[i] = words[0];
        high[i] = unit.wide ? words[1] : 0;
      } else {
        const u64* const words = reinterpret_cast<const u64*>(place.address) + 1 + unit.at;
        low[i] = Block::load_relaxed(words);
        high[i] = unit.wide ? Block::load_relaxed(words + 1) : place.mark;
      }
    }
    SCCL_UNROLLED for (u32 i = 0; i < kAtOnce; ++i) {
      if (first + i >= operand_count) break;
      const WordPlace place = operand_places()[first + i];
      if (place.mark != 0) {
        const u64* const words = reinterpret_cast<const u64*>(place.address) + 1 + unit.at;
        if (!await_word(words, low[i], place.mark, polls) || !await_word(words + 1, high[i], place.mark, polls))
          return false;
      }
      const u64 value = high[i] << 32 | static_cast<u32>(low[i]);
      if (first + i == 0) {
        kept = value;
        sum.begin(value);
      } else {
        sum.add(value);
      }
    }
  }
  return true;
}

inline void store_units(u32 destination_count, const Unit& unit, u64 value) {
  SCCL_ROLLED for (u32 i = 0; i < destination_count; ++i) {
    const WordPlace place = destination_places()[i];
    if (place.mark > kNowhere) {
      u64* const words = reinterpret_cast<u64*>(place.address) + 1 + unit.at;
      Block::store_relaxed(words, place.mark | static_cast<u32>(value));
      if (unit.wide) Block::store_relaxed(words + 1, place.mark | value >> 32);
    } else if (place.mark == 0) {
      u32* const words = reinterpret_cast<u32*>(place.address) + unit.at;
      words[0] = static_cast<u32>(value);
      if (unit.wide) words[1] = static_cast<u32>(value >> 32);
    }
  }
}

// The lane has done the operation.
inline void advance_straight(const Lane& lane, u32 lane_index, const Op& op) {
  const BlockMemory& memory = block_memory();
  LaneState& state = memory.lanes[lane_index];
  advance(memory.call, lane, op, state);
  Block::store_lane(Block::lane_word(memory.lanes, lane_index), state.finished);
}

template <class Mover>
SCCL_CALLED inline Outcome pass_by_words(u32 lane_index) {
  const BlockMemory& memory = block_memory();
  const Lane lane = memory.program.lanes[lane_index];
  const LaneState& state = memory.lanes[lane_index];
  if (is_finished(memory.call, lane, state)) return Outcome::finished;
  const StraightTurn turn(memory.program.ops[lane.op_begin + state.op], state.slice);
  if (!turn.fits() || turn.bytes % kWordBytes != 0 || turn.words() > 2 * thread_count() ||
      (turn.op.operand_count > 1 && !Mover::kByUnits))
    return Outcome::blocked;
  OwnEnds own;
  if (!block_all(own_dependency_met(turn) & find_own_words(turn, own))) return Outcome::blocked;
  const Unit unit{2 * thread_index(), 2 * thread_index() + 1 < turn.words()};
  const bool moves = unit.at < turn.words();
  typename Mover::Unit sum;
  u64 kept = 0;
  const bool taken = !moves || take_units(turn.op.operand_count, unit, sum, kept);
  if (!block_all(taken && own_message_is_ours(turn, own))) return Outcome::blocked;
  // Arithmetic would give a NaN other bits: a copy takes no part in it.
  if (moves) store_units(turn.op.destination_count, unit, turn.op.operand_count == 1 ? kept : sum.result());
  if (own.sends != nullptr)
    Block::store_relaxed(reinterpret_cast<u64*>(own.sent.address), own.sent.mark | turn.signature);
  block_sync();
  if (own.sends != nullptr) Words::publish(*own.sends, turn.signature, turn.bytes);
  if (own.receives != nullptr) Words::consume(*own.receives, turn.bytes);
  if (Block::leads()) {
    Block::release(Block::reach_of_lanes());
    advance_straight(lane, lane_index, turn.op);
  }
  block_sync();
  return Outcome::progressed;
}

using InSlots = Slots<Block>;

// Whether the next message of a connection, or a posted descriptor, has come.
inline bool has_come(DeviceConnection& connection, u32 signature) {
  const u64* const word = InSlots::word(connection);
  u32 polls = Block::patience();
  for (;;) {
    const Sight sight = InSlots::sight(connection, Block::load_polled(word), signature);
    if (sight != Sight::absent || polls == 0) return sight == Sight::ours;
    --polls;
    pause();
  }
}

// The connection to whose end thread `mine` sees; null: it has none.
inline DeviceConnection* end_of(const Access* accesses, u32 count, u32 mine, Via via) {
  if (mine >= count || accesses[mine].via != via) return nullptr;
  return block_memory().connections + accesses[mine].connection;
}

// Whether what this thread looks after is there. Fences if it has read a flag or a tail that tells of data.
inline bool own_slots_ready(const StraightTurn& turn, const Access& operand, const Access& destination) {
  DeviceConnection* const connections = block_memory().connections;
  bool ready = true;
  bool fence = false;
  if (operand.via != Via::local) {
    DeviceConnection& from = connections[operand.connection];
    ready = has_come(from, turn.signature) && (operand.via == Via::slot || from.maps_buffers);
    fence = true;  // pairs with fence R before the flag
  }
  if (destination.via == Via::slot) {
    DeviceConnection& to = connections[destination.connection];
    const u64 before = to.seen_tail;
    ready = InSlots::has_room(to) && ready;
    fence = fence || to.seen_tail != before;  // pairs with fence R before the tail
  } else if (destination.via == Via::remote) {
    DeviceConnection& to = connections[destination.connection];
    ready = has_come(to, turn.signature) && to.maps_buffers && ready;
    fence = true;  // pairs with fence R before the flag
  }
  if (fence) Block::acquire(Scope::system);
  return ready;
}

inline u8* straight_address(const StraightTurn& turn, const Access& access) {
  const BlockMemory& memory = block_memory();
  if (access.via == Via::local) return local_address(memory.call, access, turn.slice);
  DeviceConnection& connection = memory.connections[access.connection];
  if (access.via == Via::slot) return InSlots::payload(connection, turn.bytes);
  return reinterpret_cast<u8*>(remote_address<Block>(memory.call, connection, access, turn.slice));
}

// Enters this thread's places into the tables of the mover. False: something is not there, or is the interpreter's.
inline bool find_own_slots(const StraightTurn& turn) {
  const BlockMemory& memory = block_memory();
  const u32 mine = thread_index();
  Access operand{Via::local, Buffer::none, 0, 0};
  Access destination = operand;
  if (mine < turn.op.operand_count) operand = memory.program.operands[turn.op.operand_begin + mine];
  if (mine < turn.op.destination_count) destination = memory.program.destinations[turn.op.destination_begin + mine];
  if (!own_slots_ready(turn, operand, destination)) return false;
  if (mine < turn.op.operand_count) memory.sources[mine] = {straight_address(turn, operand), 0};
  if (mine >= turn.op.destination_count) return true;
  u8* const to = straight_address(turn, destination);
  memory.sinks[mine] = to;
  if (turn.op.operand_count > 1 || destination.via != Via::local) return true;
  // A copy onto its own source is left out, by the interpreter: other lanes may read the block there.
  const Access first = memory.program.operands[turn.op.operand_begin];
  return first.via != Via::local || straight_address(turn, first) != to;
}

// The first half of an operation in slots, up to the first barrier. Nothing of it is kept in registers while the data
// moves. `blocked`: the interpreter has to look.
SCCL_CALLED inline Outcome begin_by_slots(u32 lane_index) {
  const BlockMemory& memory = block_memory();
  const Call& call = memory.call;
  const Lane lane = memory.program.lanes[lane_index];
  const LaneState& state = memory.lanes[lane_index];
  if (is_finished(call, lane, state)) return Outcome::finished;
  const StraightTurn turn(memory.program.ops[lane.op_begin + state.op], state.slice);
  if (!turn.fits()) return Outcome::blocked;
  if (Block::leads())
    Block::hold_move(turn.op.operand_count, false, turn.op.destination_count, turn.elements,
                     turn.op.completes ? call.divisor : 1);
  return block_all(own_dependency_met(turn) & find_own_slots(turn)) ? Outcome::progressed : Outcome::blocked;
}

// The second half, after the data has moved.
SCCL_CALLED inline void finish_by_slots(u32 lane_index) {
  const BlockMemory& memory = block_memory();
  const Lane lane = memory.program.lanes[lane_index];
  const LaneState& state = memory.lanes[lane_index];
  const StraightTurn turn(memory.program.ops[lane.op_begin + state.op], state.slice);
  const u32 mine = thread_index();
  DeviceConnection* const sends =
      end_of(memory.program.destinations + turn.op.destination_begin, turn.op.destination_count, mine, Via::slot);
  DeviceConnection* const receives =
      end_of(memory.program.operands + turn.op.operand_begin, turn.op.operand_count, mine, Via::slot);
  block_sync();
  if (sends != nullptr || receives != nullptr)
    Block::release(Scope::system);
  else if (Block::leads())
    Block::release(Block::reach_of_lanes());
  if (sends != nullptr) InSlots::publish(*sends, turn.signature, turn.bytes);
  if (receives != nullptr) InSlots::consume(*receives, turn.bytes);
  if (Block::leads()) advance_straight(lane, lane_index, turn.op);
  block_sync();
}

inline Way way_of(const Call& call) {
  if (call.scaled || call.protocol == Protocol::ll128) return Way::interpreted;
  if (call.protocol == Protocol::simple) return Way::slots;
  return call.divisor <= 1 ? Way::words : Way::interpreted;
}

}  // namespace sccl::device::gpu
