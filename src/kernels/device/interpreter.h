// The interpreter runs the next operation of a lane if nothing it needs is missing, and otherwise reports what is.
//
// A lane stops in one place only: the readiness test at the top of step(). So a blocked lane never has a half-done
// operation. A GPU block calls step() in a loop; the host calls step() for all lanes of a thread in turn.
//
// On a GPU all threads of a block call step() together. The leader decides what is ready, all threads move data, and
// the leader informs peers and other lanes. Code for the leader alone stands inside await(), commit() or the leader
// functions of the protocol. On the host the one thread is the leader, and these functions cost nothing.
//
// operation.h lists what a target offers; protocol.h has the memory vocabulary.
#pragma once

#include "kernels/device/interpreter_view.h"
#include "kernels/device/lane_steps.h"
#include "kernels/device/lines.h"
#include "kernels/device/posted_buffers.h"
#include "kernels/device/wait_record.h"

namespace sccl::device {

// `Binding`: OneProtocol or AnyProtocol (lines.h).
template <class Target, class Binding = AnyProtocol<Target>>
class Interpreter : private InterpreterView<Target> {
 public:
  using Begun = device::Begun;
  using Connection = typename Target::Connection;
  using View = InterpreterView<Target>;
  using View::View;

  Outcome step(u32 lane_index) {
    Begun mine{};
    const Outcome outcome = begin(lane_index, mine);
    return outcome == Outcome::progressed ? finish(lane_index, mine) : outcome;
  }

  // The two halves of a step. A target may delay the moves of several lanes that have begun, and make these moves
  // together before any of the lanes finishes: for other lanes an operation that has begun is not done.
  SCCL_CALLED Outcome begin(u32 lane_index, Begun& mine) {
    Begun& begun = target().begun(mine);
    const Lane& lane = program().lanes[lane_index];
    LaneState& state = lanes()[lane_index];
    Turn& turn = begun.turn;
    const Outcome ready = target().await(
        [&] {
          for (;;) {
            if (is_finished(call(), lane, state)) return Outcome::finished;
            turn = turn_of(lane, state);
            const Outcome found = readiness(turn, state);
            if (Target::kAlone || found != Outcome::progressed || turn.op->kind == OpKind::move) return found;
            pass_run(lane, turn, state, target().lane_word(lanes(), lane_index));
            if constexpr (!Target::kAlone)
              if (Target::tries_straight()) return Outcome::passed;
          }
        },
        [&] { acquire_owed(); });
    if (ready != Outcome::progressed) return ready;
    Motion motion = Motion::none;
    if (turn.acts) {
      const Op& op = *turn.op;
      if constexpr (!Target::kAlone)
        if (is_flagged(op) && !target().all([&] { return words_arrived(op, turn.elements); }))
          return target().agree([&] { return look_for_missing(op, state); });
      motion = execute(op, turn.slice, turn.elements);
    } else {
      hold_nothing();
    }
    if (Target::leads()) begun.motion = motion;
    return motion == Motion::failed ? Outcome::failed : Outcome::progressed;
  }

  SCCL_CALLED Outcome finish(u32 lane_index, Begun& mine) {
    const Begun& begun = target().begun(mine);
    if (!Target::kAlone && begun.motion == Motion::messages && begun.turn.op->kind == OpKind::move &&
        !deliver(*begun.turn.op, begun.turn.slice, begun.turn.elements * call().element_bytes))
      return Outcome::failed;
    const Lane& lane = program().lanes[lane_index];
    LaneState& state = lanes()[lane_index];
    target().commit([&] {
      if (begun.motion != Motion::none) {
        if (Target::kAlone && begun.turn.op->kind == OpKind::post) describe_buffers(*begun.turn.op, begun.turn.slice);
        target().release(reach(begun));
        complete(begun.turn, begun.motion);
      }
      advance(lane, *begun.turn.op, state, target().lane_word(lanes(), lane_index));
    });
    // In a block only the leader knows whether the lane has finished; the next begin() tells all threads.
    return Target::kAlone && is_finished(call(), lane, state) ? Outcome::finished : Outcome::progressed;
  }

 private:
  using View::call;
  using View::connections;
  using View::lanes;
  using View::owed;
  using View::program;
  using View::target;
  // Descriptors of buffers always travel through slots.
  using Simple = Slots<Target>;

