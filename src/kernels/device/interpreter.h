// The interpreter: runs a lane's next operation if nothing it needs is missing, and says so if something is.
//
// A lane stops in one place only, the readiness test at the top of step(): it has no half-done operation to come back
// to. A GPU block calls step() in a loop; the host calls it in turn for all lanes of a thread.
//
// Target offers, besides the memory vocabulary of protocol.h:
//   static void reduce_copy(const Call&, Span of operands, Span of destinations, elements, divisor)
//   u8* bounce(i)                        one slice of private memory for operand i; bounce(kResult) for a result
//   bool fetch(connection, to, address, bytes), bool put(connection, address, from, bytes)
//                                        a peer's memory, where it does not share the address space
//   void ring(connection)                wakes the peer; everything stored before is visible to it
//   Source* sources(), u8** sinks()      room for one operation's operands and destinations
#pragma once

#include "kernels/device/protocol.h"

namespace sccl::device {

struct Source {
  const u8* data;
  u64 scale_bits;
};

template <class Target>
class Interpreter {
 public:
  Interpreter(const Program& program, const Call& call, Connection* connections, LaneState* lanes, Target& target)
      : program_(program), call_(call), connections_(connections), lanes_(lanes), target_(target) {}

  Outcome step(u32 lane_index) {
    const Lane& lane = program_.lanes[lane_index];
    LaneState& state = lanes_[lane_index];
    if (is_finished(lane, state)) return Outcome::finished;
    const Op& op = program_.ops[lane.op_begin + state.op];
    const u64 elements = op.kind == OpKind::move ? slice_elements(op, state.slice) : 0;
    // Both ends of a message compute the same size, so neither sends nor expects an empty one.
    if (op.kind != OpKind::move || elements > 0) {
      const Outcome ready = readiness(op, state, elements);
      if (ready != Outcome::progressed) return ready;
      if (!execute(op, state, elements)) return Outcome::failed;
    } else if (!dependencies_met(op, state)) {
      state.blocked_on_peer = -1;
      return Outcome::blocked;
    }
    advance(lane, op, state);
    return is_finished(lane, state) ? Outcome::finished : Outcome::progressed;
  }

 private:
  using Simple = Slots<Target>;
  using Ll = LowLatency<Target>;

  bool is_finished(const Lane& lane, const LaneState& state) const {
    if (lane.order == LaneOrder::op_major) return state.op == lane.op_count;
    return lane.op_count == 0 || state.slice == call_.slice_count;
  }

  u64 slice_elements(const Op& op, u64 slice) const {
    const u64 begin = slice * call_.slice_elements;
    const u64 total = call_.chunks[op.chunk].elements;
    if (begin >= total) return 0;
    return total - begin < call_.slice_elements ? total - begin : call_.slice_elements;
  }

  void advance(const Lane& lane, const Op& op, LaneState& state) {
    ++state.finished;
    state.blocked_on_peer = -1;
    if (lane.order == LaneOrder::slice_major) {
      if (++state.op == lane.op_count) {
        state.op = 0;
        ++state.slice;
      }
      return;
    }
    // An operation of this lane runs over its own chunk's slices only.
    ++state.slice;
    if (op.kind != OpKind::move || state.slice * call_.slice_elements >= call_.chunks[op.chunk].elements) {
      state.slice = 0;
      ++state.op;
    }
  }

  bool dependencies_met(const Op& op, const LaneState& state) const {
    for (u32 i = 0; i < op.dependency_count; ++i) {
      const Dependency& wait = program_.dependencies[op.dependency_begin + i];
      if (state.slice < wait.distance) continue;
      const u64 needed = (state.slice - wait.distance) * program_.lanes[wait.lane].op_count + wait.op + 1;
      if (Target::load_lane(&lanes_[wait.lane].finished) < needed) return false;
    }
    return true;
  }

  Outcome blocked(LaneState& state, int peer) const {
    state.blocked_on_peer = peer;
    return Outcome::blocked;
  }

  Outcome mismatch(LaneState& state, int peer) const {
    state.blocked_on_peer = peer;
    return Outcome::mismatch;
  }

  // `progressed` when everything the operation needs is there.
  Outcome readiness(const Op& op, LaneState& state, u64 elements) {
    if (!dependencies_met(op, state)) return blocked(state, -1);
    for (u32 i = 0; i < op.operand_count; ++i) {
      const Access& operand = program_.operands[op.operand_begin + i];
      if (operand.via == Via::local) continue;
      const Outcome arrival = arrived(op, operand, state, elements);
      if (arrival != Outcome::progressed) return arrival;
    }
    for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program_.destinations[op.destination_begin + i];
      if (destination.via == Via::local) continue;
      Connection& connection = connections_[destination.connection];
      if (destination.via == Via::remote) {
        const Outcome arrival = arrived(op, destination, state, elements);
        if (arrival != Outcome::progressed) return arrival;
      } else if (op.kind == OpKind::drain) {
        if (!Simple::drained(connection)) return blocked(state, connection.peer);
      } else if (!has_room(op, connection)) {
        return blocked(state, connection.peer);
      }
    }
    return Outcome::progressed;
  }

