// The straight way through one operation whose messages are flagged words (`ll`): no thread decides for the others, and
// the data stays in registers between its arrival and its stores.
//
//   every thread
//   finds where the words of one message lie, and whether there is room for one; tests one dependency
//   ---------------------- barrier: may the operation begin? ----------------------------------------------------------
//   takes eight bytes of every operand, two words of each message, and combines them in the order of the operands;
//   looks whether the first word of its message is there, and is of this call
//   ---------------------- barrier: is all there? no: nothing has changed, and the interpreter waits ------------------
//   stores the result: eight bytes of local memory, or two words of a message
//   ---------------------- barrier ------------------------------------------------------------------------------------
//   counts its message, or gives its message back; the leader advances the lane
//   ---------------------- barrier ------------------------------------------------------------------------------------
//
// What is not so simple is left to the interpreter, which does the same with the same messages: factors, divisors,
// peers' buffers, data that are no whole words of four bytes or more than the threads hold, and waits for longer than
// some polls.
//
// Order. A word is payload and flag in one load, so words need no fence (protocol.h). A word may be replaced once its
// reader has given the message back. The reader stores the tail behind a barrier, behind branches on the words that the
// threads have loaded, and no device stores before a branch is decided. So the loads have their values, in registers,
// before the tail is stored.
// A thread that has read a new tail, or the progress of a lane of another block, fences before the first barrier, as
// the leader does in block.h: the barrier orders the fence before the loads and stores of all threads.
#pragma once

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
struct WordTurn {
  Op op;
  u64 slice;
  u32 bytes;
  u32 signature;
  u32 polls;  // of a word, before the interpreter looks whether to wait on

  u32 words() const { return bytes / kWordBytes; }
};

// What one thread sees to, besides its eight bytes.
struct OwnEnds {
  DeviceConnection* sends = nullptr;
  DeviceConnection* receives = nullptr;
  WordPlace sent{0, 0};
  WordPlace received{0, 0};
};

// Pairs with Block::store_lane of the other lane, as in Interpreter::dependencies_met.
inline bool own_dependency_met(const WordTurn& turn) {
  const BlockMemory& memory = block_memory();
  if (thread_index() >= turn.op.dependency_count) return true;
  const Dependency& wait = memory.program.dependencies[turn.op.dependency_begin + thread_index()];
  const u64 needed = operations_needed(memory.program, wait, turn.slice);
  if (needed == 0) return true;
  const u64* const word = Block::lane_word(memory.lanes, wait.lane);
  u32 polls = turn.polls;
  while (Block::load_lane(word) < needed) {
    if (polls-- == 0) return false;
    pause();
  }
  Block::acquire(Block::reach_of_lanes());
  return true;
}

// Enters this thread's places into the tables. False: not in words, or no room.
inline bool find_own_ends(const WordTurn& turn, OwnEnds& own) {
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

inline bool own_message_is_ours(const WordTurn& turn, const OwnEnds& own) {
  if (own.receives == nullptr) return true;
  const u64* const word = reinterpret_cast<const u64*>(own.received.address);
  u64 seen = Block::load_relaxed(word);
  u32 polls = turn.polls;
  return await_word(word, seen, own.received.mark, polls) && static_cast<u32>(seen) == turn.signature;
}

// The two words of payload that a thread moves; the last thread may have one.
struct Unit {
  u32 at;     // the first one
  bool wide;  // there is a second one
};

// Takes this thread's words of every operand, and keeps those of the first one as they are. False: one is not there.
template <class Sum>
inline bool take_units(u32 operand_count, u32 polls, const Unit& unit, Sum& sum, u64& kept) {
  constexpr u32 kAtOnce = 4;  // operands whose loads are on their way at a time
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

// Whether a call's operations may go this way.
inline bool goes_by_words(const Call& call) {
  return call.protocol == Protocol::ll && !call.scaled && call.divisor <= 1;
}

// All threads, after a barrier behind the last change of the lane. `blocked`: the interpreter has to look.
template <class Mover>
SCCL_CALLED inline Outcome pass_by_words(u32 lane_index, u32 polls) {
  BlockMemory& memory = block_memory();
  const Call& call = memory.call;
  const Lane lane = memory.program.lanes[lane_index];
  LaneState& state = memory.lanes[lane_index];
  const u64 slice = state.slice;
  if (is_finished(call, lane, state)) return Outcome::finished;
  const Op op = memory.program.ops[lane.op_begin + state.op];
  const u64 elements = slice_elements(call, op, slice);
  const WordTurn turn{op, slice, static_cast<u32>(elements * call.element_bytes),
                      call.signature ^ call.chunks[op.chunk].tag, polls};
  const u32 most = thread_count();
  if (op.kind != OpKind::move || elements == 0 || turn.bytes % kWordBytes != 0 || turn.words() > 2 * most ||
      op.operand_count > most || op.destination_count > most || op.dependency_count > most ||
      (op.operand_count > 1 && !Mover::kByUnits))
    return Outcome::blocked;
  OwnEnds own;
  if (!block_all(own_dependency_met(turn) & find_own_ends(turn, own))) return Outcome::blocked;
  const Unit unit{2 * thread_index(), 2 * thread_index() + 1 < turn.words()};
  const bool moves = unit.at < turn.words();
  typename Mover::Unit sum;
  u64 kept = 0;
  const bool taken = !moves || take_units(op.operand_count, polls, unit, sum, kept);
  if (!block_all(taken && own_message_is_ours(turn, own))) return Outcome::blocked;
  // Arithmetic would give a NaN other bits: a copy takes no part in it.
  if (moves) store_units(op.destination_count, unit, op.operand_count == 1 ? kept : sum.result());
  if (own.sends != nullptr)
    Block::store_relaxed(reinterpret_cast<u64*>(own.sent.address), own.sent.mark | turn.signature);
  block_sync();
  if (own.sends != nullptr) Words::publish(*own.sends, turn.signature, turn.bytes);
  if (own.receives != nullptr) Words::consume(*own.receives, turn.bytes);
  if (Block::leads()) {
    Block::release(Block::reach_of_lanes());
    advance(call, lane, op, state);
    Block::store_lane(Block::lane_word(memory.lanes, lane_index), state.finished);
  }
  block_sync();
  return Outcome::progressed;
}

}  // namespace sccl::device::gpu