  Turn turn_of(const Lane& lane, const LaneState& state) const {
    const Op& op = program().ops[lane.op_begin + state.op];
    if (op.kind != OpKind::move) return {&op, state.slice, 0, is_present(op)};
    const u64 elements = slice_elements(call(), op, state.slice);
    return {&op, state.slice, elements, elements > 0};
  }

  bool is_present(const Op& op) const { return (call().chunks[op.chunk].flags & kAbsent) == 0; }

  void acquire_owed() {
    target().acquire(owed());
    owed() = Scope::none;
  }

  // Leader of a block: the operation of this turn, which moves no data, and those of its kind that follow it and are
  // ready, too. A program in place has one for each peer, and they share their fences. Nothing is owed afterwards.
  SCCL_CALLED void pass_run(const Lane& lane, const Turn& turn, LaneState& state, u64* told) {
    const Op* const ops = turn.op;
    const u32 most = lane.order == LaneOrder::op_major ? lane.op_count - state.op : 1;
    u32 count = 1;
    while (count < most && ops[count].kind == ops->kind &&
           readiness({&ops[count], turn.slice, 0, is_present(ops[count])}, state) == Outcome::progressed)
      ++count;
    acquire_owed();
    if (ops->kind == OpKind::post)
      SCCL_ROLLED for (u32 i = 0; i < count; ++i) if (is_present(ops[i])) describe_buffers(ops[i], turn.slice);
    if (ops->kind != OpKind::drain) target().release(Scope::system);
    SCCL_ROLLED for (u32 i = 0; i < count; ++i) {
      if (is_present(ops[i])) complete({&ops[i], turn.slice, 0, true}, Motion::messages);
      advance(lane, ops[i], state, told);
    }
  }

  // How far the results of an operation must be visible before the operation is reported as done.
  Scope reach(const Begun& begun) const {
    const Op& op = *begun.turn.op;
    const bool told = op.kind != OpKind::move || ((op.receives || op.sends) && is_fenced());
    return told ? Scope::system : Target::reach_of_lanes();
  }

  void advance(const Lane& lane, const Op& op, LaneState& state, u64* told) {
    device::advance(call(), lane, op, state);
    Target::store_lane(told, state.finished);
  }

  bool dependencies_met(const Op& op, const LaneState& state) {
    SCCL_ROLLED for (u32 i = 0; i < op.dependency_count; ++i) {
      const Dependency& wait = program().dependencies[op.dependency_begin + i];
      const u64 needed = operations_needed(program(), wait, state.slice);
      if (needed == 0) continue;
      u64* const word = target().lane_word(lanes(), wait.lane);
      const u64 finished = Target::load_lane(word);
      owe(Target::reach_of_lanes());
      if (finished < needed) {
        target().watch(word, finished);
        return false;
      }
    }
    return true;
  }

  Outcome blocked(LaneState& state, int peer) const {
    state.blocked_on_peer = peer;
    return Outcome::blocked;
  }

  Outcome blocked(LaneState& state, const Connection& connection) const {
    if constexpr (!Target::kAlone)
      state.blocked_on_slot = call().protocol == Protocol::simple
                                  ? connection.position & (Target::slots(connection) - 1)
                                  : WaitRecord::kNoSlot;
    return blocked(state, connection.peer);
  }

  Outcome mismatch(LaneState& state, int peer) const {
    state.blocked_on_peer = peer;
    return Outcome::mismatch;
  }

  // `progressed` when everything that the operation needs is there. In a block the later words of `ll` messages are not
  // tested here: all threads test them in words_arrived().
  Outcome readiness(const Turn& turn, LaneState& state) {
    if (!dependencies_met(*turn.op, state)) return blocked(state, -1);
    return turn.acts ? messages_ready(*turn.op, state, turn.elements) : Outcome::progressed;
  }

  // The leader has read a word that allows other reads or writes. The fence follows once the operation is ready.
  void owe(Scope scope) {
    if (Target::kSignedFlags && scope > owed()) owed() = scope;
  }

  // Blocked until `word` no longer holds `seen`.
  Outcome blocked_at(const u64* word, u64 seen, LaneState& state, const Connection& connection) {
    target().watch(word, seen);
    return blocked(state, connection);
  }

