// Collectives of processes in one another's buffers. Memory of ncclMemAlloc can be mapped by every rank of the host
// (platform/host/exported_memory.h); where all ranks' buffers of a call are such memory, data moves from the one's
// input to the other's output in one pass, without slots and without system calls.
//
// All ranks have to know that before they choose what serves the call, so they compare at its beginning:
//
//   every rank shows a record: where its buffers lie, or that they cannot be mapped
//   every rank reads all records
//   when somebody shows a buffer for the first time: every rank maps it, and shows whether it could
//
// A comparison costs a line's way there and back; comparison_turns.h says at which calls there is one.
//
// BufferRecord n lies on board n mod 2. Nobody shows record n+2 before all have shown record n+1, which each does after
// it has read all records n: no record is overwritten while somebody reads it.
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
  // Which calls may be in question; the same on all ranks.
  struct Scope {
    std::size_t least_bytes = SIZE_MAX;  // of calls of which any may be
    std::function<bool(Collective, std::size_t bytes)> pays;
  };
  // `control` and `peers` must outlive it.
  MappedBuffers(const ControlPlane& control, std::span<const Peer> peers, Scope scope);

  // Whether the ranks compare at this collective; counts it. The same at every rank.
  bool due(const CollectiveRequest& request) {
    const std::size_t bytes = request.count * size_bytes(request.type);
    return may_concern(bytes) && scope_.pays(request.collective, bytes) && turns_.due();
  }

  bool may_concern(std::size_t bytes) const { return bytes >= scope_.least_bytes; }

  void begin(const CollectiveRequest& request);

  enum class Comparison : std::uint8_t { waiting, mapped, apart };
  // A look at the others' records. Not to be called again after it has told another answer than `waiting`.
  Comparison step();
  // Whom the comparison waits for.
  std::vector<Rank> missing() const;

  // What is to be added to a rank's addresses; after a comparison that ended in `mapped`.
  struct Shifts {
    std::uint64_t input = 0;
    std::uint64_t output = 0;
  };
  const Shifts& shifts(Rank rank) const { return shifts_[static_cast<std::size_t>(rank)]; }

  // Of the call whose meeting ended in `mapped`: peers write into its output no more, even one that is stopped and goes
  // on at any later time.
  void take_back() const;
  // When such a call is complete: throws remote_error if another communicator took pages of its output back meanwhile,
  // so that what peers wrote may lie elsewhere.
  void check_kept() const;

 private:
  // As a board carries it.
  struct BufferRecord {
    std::uint64_t changes = 0;  // of this process's buffers: who mapped them looks again
    host::ExportedBuffer input;
    host::ExportedBuffer output;
    bool can_be_mapped = false;
  };
  struct Known {
    std::shared_ptr<host::Segment> segment;  // none of our own, and where somebody cannot map it
    bool by_all = false;
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
  std::vector<std::pair<Rank, host::ExportedBuffer>> fresh_;  // shown for the first time in this comparison
  std::array<host::ExportedBuffer, 2> own_;                   // as they were found last
  std::uint64_t own_changes_ = 0;                             // when they were
  std::span<std::byte> output_;                               // of the call
  std::map<Key, Known> known_;
  std::vector<std::uint64_t> changes_;  // by rank, as it was told last
  std::vector<Shifts> shifts_;
};

}  // namespace sccl::runtime
