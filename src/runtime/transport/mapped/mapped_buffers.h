// Lets collectives of several processes use one another's buffers in place. Every rank of the host can map memory of
// ncclMemAlloc (platform/host/exported_memory.h). If all ranks' buffers of a call are such memory, data moves from one
// rank's input to another rank's output in one pass, without slots and without system calls.
//
// The ranks must know this before they choose a schedule for the call. So they compare their buffers at the beginning
// of the call:
//
//   every rank posts a record: where its buffers lie, or that they cannot be mapped
//   every rank reads all records
//   if a record names a new buffer: every rank maps the buffer, and posts a verdict: whether it could
//
// A comparison costs a line's way there and back; comparison_turns.h says at which calls there is one.
//
// BufferRecord n lies on board n mod 2. A rank posts record n+1 after it has read all records n, and record n+2 after
// all ranks have posted record n+1. So no record is overwritten while a rank reads it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "platform/host/exported_memory.h"
#include "runtime/call/requests.h"
#include "runtime/control/control_plane.h"
#include "runtime/transport/mapped/comparison_turns.h"
#include "runtime/transport/shm/peer.h"

namespace sccl::runtime {

class MappedBuffers {
 public:
  // The relevant calls: those that may gain from buffers in place. The same on all ranks.
  struct Scope {
    std::size_t least_bytes = SIZE_MAX;                       // shorter calls are never relevant
    std::function<bool(Collective, std::size_t bytes)> pays;  // for the other calls
  };
  // `control` and `peers` must outlive this object.
  MappedBuffers(const ControlPlane& control, std::span<const Peer> peers, Scope scope);

  // Whether the ranks compare at this collective; the same at every rank. Also counts the relevant calls.
  bool due(const CollectiveRequest& request) {
    const std::size_t bytes = request.count * size_bytes(request.type);
    return may_concern(bytes) && scope_.pays(request.collective, bytes) && turns_.due();
  }

  bool may_concern(std::size_t bytes) const { return bytes >= scope_.least_bytes; }

  void begin(const CollectiveRequest& request);

  enum class Comparison : std::uint8_t { waiting, mapped, apart };
  // Reads the peers' records, without waiting. After a result other than `waiting`, step() must not be called again.
  Comparison step();
  // The ranks for which the comparison waits.
  std::vector<Rank> missing() const;

  // The distances from a rank's own addresses to the addresses here. Valid after a comparison that ended in `mapped`.
  struct Shifts {
    std::uint64_t input = 0;
    std::uint64_t output = 0;
  };
  const Shifts& shifts(Rank rank) const { return shifts_[static_cast<std::size_t>(rank)]; }

  // For a call whose comparison ended in `mapped`: afterwards no peer writes into the call's output, not even a stopped
  // peer that continues later.
  void take_back() const;
  // For the same call, when it is complete: throws remote_error if another communicator took back pages of the call's
  // output during the call. The peers' data may then lie in other pages.
  void check_kept() const;

 private:
  // The format on a board.
  struct BufferRecord {
    std::uint64_t changes = 0;  // host::exported_changes(); after a change peers map the buffers again
    host::ExportedBuffer input;
    host::ExportedBuffer output;
    bool can_be_mapped = false;
  };
  struct Known {
    std::shared_ptr<host::Segment> segment;  // null for ranks of this process, and if any rank cannot map the buffer
    bool by_all = false;                     // all ranks have mapped the buffer
  };
  using Key = std::pair<Rank, std::uint64_t>;  // the inode

  bool locate(const void* address, std::size_t bytes, host::ExportedBuffer& buffer) const;
  bool has_shown(Rank rank) const;
  bool all_have_shown() const;
  Comparison compare_records();
  void map_fresh();
  Comparison conclude();
  Comparison answer(Comparison result);
  std::uint64_t shift_of(Rank rank, const host::ExportedBuffer& buffer, bool& all) const;

  int ranks() const { return static_cast<int>(peers_.size()); }
  Board records_board() const { return number_ % 2 == 0 ? Board::buffers_even : Board::buffers_odd; }
  Board verdict_board() const { return number_ % 2 == 0 ? Board::verdict_even : Board::verdict_odd; }

  const ControlPlane& control_;
  const std::span<const Peer> peers_;
  const Scope scope_;
  ComparisonTurns turns_;
  std::uint64_t number_ = 0;  // of comparisons
  enum class Stage : std::uint8_t { records, verdicts } stage_ = Stage::records;
  std::vector<BufferRecord> records_;
  std::vector<std::pair<Rank, host::ExportedBuffer>> fresh_;  // named for the first time in this comparison
  std::array<host::ExportedBuffer, 2> own_;                   // input and output, as found last
  std::uint64_t own_changes_ = 0;                             // exported_changes() at that time
  std::span<std::byte> output_;                               // of the call
  std::map<Key, Known> known_;
  std::vector<std::uint64_t> changes_;  // by rank: `changes` of its last record
  std::vector<Shifts> shifts_;
};

}  // namespace sccl::runtime
