#include "runtime/transport/mapped/mapped_buffers.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "runtime/choice/dispatcher.h"

namespace sccl::runtime {
namespace {

constexpr std::uint64_t kMostInterval = 64;

constexpr std::size_t kNever = SIZE_MAX;

// Ranks of one process have one another's addresses anyway; SCCL_TOPO's links are to be kept to.
std::size_t least_bytes(const Membership& membership) {
  const bool possible = membership.ranks > 1 && membership.settings.direct_allowed && !membership.topology &&
                        membership.reach() != Reach::shared_space && !membership.on_device;
  return possible ? least_in_place_bytes(membership.settings) : kNever;
}

}  // namespace

MappedBuffers::MappedBuffers(const Membership& membership)
    : membership_(membership), least_bytes_(least_bytes(membership)) {
  static_assert(sizeof(BufferRecord) <= Notice::kBytes);
  const auto ranks = static_cast<std::size_t>(membership.ranks);
  records_.resize(ranks);
  changes_.resize(ranks, 0);
  shifts_.resize(ranks);
}

bool MappedBuffers::in_question(const CollectiveRequest& request, std::size_t bytes) const {
  return in_place_pays({request.collective, bytes, membership_.ranks}, membership_.settings);
}

// Without a lock while the program passes what it passed before.
bool MappedBuffers::locate(const void* address, std::size_t bytes, host::ExportedBuffer& buffer) const {
  if (buffer.holds(address, bytes)) return true;
  const auto found = host::find_exported(address, bytes);
  if (found) buffer = *found;
  return found.has_value();
}

void MappedBuffers::begin(const CollectiveRequest& request) {
  if (const std::uint64_t changes = host::exported_changes(); changes != own_changes_) {
    own_changes_ = changes;
    own_ = {};
  }
  BufferRecord record;
  record.changes = own_changes_;
  record.can_be_mapped = true;
  const BufferBytes needed = buffer_bytes(request, membership_.rank, membership_.ranks);
  if (needed.input > 0) {
    record.can_be_mapped = locate(request.send, needed.input, own_[0]);
    record.input = own_[0];
  }
  if (needed.output > 0) {
    record.can_be_mapped = locate(request.recv, needed.output, own_[1]) && record.can_be_mapped;
    record.output = own_[1];
  }
  output_ = {static_cast<std::byte*>(request.recv), needed.output};
  stage_ = Stage::records;
  ++number_;
  const Peer& own = membership_.peers[static_cast<std::size_t>(membership_.rank)];
  own.state->buffer_records[number_ % 2].post(number_, std::as_bytes(std::span(&record, 1)));
  membership_.wake_all();
}

bool MappedBuffers::has_shown(Rank rank) const {
  const SharedState& state = *membership_.peers[static_cast<std::size_t>(rank)].state;
  if (stage_ == Stage::records)
    return state.buffer_records[number_ % 2].tag.load(std::memory_order_acquire) == number_;  // pairs with Notice::post
  return state.buffer_verdicts[number_ % 2].load(std::memory_order_acquire) / 2 == number_;   // pairs with map_fresh
}

bool MappedBuffers::all_have_shown() const {
  for (Rank rank = 0; rank < membership_.ranks; ++rank)
    if (!has_shown(rank)) return false;
  return true;
}

std::vector<Rank> MappedBuffers::missing() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < membership_.ranks; ++rank)
    if (!has_shown(rank)) ranks.push_back(rank);
  return ranks;
}

MappedBuffers::Comparison MappedBuffers::step() {
  if (!all_have_shown()) return Comparison::waiting;
  if (stage_ == Stage::verdicts) return conclude();
  const Comparison result = compare_records();
  return result == Comparison::waiting && all_have_shown() ? conclude() : result;
}