  Outcome messages_ready(const Op& op, LaneState& state, u64 elements) {
    SCCL_ROLLED for (u32 i = 0; i < op.operand_count; ++i) {
      const Access& operand = program().operands[op.operand_begin + i];
      if (operand.via == Via::local) continue;
      Connection& connection = connections()[operand.connection];
      const bool message = op.kind == OpKind::move && operand.via == Via::slot;
      if (message && goes_by_words()) continue;  // words_arrived() waits for all at a time
      const Outcome arrival =
          message ? with_protocol([&](auto wire) { return arrived<decltype(wire)>(op, connection, state, elements); })
                  : arrived<Simple>(op, connection, state);
      if (arrival != Outcome::progressed) return arrival;
    }
    SCCL_ROLLED for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program().destinations[op.destination_begin + i];
      if (destination.via == Via::local) continue;
      Connection& connection = connections()[destination.connection];
      if (destination.via == Via::remote) {
        const Outcome arrival = arrived<Simple>(op, connection, state);
        if (arrival != Outcome::progressed) return arrival;
      } else if (op.kind == OpKind::drain) {
        owe(Scope::system);
        if (!Simple::drained(connection))
          return blocked_at(&Simple::tail(connection).value, Simple::seen_tail(connection), state, connection);
      } else if (const Outcome room = room_for(op, connection, elements * call().element_bytes, state);
                 room != Outcome::progressed) {
        return room;
      } else if constexpr (Target::kLendsSlots) {
        const bool lends = op.kind == OpKind::move && with_protocol([](auto wire) { return wire.kLends; });
        static_assert(Target::kAlone, "such targets have no blocked_on_slot: LaneProgress::wait_of() finds the slot");
        if (const Connection* reader = lends ? target().still_read(connection) : nullptr)
          return blocked(state, reader->peer);
      }
    }
    return Outcome::progressed;
  }

  u32 signature(const Op& op) const { return call().signature ^ call().chunks[op.chunk].tag; }

  // Calls f with an object of the protocol's type.
  template <typename Function>
  decltype(auto) with_protocol(Function&& function) const {
    return Binding::with(call(), function);
  }

  bool is_fenced() const {
    return with_protocol([](auto wire) { return wire.kFenced; });
  }

  // One load for each operand. Words with flags and lines carry their own order, so they need no fence. `elements`: of
  // the message, for targets that look at where its data will be.
  template <class Wire>
  Outcome arrived(const Op& op, Connection& connection, LaneState& state, u64 elements = 0) {
    if constexpr (Wire::kFenced) owe(Scope::system);
    const u64* const word = Wire::word(connection);
    const u64 seen = Target::load_polled(word);
    const Sight sight = Wire::sight(connection, seen, signature(op));
    if (sight == Sight::ours) return Outcome::progressed;
    if (sight == Sight::of_another_call) return mismatch(state, connection.peer);
    if constexpr (!Target::kSignedFlags)
      target().awaits(word, Wire::kFlagShift, Wire::flag(connection, signature(op)),
                      Wire::payload(connection, elements * call().element_bytes));
    return blocked_at(word, seen, state, connection);
  }

  bool is_flagged(const Op& op) const { return op.kind == OpKind::move && !is_fenced(); }
  bool goes_by_words() const {
    return with_protocol([](auto wire) { return wire.kByWords; });
  }

  // Copies the messages that have begun into the bounce buffers, each thread its share; what has come stays there until
  // all has.
  bool words_arrived(const Op& op, u64 elements) {
    const u64 bytes = elements * call().element_bytes;
    const Access* const operands = program().operands + op.operand_begin;
    Connection* const ends = connections();
    return with_protocol([&](auto wire) {
      using Wire = decltype(wire);
      if constexpr (Wire::kByWords) {
        return Wire::take_words(ends, operands, op.operand_count, bytes, signature(op));
      } else {
        SCCL_ROLLED for (u32 i = 0; i < op.operand_count; ++i) {
          if (operands[i].via != Via::slot) continue;
          if (!Wire::whole(ends[operands[i].connection], Target::bounce(i), bytes, signature(op))) return false;
        }
        return true;
      }
    });
  }

