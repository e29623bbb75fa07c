// Calls without kernels that wait: a rank's call is a list of copies, short kernels, and flags that its stream waits
// for and writes. For ranks of several processes on one device without a process service, where a kernel that waits
// burns the time slice in which its peer would run; and, when asked for, for large moves that do not reduce, by copy
// engines.
//
// A connection has four slots in the receiver's device memory and two flags a slot, each in the memory of the rank that
// waits for it, so that streams only ever wait for words of their own rank:
//
//   sender's stream                                  receiver's stream
//   wait  empty == 1, then write empty = 0
//   copy or reduce into the slot
//   write full = signature  ---------------------->  wait  full == signature, then write full = 0
//                                                    copy or reduce out of the slot
//                           <----------------------  write empty = 1
//
// A flag is set by one side and cleared by the other, in turns: a word is 0 when its setter sets it, because the
// clearing came before the message, or the credit, in whose wake the setter acts. So no set is lost, and no wait sees a
// set twice. When a call has ended everywhere all flags are as before it, with nothing counted: a captured call can be
// replayed with the same values. Message k of a call takes slot k % 4, at both ends.
//
// Flags lie in host memory that all processes map and register with their driver, so that the host can read them, and
// set them where a wait must end although nothing comes (stream_watch.h).
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

// As rings have: programs are made for so many.
inline constexpr int kStreamSlots = device::kSlotCount;
inline constexpr std::uint32_t kFree = 1;  // of `empty`
// An operation's operands and destinations are a kernel's arguments.
inline constexpr int kMostStreamRanks = 64;

// Slices so small that the copies of two hops overlap; larger ones where all ranks share a device and nothing overlaps.
inline constexpr std::size_t kSlicesOfMove = 8;
inline constexpr std::size_t kLeastSliceBytes = 1 << 20;

// Of one rank: what it tells of itself, then its flags.
struct StreamProgress {
  // By its stream:
  std::uint32_t call;      // of StreamLog
  std::uint32_t stage;     // 1 + the number of the wait it is at; 0 between calls
  std::uint32_t finished;  // the last call that is not of a graph, its number's low half
  // By its host:
  alignas(64) std::uint32_t launched;  // what `finished` will become
  std::uint64_t stopping;  // 1: this rank's calls will not end as they should, and its kernels send no signals
};

// One rank's page, mapped and registered in this process.
struct FlagPage {
  std::shared_ptr<host::Segment> segment;
  gpu::PinnedMemory pinned;

  FlagPage(const gpu::Device& device, std::shared_ptr<host::Segment> memory)
      : segment(std::move(memory)), pinned(device, segment->data(), segment->size()) {}

  StreamProgress& progress() const { return *reinterpret_cast<StreamProgress*>(segment->data()); }
};

// What kind of flag, by which peer, in which slot: an index of words after StreamProgress. Gates come behind them.
enum class Flag : std::uint8_t { full, empty };

struct StreamPath {
  bool all_calls = false;        // else large moves only
  std::size_t engine_bytes = 0;  // from so many on a move is large; 0: none is
  bool capturable = false;
  std::size_t slot_bytes = 0;
  Rank rank = 0;
  std::vector<std::shared_ptr<FlagPage>> pages;           // by rank
  std::vector<gpu::Address> page_addresses;               // for this rank's device
  std::vector<std::shared_ptr<gpu::DeviceMemory>> slots;  // by rank
  StreamLog log;

  int ranks() const { return static_cast<int>(pages.size()); }
  FlagPage& page(Rank of) const { return *pages[static_cast<std::size_t>(of)]; }
  StreamProgress& progress() const { return page(rank).progress(); }

  // The flag of `owner` that `peer` sets, for the host and for streams of this process.
  std::uint32_t* flag(Rank owner, Flag which, Rank peer, int slot) const {
    return reinterpret_cast<std::uint32_t*>(page(owner).segment->data() + offset(which, peer, slot));
  }
  gpu::Address flag_address(Rank owner, Flag which, Rank peer, int slot) const {
    return page_addresses[static_cast<std::size_t>(owner)] + offset(which, peer, slot);
  }
  // Where `owner` waits for signals of `peer`.
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
  // Words of StreamProgress of this rank.
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

// What every rank knows of every rank when they decide.
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

// Whether two of the ranks must not wait for each other in kernels.
bool shares_time(std::span<const StreamRecord> records);

// All ranks call it in step after share_device_memory; all get a path, or none does, which is told in one line where
// there is a reason to want one.
std::shared_ptr<StreamPath> share_stream_path(Rank rank, const DeviceMembership& devices, Bootstrap& bootstrap,
                                              Deadline deadline);

}  // namespace sccl::runtime
