#include "runtime/host/eager_calls.h"

#include "base/settings/log.h"

namespace sccl::runtime {

EagerCalls::EagerCalls(const Membership& membership)
    : membership_(membership),
      tree_(EagerTree::of(membership.layout, membership.peers, membership.rank)),
      gate_(tree_ && membership.settings.arrival == ArrivalForm::automatic ? std::make_unique<ArrivalGate>(membership)
                                                                           : nullptr) {
  if (tree_ && membership.rank == 0)
    log::info(log::Subsystem::tuning,
              "AllReduce, Reduce and ReduceScatter of up to {} bytes are reduced by the ranks that are there{} "
              "(SCCL_ARRIVAL)",
              tree_->most_bytes(), gate_ ? ", where their arrivals are far apart" : "");
}

bool EagerCalls::is_wanted(const CollectiveRequest& request, std::uint64_t sequence) const {
  if (!gate_) return true;
  const ReduceOp op = request.reduction.op;
  const bool any_order = membership_.settings.sum_order == SumOrder::free || !info(request.type).floating ||
                         op == ReduceOp::min || op == ReduceOp::max;
  return any_order && gate_->is_open(request.collective, request.count * size_bytes(request.type), sequence);
}

void EagerCalls::begin(const CollectiveRequest& request, std::uint64_t sequence) {
  tree_->begin(request);
  sequence_ = sequence;
  told_ = 0;
}

// A rank waits for results only. Operands need no bell: the rank that evaluates them comes by itself.
Progress EagerCalls::step() {
  const EagerTree::Step step = tree_->step();
  if (const int news = tree_->news(); news > told_) {
    told_ = news;
    membership_.control.bells().wake_all();
  }
  if (step == EagerTree::Step::done) sequence_ = 0;
  return step == EagerTree::Step::waits  ? Progress::idle
         : step == EagerTree::Step::done ? Progress::done
                                         : Progress::moved;
}

std::vector<LaneWait> EagerCalls::waits() const {
  const Calls calls = membership_.control.calls();
  std::vector<LaneWait> found;
  const auto add_those = [&](auto&& is_awaited) {
    for (Rank rank = 0; rank < membership_.ranks; ++rank)
      if (rank != membership_.rank && is_awaited(rank)) found.push_back({0, 0, rank, 0});
  };
  add_those([&](Rank rank) { return calls.entered(rank) < sequence_; });
  if (found.empty()) add_those([&](Rank rank) { return calls.completed(rank) < sequence_; });
  return found;
}

}  // namespace sccl::runtime
