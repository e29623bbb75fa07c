// The state that a rank's peers read: the doorbell on which the rank sleeps, the calls it has entered, its fault and
// its presence. Other files of runtime/control explain and use the members. For ranks of one host the state lies at the
// beginning of the rank's shared memory (transport/shm/memory_layout.h); ranks of other hosts read a mirror of the
// state (mirror.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/monotonic.h"
#include "base/types.h"
#include "kernels/device/wait_record.h"
#include "platform/host/doorbell.h"
#include "runtime/call/signature.h"
#include "runtime/control/state/plan_board.h"
#include "runtime/control/state/sent_counts.h"

namespace sccl::runtime {

// One entered call. Peers can read the record even while the owner overwrites it: `sequence` is zero while the fields
// change and is stored last (release); a reader loads `sequence` before the fields (acquire) and again after them.
struct CallRecord {
  std::atomic<std::uint64_t> sequence{0};
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::uint64_t> packed{0};
  std::atomic<std::uint64_t> extras{0};  // windows and options

  void publish(const CallSignature& call);
  // False when the record holds another call or is just being written.
  bool read(std::uint64_t sequence, CallSignature& call) const;
};

// A small message to all peers (boards.h). Peers can read it even while the owner replaces it: as in CallRecord.
struct Notice {
  static constexpr std::size_t kBytes = 192;

  std::atomic<std::uint64_t> tag{0};
  std::array<std::atomic<std::uint64_t>, kBytes / 8> words{};

  void post(std::uint64_t new_tag, std::span<const std::byte> bytes);
  std::array<std::byte, kBytes> read() const;
};

// One board per kind of message: the records of control_all_gather.h (two boards, in turn); the ids of communicators
// made from this one, or why a rank gives up making one; the records and verdicts of transport/mapped/mapped_buffers.h
// (two boards each, in turn).
enum class Board : std::uint8_t {
  even,
  odd,
  split,
  shrink,
  grow,
  buffers_even,
  buffers_odd,
  verdict_even,
  verdict_odd
};
inline constexpr std::size_t kBoards = 9;

// revoked: the rank takes part in no more calls, but can still take part in making new communicators.
enum class Presence : std::uint32_t { present = 0, revoked = 1, destroyed = 2, aborted = 3 };

using LaneWait = device::WaitRecord;

// The values that `sccl status` shows of a rank. Only `completed` is ordered: stored (release) after the call's
// messages.
struct Activity {
  static constexpr std::size_t kMostWaits = 32;

  std::atomic<std::uint64_t> entered{0};                       // collectives begun
  std::atomic<std::uint64_t> completed{0};                     // number of the last completed collective
  std::atomic<std::uint32_t> transfers{0};                     // 1 while a batch of Send and Recv is running
  std::atomic<std::uint64_t> waits_since_us{0};                // 0: no wait in progress
  std::array<std::atomic<std::uint64_t>, kMostWaits> waits{};  // LaneWait, then zeros
  // The number of the process while a signal or a debugger has stopped it, else 0. Only over hosts, where an agent of
  // the host stores it while some rank waits.
  std::atomic<std::int32_t> stopped{0};
  std::atomic<std::uint32_t> waits_outside{0};  // 1 in a long wait outside of calls (Split, WaitSignal)
};

// The times at which a rank began and ended a timed call (control_plane.h, Trials).
struct TrialRecord {
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::uint64_t> begin_ns{0};
  std::atomic<std::uint64_t> end_ns{0};
};

// When a rank entered a call of those whose arrivals are measured (control/arrivals.h). `number` counts these calls; it
// is zero while the rest changes, and is stored last (release), loaded first (acquire) and once more.
struct ArrivalRecord {
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::uint64_t> entered_ns{0};  // CLOCK_MONOTONIC

  enum class Found : std::uint8_t { not_yet, there, replaced };
  void publish(std::uint64_t number, std::uint64_t entered_ns);
  Found read(std::uint64_t number, std::uint64_t& entered_ns) const;
};

// What was found about the arrivals of this host's ranks. Whoever finds it adds; each value stands for itself.
struct ArrivalSums {
  static constexpr std::size_t kKinds = 64;

  // Of the calls of one collective and size class.
  struct Kind {
    std::atomic<std::uint64_t> key{0};  // 0: free
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> spread_ns{0};
    std::atomic<std::uint64_t> mean_difference_ns{0};
  };

  std::atomic<std::uint64_t> last{0};       // calls that this rank entered last
  std::atomic<std::uint64_t> behind_ns{0};  // after the median, in these calls
  // Of this rank, where hosts share no clock: calls whose arrivals were measured, and the time in them.
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> in_calls_ns{0};
  std::array<Kind, kKinds> kinds;  // used in the state of the host's first rank
};

// Which calls are reduced by the ranks that are there (host/choosing/arrival_gate.h). Rank 0 writes, in its own state.
struct ArrivalWords {
  static constexpr std::size_t kGroups = 9;

  std::array<std::atomic<std::uint64_t>, kGroups> forms{};
  std::atomic<std::uint64_t> latest{0};  // the call at which the latest decision was made
  std::atomic<std::uint64_t> agreed{0};  // over hosts instead of these (host/choosing/arrival_agreement.h)
};

// Over hosts: how long this rank was in measured calls (host/choosing/arrival_costs.h), by group of calls, then for the
// usual form and for calls reduced by the ranks that are there. Each value stands for itself.
struct ArrivalTimes {
  struct Sum {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> thousandths{0};  // of the time of a message
  };
  std::array<std::array<Sum, 2>, ArrivalWords::kGroups> sums{};
};

struct ArrivalState {
  static constexpr std::size_t kKept = 64;

  alignas(64) std::array<ArrivalRecord, kKept> records;  // by number
  alignas(64) ArrivalSums sums;
  alignas(64) ArrivalWords words;
  alignas(64) ArrivalTimes times;
};

struct SharedState {
  static constexpr std::size_t kRecords = 64;
  static constexpr std::size_t kTrials = 64;
  static constexpr std::size_t kFaultTextBytes = 1024;

  host::Doorbell bell;
  std::array<CallRecord, kRecords> records;
  // Presence; stored (release) when the rank leaves, loaded (acquire) by waiting peers.
  std::atomic<std::uint32_t> presence{0};
  // ErrorCode of the rank's first failure; stored (release) after the text, loaded (acquire) before it.
  std::atomic<int> fault{0};
  std::array<char, kFaultTextBytes> fault_text{};
  // A failed rank takes its buffers back by these flags (withdrawal.h).
  std::atomic<std::uint32_t> touching{0};
  std::atomic<std::uint32_t> withdrawn{0};
  Activity activity;
  SentCounts sent;                              // to ranks of other hosts
  std::array<TrialRecord, kTrials> trials;      // by number
  std::array<Notice, kBoards> notices;          // by Board
  std::atomic<std::uint64_t> gathering{0};      // see Boards::gathering
  std::atomic<std::uint64_t> records_shown{0};  // the owner's own affair; see Boards::next_record
  // What the ranks of a host share. That of the host's first rank counts.
  struct OfHost {
    host::Doorbell bell;  // see Bells::of_host
    PlanBoard plans;      // see ControlPlane::plans
  };
  OfHost of_host;
  ArrivalState arrival;

  Notice& notice(Board board) { return notices[static_cast<std::size_t>(board)]; }

  void publish_fault(int code, std::string_view text);
};

}  // namespace sccl::runtime
