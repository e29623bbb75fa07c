#include "runtime/host/eager_calls.h"

#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

ArrivalPlace place_of(const Membership& membership) {
  ArrivalPlace place{membership.rank, membership.ranks, {}};
  for (Rank rank = 0; rank < membership.ranks; ++rank)
    if (membership.peer(rank).locality != Locality::remote) place.beside.push_back(rank);
  return place;
}

}  // namespace

EagerCalls::EagerCalls(const Membership& membership, const CallParts& parts)
    : membership_(membership),
      reduction_(EagerReduction::of(membership.settings, membership.layout, membership.peers, place_of(membership))),
      gate_(reduction_ && membership.settings.arrival == ArrivalForm::automatic
                ? std::make_unique<ArrivalGate>(membership)
                : nullptr),
      exchange_(reduction_ && place_of(membership).joins_hosts() ? std::make_unique<HostExchange>(membership, parts)
                                                                 : nullptr) {
  if (reduction_ && membership.rank == 0)
    log::info(log::Subsystem::tuning,
              "AllReduce, Reduce and ReduceScatter{} are reduced by the ranks that are there ({}){} (SCCL_ARRIVAL)",
              reduction_->most_bytes() == SIZE_MAX ? "" : fmt::format(" of up to {} bytes", reduction_->most_bytes()),
              reduction_->name(), gate_ ? ", where their arrivals are far apart" : "");
}

bool EagerCalls::may_have_any_order(DataType type, ReduceOp op) const {
  return membership_.settings.arrival_order == SumOrder::free || !info(type).floating || op == ReduceOp::min ||
         op == ReduceOp::max;
}

bool EagerCalls::is_wanted(const CollectiveRequest& request, std::uint64_t sequence) const {
  if (!gate_ && !reduction_->may_change_order()) return true;
  const bool any_order = may_have_any_order(request.type, request.reduction.op);
  if (!gate_) return any_order;
  return any_order && gate_->is_open(request.collective, request.count * size_bytes(request.type), sequence);
}

// Of a Reduce only the root needs all ranks' data. Calls that are never reduced by the ranks that are there say
// nothing.
void EagerCalls::note_left(const CallSignature& call, bool by_arrival, ArrivalMeter& meter, std::uint64_t now_ns) {
  if (!gate_ || (call.collective == Collective::reduce && call.root != membership_.rank)) return;
  if (!may_have_any_order(call.type, call.op)) return;
  const bool over_hosts = membership_.hosts.are_several();
  const std::uint64_t last_ns = over_hosts ? 0 : meter.last_arrival_ns();
  if (last_ns == 0 && !over_hosts) return;
  gate_->note_left(
      {call.collective, call.count * size_bytes(call.type), by_arrival, meter.entered_ns(), last_ns, now_ns});
}

void EagerCalls::begin(const CollectiveRequest& request, const CallSignature& signature) {
  reduction_->begin(request);
  if (exchange_) exchange_->begin(request, signature);
  sequence_ = signature.sequence;
}

Progress EagerCalls::step() {
  Progress progress = step_here();
  if (exchange_) {
    const Progress between = step_between_hosts();
    const bool moves = progress == Progress::moved || between == Progress::moved;
    if (progress != between) progress = moves ? Progress::moved : Progress::idle;
  }
  if (progress == Progress::done) sequence_ = 0;
  return progress;
}

Progress EagerCalls::step_here() {
  const EagerReduction::Step step = reduction_->step();
  tell(reduction_->take_news());
  return step == EagerReduction::Step::waits  ? Progress::idle
         : step == EagerReduction::Step::done ? Progress::done
                                              : Progress::moved;
}

Progress EagerCalls::step_between_hosts() {
  if (reduction_->has_published_all()) return Progress::done;
  if (!exchange_->is_active()) {
    const EagerReduction::Block block = reduction_->next_block();
    if (block.sums == nullptr) {
      exchange_->rest();
      return Progress::idle;
    }
    exchange_->start(block.sums, block.elements);
  }
  const Progress progress = exchange_->step();
  if (progress != Progress::done) return progress;
  reduction_->publish_block();
  tell(reduction_->take_news());
  return Progress::moved;
}

void EagerCalls::tell(EagerReduction::News news) const {
  if (news.rank == EagerReduction::News::kNobody) return;
  const Bells bells = membership_.control.bells();
  news.rank == EagerReduction::News::kEverybody ? bells.wake_all() : bells.wake(news.rank);
}

std::vector<LaneWait> EagerCalls::waits() const {
  const Calls calls = membership_.control.calls();
  std::vector<LaneWait> found;
  const auto is_here = [&](Rank rank) { return membership_.peer(rank).locality != Locality::remote; };
  const auto add_those = [&](auto&& is_awaited) {
    for (Rank rank = 0; rank < membership_.ranks; ++rank)
      if (rank != membership_.rank && is_awaited(rank)) found.push_back({0, 0, rank, LaneWait::kNoSlot});
  };
  add_those([&](Rank rank) { return is_here(rank) && calls.entered(rank) < sequence_; });
  if (found.empty() && exchange_ && exchange_->is_active()) found = exchange_->waits();
  const auto joins_hosts = [&](Rank rank) {
    return membership_.hosts.are_several() && membership_.hosts.beside(rank).front() == rank;
  };
  if (found.empty())
    add_those([&](Rank rank) {
      return calls.entered(rank) < sequence_ || (joins_hosts(rank) && calls.completed(rank) < sequence_);
    });
  if (found.empty()) add_those([&](Rank rank) { return calls.completed(rank) < sequence_; });
  return found;
}

}  // namespace sccl::runtime
