// Calls without waiting kernels. A rank's call is a list of copies, short kernels, and flags that the rank's stream
// waits for and writes. There are two uses:
// - Ranks of several processes share a device without a process service: a waiting kernel would burn the time slice in
//   which its peer should run.
// - On request, copy engines serve large moves that do not reduce.
//
// A connection has four slots in the receiver's device memory, and two flags per slot. A flag lies in the memory of the
// rank that waits for it, so streams wait only for words of their own rank:
//
//   sender's stream                                  receiver's stream
//   wait  empty == 1, then write empty = 0
//   copy or reduce into the slot
//   write full = signature  ---------------------->  wait  full == signature, then write full = 0
//                                                    copy or reduce out of the slot
//                           <----------------------  write empty = 1
//
// One side sets a flag and the other side clears it, in turns. A word is 0 when its setter sets it: the clearing
// happened before the other side sent the message, or the credit, for which the setter waited. So no set is lost, and
// no wait sees a set twice. After a call has ended on all ranks, all flags are as before the call, and nothing is
// counted: a captured call can be replayed with the same values. Message k of a call uses slot k % 4, at both ends.
//
// Flags lie in host memory that all processes map and register with their drivers. So the host can read the flags, and
// can set a flag to end a wait whose message does not come (stream_watch.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "kernels/device/connection.h"
#include "kernels/gpu/signal_arguments.h"
#include "platform/gpu/memory.h"
#include "platform/host/segment.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/transport/p2p/device_membership.h"
#include "runtime/transport/stream/stream_log.h"

namespace sccl::runtime {

// As many as a ring has.
inline constexpr int kStreamSlots = device::kSlotCount;
inline constexpr std::uint32_t kFree = 1;  // value of the flag `empty`
// An operation's operands and destinations must fit into a kernel's arguments.
inline constexpr int kMostStreamRanks = 64;

// Slices are small, so that the copies of two hops overlap. They are larger if all ranks share a device, because then
// nothing overlaps.
inline constexpr std::size_t kSlicesOfMove = 8;
inline constexpr std::size_t kLeastSliceBytes = 1 << 20;

// The head of a rank's page: the progress of the rank. The rank's flags follow.
struct StreamProgress {
  // Written by the rank's stream:
  std::uint32_t call;      // number in StreamLog
  std::uint32_t stage;     // 1 + the number of the current wait; 0 between calls
  std::uint32_t finished;  // low half of the number of the last finished call; calls of graphs do not count
  // Written by the rank's host:
  alignas(64) std::uint32_t launched;  // the value that `finished` will have after the launched calls
  std::uint64_t stopping;              // 1: calls of this rank fail, and its kernels send no signals
};

// One rank's page, mapped and registered in this process.
struct FlagPage {
  std::shared_ptr<host::Segment> segment;
  gpu::PinnedMemory pinned;

  FlagPage(const gpu::Device& device, std::shared_ptr<host::Segment> memory)
      : segment(std::move(memory)), pinned(device, segment->data(), segment->size()) {}

  StreamProgress& progress() const { return *reinterpret_cast<StreamProgress*>(segment->data()); }
};

// Kind of flag, peer and slot are the index of a flag after StreamProgress. Gates follow the flags.
enum class Flag : std::uint8_t { full, empty };

struct StreamPath {
  bool all_calls = false;        // false: only large moves
  std::size_t engine_bytes = 0;  // moves of at least this size are large; 0: no move is large
  bool capturable = false;
  std::size_t slot_bytes = 0;
  Rank rank = 0;
  std::vector<std::shared_ptr<FlagPage>> pages;           // by rank
  std::vector<gpu::Address> page_addresses;               // by rank, as this rank's device addresses the pages
  std::vector<std::shared_ptr<gpu::DeviceMemory>> slots;  // by rank
  StreamLog log;

  int ranks() const { return static_cast<int>(pages.size()); }
  FlagPage& page(Rank of) const { return *pages[static_cast<std::size_t>(of)]; }
  StreamProgress& progress() const { return page(rank).progress(); }

  // The flag in the page of `owner` that `peer` sets: as the host addresses it, and as streams of this process do.
  std::uint32_t* flag(Rank owner, Flag which, Rank peer, int slot) const {
    return reinterpret_cast<std::uint32_t*>(page(owner).segment->data() + offset(which, peer, slot));
  }
  gpu::Address flag_address(Rank owner, Flag which, Rank peer, int slot) const {
    return page_addresses[static_cast<std::size_t>(owner)] + offset(which, peer, slot);
  }
  // The gate at which `owner` waits for signals of `peer`.
  device::gpu::SignalGate* gate(Rank owner, Rank peer) const {
    return reinterpret_cast<device::gpu::SignalGate*>(page(owner).segment->data() + gate_offset(peer));
  }
  gpu::Address gate_address(Rank owner, Rank peer) const {
    return page_addresses[static_cast<std::size_t>(owner)] + gate_offset(peer);
  }
  gpu::Address slot(Rank owner, Rank source, int number) const {
    return slots[static_cast<std::size_t>(owner)]->address() +
           static_cast<std::size_t>(source * kStreamSlots + number) * slot_bytes;
  }
  // The address of a word in this rank's StreamProgress.
  gpu::Address progress_address(std::size_t offset_bytes) const {
    return page_addresses[static_cast<std::size_t>(rank)] + offset_bytes;
  }

 private:
  std::size_t offset(Flag which, Rank peer, int slot) const {
    return sizeof(StreamProgress) +
           sizeof(std::uint32_t) *
               static_cast<std::size_t>((static_cast<int>(which) * ranks() + peer) * kStreamSlots + slot);
  }
  std::size_t gate_offset(Rank peer) const {
    return offset(Flag::empty, ranks(), 0) + sizeof(device::gpu::SignalGate) * static_cast<std::size_t>(peer);
  }
};

// All ranks exchange these records before they decide.
struct StreamRecord {
  static constexpr std::uint64_t kMeasured = ~0ull;

  bool possible = false;
  bool capturable = false;
  bool beside_others = true;       // see gpu::runs_beside_other_processes
  std::uint8_t wish = 0;           // SCCL_DEVICE_PATH: 0 auto, 1 kernels, 2 streams
  std::uint64_t engine_bytes = 0;  // SCCL_COPY_ENGINE_BYTES; kMeasured: auto
  std::uint64_t memory_limit = 0;
  std::uint64_t process = 0;
  gpu::UniqueDeviceId device{};
};

// Whether kernels of two ranks must not wait for each other: the ranks share a device in time slices.
bool shares_time(std::span<const StreamRecord> records);

// Collective, after share_device_memory. Returns a path on all ranks, or null on all ranks. Rank 0 logs a missing path
// in one line if there is a reason to want a path.
std::shared_ptr<StreamPath> share_stream_path(Rank rank, const DeviceMembership& devices, Bootstrap& bootstrap,
                                              Deadline deadline);

// Throws invalid_usage, at all ranks alike, where kernels that wait for one another would find no room on a device.
void check_room(const DeviceMembership& devices);

}  // namespace sccl::runtime