  // Leader: some message that has begun is not there, or is of another call.
  Outcome look_for_missing(const Op& op, LaneState& state) {
    SCCL_ROLLED for (u32 i = 0; i < op.operand_count; ++i) {
      const Access& operand = program().operands[op.operand_begin + i];
      if (operand.via != Via::slot) continue;
      Connection& connection = connections()[operand.connection];
      const Outcome arrival = with_protocol([&](auto wire) { return arrived<decltype(wire)>(op, connection, state); });
      if (arrival != Outcome::progressed) return arrival;
    }
    return blocked(state, connections()[first_connection(program(), op)]);
  }

  // The tail is read again only when the ring looks full. A new tail allows stores into slots, so a fence is owed.
  Outcome room_for(const Op& op, Connection& connection, u64 bytes, LaneState& state) {
    if (op.kind == OpKind::post) return room_by<Simple>(connection, bytes, state);
    return with_protocol([&](auto wire) { return room_by<decltype(wire)>(connection, bytes, state); });
  }
  template <class Wire>
  Outcome room_by(Connection& connection, u64 bytes, LaneState& state) {
    const u64 before = Wire::seen_tail(connection);
    const bool room = Wire::has_room(connection, bytes);
    const u64 seen = Wire::seen_tail(connection);
    if (seen != before) owe(Scope::system);
    return room ? Outcome::progressed : blocked_at(&Wire::tail(connection).value, seen, state, connection);
  }

  void hold_nothing() {
    if constexpr (!Target::kAlone)
      if (Target::leads()) target().hold_move(0, false, 0, 0, 1);
  }

  Motion execute(const Op& op, u64 slice, u64 elements) {
    if (op.kind == OpKind::move) return move(op, slice, elements);
    hold_nothing();
    return op.kind == OpKind::drain ? Motion::none : Motion::messages;
  }

  void complete(const Turn& turn, Motion motion) {
    const Op& op = *turn.op;
    switch (op.kind) {
      case OpKind::move:
        if (motion == Motion::messages) finish_messages(op, turn.slice, turn.elements * call().element_bytes);
        return;
      case OpKind::post:
        return post(op);
      case OpKind::release:
        return release(connections()[program().operands[op.operand_begin].connection]);
      case OpKind::drain:
        return;
    }
  }

  // Describes the buffers as a whole, or the one place of a point-to-point transfer.
  void describe_buffers(const Op& op, u64 slice) {
    const Access& access = program().destinations[op.destination_begin];
    Connection& connection = connections()[access.connection];
    SlotHeader& header = Simple::header(connection);
    header.input_address = reinterpret_cast<u64>(access.buffer == Buffer::none ? call().input : local(access, slice));
    header.output_address = reinterpret_cast<u64>(call().output);
    header.scale_bits = call().scale_bits;
  }

  void post(const Op& op) {
    Connection& connection = connections()[program().destinations[op.destination_begin].connection];
    Simple::publish(connection, signature(op), 0);
    target().ring(connection);
  }

  void release(Connection& connection) {
    Simple::consume(connection);
    target().ring(connection);
  }

  u8* local(const Access& access, u64 slice) const { return local_address(call(), access, slice); }

  u64 remote_address(const Access& access, u64 slice) {
    return device::remote_address<Target>(call(), connections()[access.connection], access, slice);
  }

  Motion move(const Op& op, u64 slice, u64 elements) {
    const u64 bytes = elements * call().element_bytes;
    const bool scaled = scales(op);
    const u32 divisor = divisor_of(op);
    if (!scaled && divisor <= 1 && is_remote_copy(program(), op, connections()))
      return copy_from_peer(op, slice, bytes) ? Motion::quiet : Motion::failed;
    if (!gather_operands(op, slice, bytes)) return Motion::failed;
    const bool copies = op.operand_count == 1 && !scaled && divisor <= 1;
    const u32 sinks = place_destinations(op, slice, bytes, copies);
    if constexpr (!Target::kAlone) {
      // The data moves later, outside of the interpreter, so that the interpreter's state takes no registers meanwhile.
      if (Target::leads())
        target().hold_move(op.operand_count, scaled, copies && in_place_already(sinks) ? 0 : sinks, elements, divisor);
      return Motion::messages;
    }
    if (!(copies && in_place_already(sinks)))
      target().reduce_copy(call(), target().sources(), op.operand_count, scaled, target().sinks(), sinks, elements,
                           divisor);
    return deliver(op, slice, bytes) ? Motion::messages : Motion::failed;
  }

  bool scales(const Op& op) const { return call().scaled && reads_input(program(), op); }
  u32 divisor_of(const Op& op) const { return op.completes ? call().divisor : 1; }

