// A call with only short messages, prepared once and run many times: everything that the interpreter computes for each
// operation (which chunk, which buffer, how many bytes) is computed beforehand. Program, messages and sums are those of
// the interpreter, so one rank may interpret while another rank runs a ShortCall.
#pragma once

#include <span>
#include <vector>

#include "kernels/host/target.h"

namespace sccl::kernels {

class ShortCall {
 public:
  // What carries the messages: lines (`ll`) those of collectives, slots (`simple`) those of Send and Recv.
  enum class Carrier : device::u8 { lines, slots };
  // Prepares a program for the call's geometry. Returns false, as ready() then does, when the interpreter has to run
  // the program: another protocol, several slices, payloads in slots that may lie elsewhere, peers' buffers in place,
  // scaled operands, integer averages. `connections` must stay valid.
  bool prepare(const device::Program& program, const device::Call& call, std::span<HostConnection> connections,
               Carrier carrier = Carrier::lines);
  bool ready() const { return ready_; }
  // The chunks' places are others than at prepare(), and nothing else is.
  void take_places(const device::Call& call);

  // One turn of all lanes, up to the first lane that finds a message of another call.
  struct Turn {
    std::size_t operations = 0;  // finished in this turn
    std::size_t unfinished = 0;  // lanes
    bool mismatch = false;       // the last lane of this turn ended with Outcome::mismatch
    std::size_t last_lane = 0;
  };
  // Every lane runs until it ends or is blocked. One call for all lanes: lanes have only two or three operations each.
  Turn run(std::span<device::LaneState> states, const device::Call& call, HostTarget& target) const;

 private:
  using u8 = device::u8;
  using u32 = device::u32;
  using u64 = device::u64;
  struct Place {
    HostConnection* connection;  // null: the place is in a buffer of this rank
    device::Buffer buffer;
    u64 offset_bytes;
    u32 index;  // of the chunk, or of the slot of scratch memory
  };
  struct Wait {
    u32 lane;
    u32 operations;  // the number that the lane must have finished
  };
  struct Move {
    std::span<const Place> operands, destinations;
    std::span<const Wait> waits;
    u64 elements;
    u64 bytes;
    u32 tag;
    bool copies;
  };

  static bool fits(const device::Program& program, const device::Call& call, Carrier carrier);
  static u64 offset_bytes(device::Buffer buffer, u32 index, const device::Call& call);
  void make_room(const device::Program& program);
  Move move_of(const device::Program& program, const device::Op& op, const device::Call& call,
               std::span<HostConnection> connections);
  template <class Messages>
  Turn run_lanes(std::span<device::LaneState> states, const device::Call& call, HostTarget& target) const;
  template <class Messages>
  static device::Outcome readiness(const Move& move, std::span<const device::LaneState> states,
                                   device::LaneState& state, u32 signature, HostTarget& target);
  template <class Messages>
  static void carry_out(const Move& move, const device::Call& call, HostTarget& target);
  template <class Messages>
  static void tell_peers(const Move& move, u32 signature, HostTarget& target);

  bool ready_ = false;
  Carrier carrier_ = Carrier::lines;
  std::vector<Place> places_;
  std::vector<Wait> waits_;
  std::vector<Move> moves_;
  std::vector<std::span<const Move>> lanes_;
};

}  // namespace sccl::kernels
