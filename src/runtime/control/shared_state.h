// What a rank shows its peers, at the beginning of its shared memory: the bell it sleeps on, the calls it has entered,
// why it failed, whether it left. Behind it lie the rings it receives through.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "platform/host/doorbell.h"
#include "runtime/call/signature.h"
#include "runtime/control/plan_board.h"

namespace sccl::runtime {

// One entered call, readable by peers while the owner may already be overwriting it: `sequence` is zero while the
// fields change and is stored last (release); a reader loads it before (acquire) and after the fields.
struct CallRecord {
  std::atomic<std::uint64_t> sequence{0};
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::uint64_t> packed{0};
  std::atomic<std::uint64_t> windows{0};

  void publish(const CallSignature& call);
  // False when the record holds another call, or is being written.
  bool read(std::uint64_t sequence, CallSignature& call) const;
};

// A small message to all peers, outside of calls. Stays until the next one; runtime/control/control_all_gather.h tells
// why nobody can still be reading it then.
struct Notice {
  static constexpr std::size_t kBytes = 192;

  std::atomic<std::uint64_t> tag{0};  // stored last (release), loaded first (acquire)
  std::array<std::atomic<std::uint64_t>, kBytes / 8> words{};

  void post(std::uint64_t new_tag, std::span<const std::byte> bytes);
  std::array<std::byte, kBytes> read() const;
};

enum class Board : std::uint8_t { even, odd, split, shrink, grow };

// revoked: takes part in making new communicators, but in no call any more.
enum class Presence : std::uint32_t { present = 0, revoked = 1, destroyed = 2, aborted = 3 };

// Of the clock that all processes of a host share.
std::uint64_t monotonic_us();

// What `sccl status` shows of a rank. Each value stands for itself; `completed` alone is ordered, after the call's
// messages.
struct Activity {
  static constexpr std::size_t kMostAwaited = 8;

  std::atomic<std::uint64_t> entered{0};                          // collectives begun
  std::atomic<std::uint64_t> completed{0};                        // number of the last one that was completed
  std::atomic<std::uint32_t> transfers{0};                        // 1 while a batch of Send and Recv is under way
  std::array<std::atomic<std::int32_t>, kMostAwaited> waits_for;  // ranks, then -1
  std::atomic<std::uint64_t> waits_since_us{0};                   // 0: does not wait

  Activity() {
    for (auto& rank : waits_for) rank.store(-1, std::memory_order_relaxed);
  }
};

// When a rank began and ended a call that choice/tuning/chooser.h times. Read only when the ranks' calls in between
// have made sure that it is written, so that no order is needed.
struct TrialRecord {
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::uint64_t> begin_ns{0};
  std::atomic<std::uint64_t> end_ns{0};
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
  // How a failed rank gets its buffers back from its peers; the protocol is in executor.cc.
  std::atomic<std::uint32_t> touching{0};
  std::atomic<std::uint32_t> withdrawn{0};
  Activity activity;
  std::array<TrialRecord, kTrials> trials;  // by number
  std::array<Notice, 5> notices;            // by Board
  // Of mapped_buffers.h, by number of the comparison: records, and whether all buffers that were new could be mapped
  // (2 number + verdict; stored with release, loaded with acquire).
  std::array<Notice, 2> buffer_records;
  std::array<std::atomic<std::uint64_t>, 2> buffer_verdicts{};
  // Number of the record this rank waits for all ranks to show (control_all_gather.h), 0 when it does not. Stored
  // (release) after the calls it has entered, loaded (acquire) before them by who is in a call: until that one shows
  // the record, too, the rank can make no call.
  std::atomic<std::uint64_t> gathering{0};
  std::uint64_t records_shown = 0;  // the owner's own affair
  PlanBoard plans;                  // rank 0's serves

  Notice& notice(Board board) { return notices[static_cast<std::size_t>(board)]; }

  void publish_fault(int code, const std::string& text);
};

}  // namespace sccl::runtime