  bool in_place_already(u32 n) { return n == 0 || (n == 1 && target().sources()[0].data == target().sinks()[0]); }

  bool copy_from_peer(const Op& op, u64 slice, u64 bytes) {
    const Access& operand = program().operands[op.operand_begin];
    const Access& destination = program().destinations[op.destination_begin];
    return target().fetch(connections()[operand.connection], local(destination, slice), remote_address(operand, slice),
                          bytes);
  }

  // The threads of a block share the operands, whose addresses may lie in headers that they have to load.
  bool gather_operands(const Op& op, u64 slice, u64 bytes) {
    if constexpr (Target::kAlone) {
      return gather_operands(op, slice, bytes, 0, 1);
    } else {
      return target().all([&] { return gather_operands(op, slice, bytes, Target::thread(), Target::threads()); });
    }
  }
  bool gather_operands(const Op& op, u64 slice, u64 bytes, u32 first, u32 step) {
    SCCL_ROLLED for (u32 i = first; i < op.operand_count; i += step) {
      const Access& operand = program().operands[op.operand_begin + i];
      const bool original = operand.buffer == Buffer::input && operand.via != Via::slot;
      Source source{nullptr, original ? call().scale_bits : Target::one_bits(call().type)};
      if (operand.via == Via::local) {
        source.data = local(operand, slice);
      } else {
        Connection& connection = connections()[operand.connection];
        source.data = arrived_data(operand, connection, i, slice, bytes);
        if (source.data == nullptr) return false;
        if (original) source.scale_bits = Simple::header(connection).scale_bits;
      }
      target().sources()[i] = source;
    }
    return true;
  }

  // Null when the peer's memory cannot be reached.
  const u8* arrived_data(const Access& operand, Connection& connection, u32 index, u64 slice, u64 bytes) {
    if (operand.via == Via::slot)
      return with_protocol(
          [&](auto wire) { return arrived_payload<decltype(wire)>(connection, target().bounce(index), bytes); });
    if (connection.maps_buffers) return reinterpret_cast<const u8*>(remote_address(operand, slice));
    u8* const bounce = target().bounce(index);
    return target().fetch(connection, bounce, remote_address(operand, slice), bytes) ? bounce : nullptr;
  }
  template <class Wire>
  const u8* arrived_payload(Connection& connection, u8* bounce, u64 bytes) const {
    if constexpr (Target::kLendsSlots && Wire::kLends)
      if (const u64 lent = Wire::header(connection).lent; lent != 0) return target().lent_payload(lent);
    if constexpr (Wire::kInPlace) {
      return Wire::payload(connection, bytes);
    } else {
      Wire::unpack(connection, bounce, bytes);
      return bounce;
    }
  }

  // Whether messages are read and written in their slots.
  bool lies_in_place() const {
    return with_protocol([](auto wire) { return wire.kInPlace; });
  }
  u8* slot_payload(Connection& connection, u64 bytes) const {
    return with_protocol([&](auto wire) -> u8* {
      if constexpr (decltype(wire)::kInPlace) return wire.payload(connection, bytes);
      return nullptr;
    });
  }

  bool needs_delivery(const Access& destination) const {
    if (destination.via == Via::local) return false;
    if (destination.via == Via::slot) return !lies_in_place();
    return !connections()[destination.connection].maps_buffers;
  }

