// The states of ranks of other hosts, for the ranks of this host. One segment per communicator and host holds them, and
// all ranks of the host share the segment. The agent of one rank (hosts/host_agent.h) keeps the mirrors up to date. If
// the agent ends, another rank's agent goes on in the same memory.
//
// Every value of a mirror is an earlier value of the rank's own state. If the owner stores a value with release after
// other values, the agent stores it after those values, too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/types.h"
#include "platform/host/segment.h"
#include "runtime/control/state/shared_state.h"

namespace sccl::runtime {

// How a rank of another host ended without announcing its end. ended: its process ended. replaced: exec replaced its
// program. lost: its host sent nothing for too long.
enum class RemoteEnd : std::uint32_t { none = 0, ended = 1, replaced = 2, lost = 3 };

struct Mirror {
  SharedState state;
  // A RemoteEnd. Stored (release) after the state's last values, loaded (acquire) by waiting ranks.
  std::atomic<std::uint32_t> end{0};

  RemoteEnd ended() const { return static_cast<RemoteEnd>(end.load(std::memory_order_acquire)); }
};

class MirrorTable {
 public:
  static std::size_t bytes(int ranks) { return sizeof(Head) + sizeof(Entry) * static_cast<std::size_t>(ranks); }
  // Makes a table in a new segment of bytes(ranks) zeros.
  static void construct(host::Segment& segment, int ranks) {
    new (segment.data()) Head;
    for (int rank = 0; rank < ranks; ++rank)
      new (segment.data() + sizeof(Head) + sizeof(Entry) * static_cast<std::size_t>(rank)) Entry;
  }

  MirrorTable() = default;
  explicit MirrorTable(std::shared_ptr<host::Segment> segment) : segment_(std::move(segment)) {}

  bool valid() const { return segment_ != nullptr; }
  const std::shared_ptr<host::Segment>& segment() const { return segment_; }
  // For a rank of another host.
  Mirror& mirror(Rank rank) const { return entry(rank).mirror; }
  // For a rank of this host: 1 once its agent has ended. Stored with release at least, loaded with acquire at least.
  std::atomic<std::uint32_t>& retired(Rank rank) const { return entry(rank).retired; }
  // The rank of this host whose agent works, -1: none yet. Stands for itself.
  std::atomic<std::int32_t>& leader() const { return head().leader; }
  // When the working agent last made a turn, of monotonic_us(); 0 before it has met all other hosts. Stands for itself.
  std::atomic<std::uint64_t>& beat() const { return head().beat; }
  // Grows after a rank of any host has failed, left or ended: stored with release, loaded with acquire.
  std::atomic<std::uint32_t>& news() const { return head().news; }
  // Grows when an agent works no more that may have written here after its successor began.
  std::atomic<std::uint32_t>& doubts() const { return head().doubts; }
  // Grows with each agent of this host that begins to work. Stands for itself.
  std::atomic<std::uint32_t>& term() const { return head().term; }
  // For the lowest rank of another host: the version of that host's changes that the mirrors hold. Stored (release)
  // after the changes, loaded (acquire) by the agent that goes on in the place of another one.
  std::atomic<std::uint64_t>& version(Rank rank) const { return entry(rank).version; }

 private:
  struct alignas(64) Head {
    std::atomic<std::int32_t> leader{-1};
    std::atomic<std::uint32_t> doubts{0};
    std::atomic<std::uint64_t> beat{0};
    std::atomic<std::uint32_t> term{0};
    alignas(64) std::atomic<std::uint32_t> news{0};
  };
  struct alignas(64) Entry {
    Mirror mirror;
    std::atomic<std::uint32_t> retired{0};
    std::atomic<std::uint64_t> version{0};
  };

  Head& head() const { return *reinterpret_cast<Head*>(segment_->data()); }
  Entry& entry(Rank rank) const {
    return reinterpret_cast<Entry*>(segment_->data() + sizeof(Head))[static_cast<std::size_t>(rank)];
  }

  std::shared_ptr<host::Segment> segment_;
};

}  // namespace sccl::runtime