  u32 signature(const Op& op) const { return call_.signature ^ call_.chunks[op.chunk].tag; }

  // Descriptors travel through the slots of the simple protocol always.
  Outcome arrived(const Op& op, const Access& access, LaneState& state, u64 elements) {
    Connection& connection = connections_[access.connection];
    if (op.kind == OpKind::move && access.via == Via::slot && call_.protocol == Protocol::ll) {
      if (Ll::begun(connection) && Ll::signature(connection) != signature(op)) return mismatch(state, connection.peer);
      if (!Ll::arrived(connection, elements * call_.element_bytes)) return blocked(state, connection.peer);
      return Outcome::progressed;
    }
    if (!Simple::arrived(connection)) return blocked(state, connection.peer);
    if (Simple::header(connection).signature != signature(op)) return mismatch(state, connection.peer);
    return Outcome::progressed;
  }

  bool has_room(const Op& op, Connection& connection) {
    if (op.kind == OpKind::post || call_.protocol == Protocol::simple) return Simple::has_room(connection);
    return Ll::has_room(connection);
  }

  bool execute(const Op& op, LaneState& state, u64 elements) {
    switch (op.kind) {
      case OpKind::move: return move(op, state.slice, elements);
      case OpKind::post: post(op, state.slice); return true;
      case OpKind::release: release(connections_[program_.operands[op.operand_begin].connection]); return true;
      case OpKind::drain: return true;
    }
    return false;
  }

  // The buffers as a whole, or the one place that a point-to-point transfer is about.
  void post(const Op& op, u64 slice) {
    const Access& access = program_.destinations[op.destination_begin];
    Connection& connection = connections_[access.connection];
    SlotHeader& header = Simple::header(connection);
    header.input_address = reinterpret_cast<u64>(access.buffer == Buffer::none ? call_.input : local(access, slice));
    header.output_address = reinterpret_cast<u64>(call_.output);
    header.scale_bits = call_.scale_bits;
    Simple::publish(connection, signature(op), 0);
    target_.ring(connection);
  }

  void release(Connection& connection) {
    Simple::consume(connection);
    target_.ring(connection);
  }

  u64 offset_bytes(const Access& access, u64 slice) const {
    if (access.buffer == Buffer::scratch) return access.index * call_.scratch_slot_bytes;
    const Chunk& chunk = call_.chunks[access.index];
    const u64 base = access.buffer == Buffer::input ? chunk.input_offset : chunk.output_offset;
    return (base + slice * call_.slice_elements) * call_.element_bytes;
  }

  // In integers: the buffers of a point-to-point batch are unrelated objects behind one base of zero.
  u8* local(const Access& access, u64 slice) const {
    const u8* base = access.buffer == Buffer::input    ? call_.input
                     : access.buffer == Buffer::output ? call_.output
                                                       : call_.scratch;
    return reinterpret_cast<u8*>(reinterpret_cast<u64>(base) + offset_bytes(access, slice));
  }

  u64 remote_address(const Access& access, u64 slice) {
    const SlotHeader& header = Simple::header(connections_[access.connection]);
    const u64 base = access.buffer == Buffer::input ? header.input_address : header.output_address;
    return base + offset_bytes(access, slice);
  }

  bool move(const Op& op, u64 slice, u64 elements) {
    const u64 bytes = elements * call_.element_bytes;
    const bool scaled = call_.scaled && reads_input(op);
    const u32 divisor = op.completes ? call_.divisor : 1;
    if (!scaled && divisor <= 1 && is_remote_copy(op)) return copy_from_peer(op, slice, bytes);
    if (!gather_operands(op, slice, bytes)) return false;
    const u32 sinks = place_destinations(op, slice);
    if (!in_place_already(op, sinks, scaled, divisor))
      Target::reduce_copy(call_, target_.sources(), op.operand_count, scaled, target_.sinks(), sinks, elements, divisor);
    if (!deliver(op, slice, bytes)) return false;
    finish_messages(op, bytes);
    return true;
  }

  bool reads_input(const Op& op) const {
    for (u32 i = 0; i < op.operand_count; ++i) {
      const Access& operand = program_.operands[op.operand_begin + i];
      if (operand.via != Via::slot && operand.buffer == Buffer::input) return true;
    }
    return false;
  }

  bool in_place_already(const Op& op, u32 sinks, bool scaled, u32 divisor) {
    return op.operand_count == 1 && sinks == 1 && !scaled && divisor <= 1 &&
           target_.sources()[0].data == target_.sinks()[0];
  }

