#include "compose/form/local_moves.h"

#include "compose/form/composite.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

LocalIndex::LocalIndex(const schedule::Schedule& schedule) : ranks(schedule.ranks), steps(schedule.steps) {
  first.assign(at(schedule.chunks) * at(schedule.ranks) + 1, 0);
  const auto slot = [&](ChunkId chunk, Rank rank) { return at(chunk) * at(schedule.ranks) + at(rank); };
  for (const schedule::Send& send : schedule.sends) {
    ++first[slot(send.chunk, send.src) + 1];
    ++first[slot(send.chunk, send.dst) + 1];
  }
  for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  std::vector<int> next(first);
  moves.resize(2 * schedule.sends.size());
  for (const schedule::Send& send : schedule.sends) {
    moves[at(next[slot(send.chunk, send.src)]++)] = {send.step, send.dst, true, send.kind};
    moves[at(next[slot(send.chunk, send.dst)]++)] = {send.step, send.src, false, send.kind};
  }
}

KindIndex::KindIndex(const HostKind& kind) : in(kind.in), out(kind.out), between(kind.between) {
  if (!kind.has_entries()) return;
  home_in = LocalIndex(kind.home->in);
  home_out = LocalIndex(kind.home->out);
}

std::shared_ptr<const KindIndex> IndexOfKind::of(const HostKind& kind) const {
  const std::lock_guard guard(lock_);
  if (made_ == nullptr) made_ = std::make_shared<const KindIndex>(kind);
  return made_;
}

}  // namespace sccl::compose