MappedBuffers::Comparison MappedBuffers::compare_records() {
  fresh_.clear();
  bool all_can = true;
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const auto bytes = membership_.peers[at].state->buffer_records[number_ % 2].read();
    BufferRecord& record = records_[at];
    std::memcpy(static_cast<void*>(&record), bytes.data(), sizeof record);
    if (record.changes != changes_[at]) {
      changes_[at] = record.changes;
      std::erase_if(known_, [&](const auto& entry) { return entry.first.first == rank; });
    }
    all_can = all_can && record.can_be_mapped;
  }
  if (!all_can) return answer(Comparison::apart);
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    const BufferRecord& record = records_[static_cast<std::size_t>(rank)];
    for (const host::ExportedBuffer& buffer : {record.input, record.output})
      if (buffer.descriptor >= 0 && !known_.contains({rank, buffer.inode})) {
        known_[{rank, buffer.inode}] = {};
        fresh_.emplace_back(rank, buffer);
      }
  }
  if (fresh_.empty()) return conclude();
  map_fresh();
  return Comparison::waiting;
}

void MappedBuffers::map_fresh() {
  bool good = true;
  for (const auto& [rank, buffer] : fresh_) {
    const Peer& peer = membership_.peers[static_cast<std::size_t>(rank)];
    if (peer.shares_address_space) continue;
    try {
      known_[{rank, buffer.inode}].segment = host::map_exported(peer.process, buffer);
    } catch (const Error& error) {
      good = false;
      log::info(log::Subsystem::coll, "rank {}: memory of ncclMemAlloc at rank {} is not used in place: {}",
                membership_.rank, rank, error.what());
    }
  }
  SharedState& own = *membership_.peers[static_cast<std::size_t>(membership_.rank)].state;
  own.buffer_verdicts[number_ % 2].store(2 * number_ + (good ? 1 : 0),
                                         std::memory_order_release);  // pairs with has_shown
  stage_ = Stage::verdicts;
  membership_.wake_all();
}

MappedBuffers::Comparison MappedBuffers::conclude() {
  if (stage_ == Stage::verdicts) {
    const bool good = std::all_of(membership_.peers.begin(), membership_.peers.end(), [&](const Peer& peer) {
      return peer.state->buffer_verdicts[number_ % 2].load(std::memory_order_relaxed) % 2 == 1;
    });
    for (const auto& [rank, buffer] : fresh_) {
      Known& known = known_[{rank, buffer.inode}];
      known.by_all = good;
      if (!good) known.segment = nullptr;
    }
  }
  bool all = true;
  for (Rank rank = 0; rank < membership_.ranks; ++rank) {
    const BufferRecord& record = records_[static_cast<std::size_t>(rank)];
    shifts_[static_cast<std::size_t>(rank)] = {shift_of(rank, record.input, all), shift_of(rank, record.output, all)};
  }
  return answer(all ? Comparison::mapped : Comparison::apart);
}

std::uint64_t MappedBuffers::shift_of(Rank rank, const host::ExportedBuffer& buffer, bool& all) const {
  if (buffer.descriptor < 0) return 0;
  const Known& known = known_.at({rank, buffer.inode});
  all = all && known.by_all;
  return known.segment ? reinterpret_cast<std::uint64_t>(known.segment->data()) - buffer.begin : 0;
}

void MappedBuffers::take_back() const {
  if (host::take_back_exported(output_.data(), output_.size()))
    log::info(
        log::Subsystem::coll,
        "rank {}: a peer that does not run had not let go of this rank's receive buffer, {} bytes at {}: its pages "
        "were taken back, and the memory around it is not used in place any more",
        membership_.rank, output_.size(), static_cast<const void*>(output_.data()));
  else
    log::warn(
        "rank {}: a peer that does not run may still write into this rank's receive buffer, {} bytes at {}, and there "
        "is no memory for other pages: end that process before the buffer is used again",
        membership_.rank, output_.size(), static_cast<const void*>(output_.data()));
}

void MappedBuffers::check_kept() const {
  if (host::exported_changes() == own_changes_ || output_.empty()) return;
  if (host::is_still_exported(output_.data(), output_.size())) return;
  fail(ErrorCode::remote_error,
       "rank {}: pages of the receive buffer at {} were taken back from the peers meanwhile, when a call of another "
       "communicator failed: let calls that run at a time receive into different pages",
       membership_.rank, static_cast<const void*>(output_.data()));
}

MappedBuffers::Comparison MappedBuffers::answer(Comparison result) {
  interval_ = result == Comparison::mapped ? 1 : std::min(2 * interval_, kMostInterval);
  next_ = calls_ + interval_;
  return result;
}

}  // namespace sccl::runtime