  // One operand in a peer's memory, to a place of our own: no bounce buffer.
  bool is_remote_copy(const Op& op) const {
    if (op.operand_count != 1 || op.destination_count != 1) return false;
    const Access& operand = program_.operands[op.operand_begin];
    const Access& destination = program_.destinations[op.destination_begin];
    return operand.via == Via::remote && destination.via == Via::local &&
           !connections_[operand.connection].shares_address_space;
  }

  bool copy_from_peer(const Op& op, u64 slice, u64 bytes) {
    const Access& operand = program_.operands[op.operand_begin];
    const Access& destination = program_.destinations[op.destination_begin];
    return target_.fetch(connections_[operand.connection], local(destination, slice), remote_address(operand, slice),
                         bytes);
  }

  bool gather_operands(const Op& op, u64 slice, u64 bytes) {
    Source* sources = target_.sources();
    for (u32 i = 0; i < op.operand_count; ++i) {
      const Access& operand = program_.operands[op.operand_begin + i];
      const bool original = operand.buffer == Buffer::input && operand.via != Via::slot;
      sources[i].scale_bits = original ? call_.scale_bits : Target::one_bits(call_.type);
      if (operand.via == Via::local) {
        sources[i].data = local(operand, slice);
        continue;
      }
      Connection& connection = connections_[operand.connection];
      if (operand.via == Via::slot && call_.protocol == Protocol::simple) {
        sources[i].data = Simple::payload(connection);
        continue;
      }
      if (operand.via == Via::remote && connection.shares_address_space) {
        sources[i].data = reinterpret_cast<const u8*>(remote_address(operand, slice));
      } else {
        u8* bounce = target_.bounce(i);
        sources[i].data = bounce;
        if (operand.via == Via::slot)
          Ll::unpack(connection, bounce, bytes);
        else if (!target_.fetch(connection, bounce, remote_address(operand, slice), bytes))
          return false;
      }
      if (original) sources[i].scale_bits = Simple::header(connection).scale_bits;
    }
    return true;
  }

  bool needs_delivery(const Access& destination) const {
    if (destination.via == Via::local) return false;
    if (destination.via == Via::slot) return call_.protocol == Protocol::ll;
    return !connections_[destination.connection].shares_address_space;
  }

  // The addresses the mover can write. Where only deliveries follow, the result goes to a bounce buffer first.
  u32 place_destinations(const Op& op, u64 slice) {
    u8** sinks = target_.sinks();
    u32 count = 0;
    bool deliveries = false;
    for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program_.destinations[op.destination_begin + i];
      if (needs_delivery(destination)) {
        deliveries = true;
        continue;
      }
      if (destination.via == Via::local)
        sinks[count++] = local(destination, slice);
      else if (destination.via == Via::slot)
        sinks[count++] = Simple::payload(connections_[destination.connection]);
      else
        sinks[count++] = reinterpret_cast<u8*>(remote_address(destination, slice));
    }
    if (deliveries && count == 0) sinks[count++] = target_.result();
    return count;
  }

  bool deliver(const Op& op, u64 slice, u64 bytes) {
    for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program_.destinations[op.destination_begin + i];
      if (!needs_delivery(destination)) continue;
      Connection& connection = connections_[destination.connection];
      const u8* result = target_.sinks()[0];
      if (destination.via == Via::slot)
        Ll::pack(connection, result, bytes, signature(op));
      else if (!target_.put(connection, remote_address(destination, slice), result, bytes))
        return false;
    }
    return true;
  }

  void finish_messages(const Op& op, u64 bytes) {
    const bool simple = call_.protocol == Protocol::simple;
    for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program_.destinations[op.destination_begin + i];
      if (destination.via != Via::slot) continue;
      Connection& connection = connections_[destination.connection];
      if (simple) Simple::publish(connection, signature(op), bytes);
    }
    for (u32 i = 0; i < op.operand_count; ++i) {
      const Access& operand = program_.operands[op.operand_begin + i];
      if (operand.via != Via::slot) continue;
      Connection& connection = connections_[operand.connection];
      if (simple)
        Simple::consume(connection);
      else
        Ll::consume(connection);
    }
    wake_peers(op);
  }

  void wake_peers(const Op& op) {
    Target::fence();
    for (u32 i = 0; i < op.destination_count; ++i) {
      const Access& destination = program_.destinations[op.destination_begin + i];
      if (destination.via == Via::slot) target_.ring_after_fence(connections_[destination.connection]);
    }
    for (u32 i = 0; i < op.operand_count; ++i) {
      const Access& operand = program_.operands[op.operand_begin + i];
      if (operand.via == Via::slot) target_.ring_after_fence(connections_[operand.connection]);
    }
  }

  const Program& program_;
  const Call& call_;
  Connection* connections_;
  LaneState* lanes_;
  Target& target_;
};

}  // namespace sccl::device
