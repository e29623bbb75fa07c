// What a rank shows its peers, at the beginning of its shared memory: the bell it sleeps on, the calls it has entered,
// why it failed, whether it left. Behind it lie the rings it receives through.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/device/connection.h"
#include "platform/host/doorbell.h"
#include "runtime/signature.h"

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

// A small message to all peers, outside of calls. Stays until the next one; runtime/assembly.h tells why nobody can
// still be reading it then.
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

// When a rank began and ended a call that tuning/chooser.h times. Read only when the ranks' calls in between have made
// sure that it is written, so that no order is needed.
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
  // Of mapped_buffers.h, by number of the meeting: cards, and whether all buffers that were new could be mapped
  // (2 number + verdict; stored with release, loaded with acquire).
  std::array<Notice, 2> buffer_cards;
  std::array<std::atomic<std::uint64_t>, 2> buffer_verdicts{};
  // Number of the card this rank waits for all ranks to show (assembly.h), 0 when it does not. Stored (release) after
  // the calls it has entered, loaded (acquire) before them by who is in a call: until that one shows the card, too, the
  // rank can make no call.
  std::atomic<std::uint64_t> gathering{0};
  std::uint64_t cards_shown = 0;  // the owner's own affair

  Notice& notice(Board board) { return notices[static_cast<std::size_t>(board)]; }

  void publish_fault(int code, const std::string& text);
};

// Offsets within a rank's shared memory, the same at every rank.
class MemoryLayout {
 public:
  // Short messages of rooted calls have deep connections of their own: a rank that only sends runs ahead of the others
  // by as many. Where all wait for all, messages are only spread over more memory, which two ranks alone gain by.
  enum class Channel : int { collective = 0, point_to_point = 1, deep = 2 };
  // The last is there for few ranks only, for it takes the most memory.
  static constexpr bool has_deep(int ranks) { return ranks <= 8; }
  static constexpr int channels(int ranks) { return has_deep(ranks) ? 3 : 2; }
  static constexpr std::size_t kDeepPart = 4;  // of a slot is one of its slots
  static constexpr int kSignals = 16;          // one-sided signals a rank can get from each other rank, by index
  static constexpr int kContexts = 4;
  static constexpr std::size_t kDevicePageBytes = 4096;

  // How many times slot_bytes a rank's slots take.
  static std::size_t slots(int ranks);

  // `blackboard_bytes`: 0, or Blackboard::kBytes where there will be news.
  MemoryLayout(int ranks, std::size_t slot_bytes, std::size_t blackboard_bytes = 0);

  std::size_t total_bytes() const { return total_bytes_; }
  std::size_t slot_bytes(Channel channel = Channel::collective) const {
    return channel == Channel::deep ? slot_bytes_ / kDeepPart : slot_bytes_;
  }
  static device::u32 depth(Channel channel) {
    return channel == Channel::deep ? device::kMostDepth : device::kSlotCount;
  }
  static device::u32 inline_lines(Channel channel) {
    return channel == Channel::deep ? device::kDeepInlineLines : device::kInlineLines;
  }
  static device::u32 inline_message_bytes(Channel channel) {
    return channel == Channel::deep ? device::kDeepInlineMessageBytes : device::kInlineMessageBytes;
  }
  SharedState& state(std::byte* base) const { return *reinterpret_cast<SharedState*>(base); }
  // A page of its own for what ranks on devices show one another (gpu/device_neighbour.h).
  std::byte* device_page(std::byte* base) const { return base + device_page_offset_; }
  // The ring through which the owner of `base` receives from `source`.
  device::Ring& ring(std::byte* base, Channel channel, Rank source) const;
  device::u8* payload(std::byte* base, Channel channel, Rank source) const;
  device::u8* inline_messages(std::byte* base, Channel channel, Rank source) const;
  // Counts the signals that `source` has sent to the owner of `base`: added to (release) after the data they announce,
  // loaded (acquire) by who waits for them.
  std::atomic<std::uint64_t>& signal(std::byte* base, Rank source, int signal, int context) const;

  // The part that holds no state between calls.
  std::size_t payloads_offset() const { return payloads_offset_; }
  std::size_t payloads_bytes() const { return blackboard_offset_ - payloads_offset_; }

  std::byte* blackboard(std::byte* base) const { return base + blackboard_offset_; }

 private:
  std::size_t index(Channel channel, Rank source) const {
    return static_cast<std::size_t>(channel) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(source);
  }

  int ranks_;
  std::size_t slot_bytes_;
  std::size_t device_page_offset_;
  std::size_t rings_offset_;
  std::size_t deep_offset_;
  std::size_t signals_offset_;
  std::size_t payloads_offset_;
  std::size_t blackboard_offset_;
  std::size_t total_bytes_;
};

}  // namespace sccl::runtime
