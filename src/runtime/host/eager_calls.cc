#include "runtime/host/eager_calls.h"

#include "base/settings/log.h"

namespace sccl::runtime {

EagerCalls::EagerCalls(const Membership& membership)
    : membership_(membership),
      reduction_(EagerReduction::of(membership.settings, membership.layout, membership.peers, membership.rank)),
      gate_(reduction_ && membership.settings.arrival == ArrivalForm::automatic
                ? std::make_unique<ArrivalGate>(membership)
                : nullptr) {
  if (reduction_ && membership.rank == 0)
    log::info(log::Subsystem::tuning,
              "AllReduce, Reduce and ReduceScatter{} are reduced by the ranks that are there ({}){} (SCCL_ARRIVAL)",
              reduction_->most_bytes() == SIZE_MAX ? "" : fmt::format(" of up to {} bytes", reduction_->most_bytes()),
              reduction_->name(), gate_ ? ", where their arrivals are far apart" : "");
}

bool EagerCalls::is_wanted(const CollectiveRequest& request, std::uint64_t sequence) const {
  if (!gate_ && !reduction_->may_change_order()) return true;
  const ReduceOp op = request.reduction.op;
  const bool any_order = membership_.settings.arrival_order == SumOrder::free || !info(request.type).floating ||
                         op == ReduceOp::min || op == ReduceOp::max;
  if (!gate_) return any_order;
  return any_order && gate_->is_open(request.collective, request.count * size_bytes(request.type), sequence);
}

void EagerCalls::begin(const CollectiveRequest& request, std::uint64_t sequence) {
  reduction_->begin(request);
  sequence_ = sequence;
}

Progress EagerCalls::step() {
  const EagerReduction::Step step = reduction_->step();
  tell(reduction_->take_news());
  if (step == EagerReduction::Step::done) sequence_ = 0;
  return step == EagerReduction::Step::waits  ? Progress::idle
         : step == EagerReduction::Step::done ? Progress::done
                                              : Progress::moved;
}

void EagerCalls::tell(EagerReduction::News news) const {
  if (news.rank == EagerReduction::News::kNobody) return;
  const Bells bells = membership_.control.bells();
  news.rank == EagerReduction::News::kEverybody ? bells.wake_all() : bells.wake(news.rank);
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
