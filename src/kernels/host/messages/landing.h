// The place where the payload of a message from another host belongs, if the operation of this rank that awaits the
// message only copies it: a part of the result. The link then stores the payload there when it comes. Otherwise it
// stores the payload in the slot, from where the interpreter copies it.
//
//   link                                        interpreter
//   payload comes: copied to its place
//   header.lent = place, flag  --- released -->  acquires the flag; source and destination are the same: no copy
//
// A link asks for the places of the messages in their order. The landing goes through the operations of the lane that
// receives them as the interpreter will, which is behind: what it says follows from the program and the number of
// messages alone. A message that is not the awaited one (another call, another length) belongs into its slot, where the
// interpreter finds the disagreement.
//
// The result must be free from the beginning of the call on: nobody reads or writes a place before its message has
// come. The caller of begin() knows whether that is so (runtime/host/lanes/shown_buffers.h).
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "base/lane_order.h"
#include "kernels/device/program.h"

namespace sccl::kernels {

struct HostConnection;

// Of one incoming connection. begin() and store() are called by the thread that drives the engine, end() by any thread.
class Landing {
 public:
  // Shorter payloads cost too little to look for their places.
  static constexpr std::size_t kLeastBytes = 16384;

  // past_caches: for a result that would not stay in the caches.
  enum class Stores : device::u8 { usual, past_caches };
  // Who receives the messages of the call in progress. Must not change before end().
  struct Receiver {
    const device::Program* program = nullptr;
    const device::Call* call = nullptr;
    device::u32 lane = 0;
    int connection = 0;
    Stores stores = Stores::usual;
  };
  // `position`: of the first message of the call.
  void begin(const Receiver& receiver, device::u64 position);
  // When this returns, nothing is stored in the result any more.
  void end();

  struct Part {
    device::u64 position;   // of the message
    device::u32 signature;  // likewise
    device::u64 bytes;      // likewise
    device::u64 offset;     // in the message; 0 in the first part
    std::span<const std::byte> payload;
  };
  // Stores a part and returns the place of the message's first byte; null: the part belongs into the slot. A message
  // whose payload comes by itself is asked for with an empty part. Whoever has the place and stores there must have
  // ended before the call does.
  device::u8* store(const Part& part);

 private:
  void copy(const Part& part) const;
  device::u8* place_of(const Part& message);
  bool find(device::u64 position);
  const device::Op& op() const;
  device::u64 elements() const;
  bool takes_message() const;
  void pass();

  std::mutex mutex_;  // guards the members below, and is held while a part is stored
  bool open_ = false;
  Receiver receiver_;
  struct State {
    device::u64 slice = 0;
    device::u32 op = 0;
    device::u64 finished = 0;
  };
  State state_;                  // of the lane, at the operation that takes message next_
  device::u64 next_ = 0;         // messages
  device::u8* place_ = nullptr;  // of the message of which parts have come
};

// Begins the landings of all connections through which the program receives messages of other hosts. The program and
// the call must not change before the landings end. Each connection's position is that of the call's first message.
std::vector<Landing*> begin_landings(const device::Program& program, const device::Call& call,
                                     std::span<const HostConnection> connections, Landing::Stores stores);
// Ends all landings of these connections. For any thread.
void end_landings(std::span<const HostConnection> connections);

}  // namespace sccl::kernels