  // Collects the addresses that the mover can write. If all destinations need a delivery, the result goes to a bounce
  // buffer, or stays where it is if the operation is a copy. A copy onto its own source (a block in place) is left out,
  // because other lanes read the block there.
  u32 place_destinations(const Op& op, u64 slice, u64 bytes, bool copies) {
    const Access& first = program().operands[op.operand_begin];
    const u8* const copied = copies && first.via == Via::local ? local(first, slice) : nullptr;
    u32 count = 0;
    bool deliveries = false;
    bool written = false;  // a slot that several ranks read is among the sinks
    const auto place = [&](u8* sink) {
      if (Target::leads()) target().sinks()[count] = sink;
      ++count;
    };
    SCCL_ROLLED for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program().destinations[op.destination_begin + i];
      if (needs_delivery(destination))
        deliveries = true;
      else if (destination.via == Via::local && local(destination, slice) == copied)
        continue;
      else if (destination.via == Via::local)
        place(local(destination, slice));
      else if (destination.via == Via::slot) {
        Connection& connection = connections()[destination.connection];
        if constexpr (Target::kLendsSlots)
          if (stays(op, connection, bytes)) continue;
        const bool shares = Target::shares_slots(call(), connection);
        if (shares && written) continue;
        written = written || shares;
        target().fills_slot(count, connection);
        place(slot_payload(connection, bytes));
      } else
        place(reinterpret_cast<u8*>(remote_address(destination, slice)));
    }
    if (deliveries && count == 0)
      place(copies && Target::leads() ? const_cast<u8*>(target().sources()[0].data) : target().result());
    return count;
  }

  bool deliver(const Op& op, u64 slice, u64 bytes) {
    if (goes_by_words()) {
      if (!op.sends) return true;
      target().sync();
      const Access* const destinations = program().destinations + op.destination_begin;
      Connection* const ends = connections();
      const u8* const result = target().sinks()[0];
      with_protocol([&](auto wire) {
        if constexpr (decltype(wire)::kByWords)
          wire.put_words(ends, destinations, op.destination_count, result, bytes, signature(op));
      });
      return true;
    }
    bool result_seen = false;
    SCCL_ROLLED for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program().destinations[op.destination_begin + i];
      if (!needs_delivery(destination)) continue;
      Connection& connection = connections()[destination.connection];
      if (!result_seen) target().sync();
      result_seen = true;
      const u8* result = target().sinks()[0];
      if (destination.via == Via::slot)
        with_protocol([&](auto wire) {
          using Wire = decltype(wire);
          if constexpr (!Wire::kInPlace && !Wire::kByWords) Wire::pack(connection, result, bytes, signature(op));
        });
      else if (!target().put(connection, remote_address(destination, slice), result, bytes))
        return false;
    }
    return true;
  }

  // A payload for another host that stays where it is: it is sent from there.
  bool stays(const Op& op, const Connection& connection, u64 bytes) {
    const Access& from = program().operands[op.operand_begin];
    const bool copies = op.operand_count == 1 && from.via == Via::local && !scales(op) && divisor_of(op) <= 1;
    return copies && with_protocol([](auto wire) { return wire.kLends; }) &&
           target().shows(connection, from.buffer, bytes);
  }

  // Called before the headers are published: each header says where its payload lies.
  void address_slots(const Op& op, u64 slice, u64 bytes) {
    Connection* lender = nullptr;
    for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program().destinations[op.destination_begin + i];
      if (destination.via != Via::slot) continue;
      Connection& connection = connections()[destination.connection];
      const bool shares = Target::shares_slots(call(), connection);
      u64& lent = Simple::header(connection).lent;
      lent = shares && lender != nullptr ? target().lend(*lender, connection) : 0;
      if (stays(op, connection, bytes))
        lent = reinterpret_cast<u64>(local(program().operands[op.operand_begin], slice));
      if (shares && lender == nullptr) lender = &connection;
    }
  }

  void finish_messages(const Op& op, u64 slice, u64 bytes) {
    if constexpr (Target::kLendsSlots)
      if (with_protocol([](auto wire) { return wire.kLends; })) address_slots(op, slice, bytes);
    SCCL_ROLLED for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program().destinations[op.destination_begin + i];
      if (destination.via != Via::slot) continue;
      Connection& connection = connections()[destination.connection];
      with_protocol([&](auto wire) { wire.publish(connection, signature(op), bytes); });
    }
    SCCL_ROLLED for (u32 i = 0; i < op.operand_count; ++i) {
      const Access& operand = program().operands[op.operand_begin + i];
      if (operand.via != Via::slot) continue;
      Connection& connection = connections()[operand.connection];
      with_protocol([&](auto wire) { wire.consume(connection, bytes); });
    }
    wake_peers(op);
  }

  void wake_peers(const Op& op) {
    target().fence();
    SCCL_ROLLED for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program().destinations[op.destination_begin + i];
      if (destination.via == Via::slot) target().ring_after_fence(connections()[destination.connection]);
    }
    SCCL_ROLLED for (u32 i = 0; i < op.operand_count; ++i) {
      const Access& operand = program().operands[op.operand_begin + i];
      if (operand.via == Via::slot) target().ring_after_fence(connections()[operand.connection]);
    }
  }
};

}  // namespace sccl::device
