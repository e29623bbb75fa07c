#include "runtime/transport/mapped/mapped_buffers.h"

#include <cstring>

#include "base/error.h"
#include "base/settings/log.h"

namespace sccl::runtime {

MappedBuffers::MappedBuffers(const ControlPlane& control, std::span<const Peer> peers, Scope scope)
    : control_(control), peers_(peers), scope_(std::move(scope)) {
  static_assert(sizeof(BufferRecord) <= Boards::kBytes);
  records_.resize(peers.size());
  changes_.resize(peers.size(), 0);
  shifts_.resize(peers.size());
}

// Takes no lock if the program passes the same buffer as in the previous call.
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
  const BufferBytes needed = buffer_bytes(request, control_.members().rank, ranks());
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
  control_.boards().post(records_board(), number_, std::as_bytes(std::span(&record, 1)));
  control_.bells().wake_all();
}

bool MappedBuffers::has_shown(Rank rank) const {
  return control_.boards().shows(rank, stage_ == Stage::records ? records_board() : verdict_board(), number_);
}

bool MappedBuffers::all_have_shown() const {
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (!has_shown(rank)) return false;
  return true;
}

std::vector<Rank> MappedBuffers::missing() const {
  std::vector<Rank> found;
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (!has_shown(rank)) found.push_back(rank);
  return found;
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
  for (Rank rank = 0; rank < ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const auto bytes = control_.boards().read(rank, records_board());
    BufferRecord& record = records_[at];
    std::memcpy(static_cast<void*>(&record), bytes.data(), sizeof record);
    if (record.changes != changes_[at]) {
      changes_[at] = record.changes;
      std::erase_if(known_, [&](const auto& entry) { return entry.first.first == rank; });
    }
    all_can = all_can && record.can_be_mapped;
  }
  if (!all_can) return answer(Comparison::apart);
  for (Rank rank = 0; rank < ranks(); ++rank) {
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
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.shares_address_space()) continue;
    try {
      known_[{rank, buffer.inode}].segment = host::map_exported(peer.process, buffer);
    } catch (const Error& error) {
      good = false;
      log::info(log::Subsystem::coll, "rank {}: memory of ncclMemAlloc at rank {} is not used in place: {}",
                control_.members().rank, rank, error.what());
    }
  }
  const auto verdict = static_cast<std::byte>(good ? 1 : 0);
  control_.boards().post(verdict_board(), number_, std::span(&verdict, 1));
  stage_ = Stage::verdicts;
  control_.bells().wake_all();
}

MappedBuffers::Comparison MappedBuffers::conclude() {
  if (stage_ == Stage::verdicts) {
    bool good = true;
    for (Rank rank = 0; rank < ranks(); ++rank)
      good = good && control_.boards().read(rank, verdict_board())[0] == std::byte{1};
    for (const auto& [rank, buffer] : fresh_) {
      Known& known = known_[{rank, buffer.inode}];
      known.by_all = good;
      if (!good) known.segment = nullptr;
    }
  }
  bool all = true;
  for (Rank rank = 0; rank < ranks(); ++rank) {
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
        control_.members().rank, output_.size(), static_cast<const void*>(output_.data()));
  else
    log::warn(
        "rank {}: a peer that does not run may still write into this rank's receive buffer, {} bytes at {}, and there "
        "is no memory for other pages: end that process before the buffer is used again",
        control_.members().rank, output_.size(), static_cast<const void*>(output_.data()));
}

void MappedBuffers::check_kept() const {
  if (host::exported_changes() == own_changes_ || output_.empty()) return;
  if (host::is_still_exported(output_.data(), output_.size())) return;
  fail(ErrorCode::remote_error,
       "rank {}: pages of the receive buffer at {} were taken back from the peers meanwhile, when a call of another "
       "communicator failed: let calls that run at a time receive into different pages",
       control_.members().rank, static_cast<const void*>(output_.data()));
}

MappedBuffers::Comparison MappedBuffers::answer(Comparison result) {
  turns_.ended(result == Comparison::mapped ? ComparisonTurns::Result::useful : ComparisonTurns::Result::in_vain);
  return result;
}

}  // namespace sccl::runtime
