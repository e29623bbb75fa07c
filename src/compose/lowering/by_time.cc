#include "compose/lowering/by_time.h"

#include <algorithm>
#include <utility>

#include "compose/lowering/expand.h"
#include "schedule/simulation/steps_by_time.h"

namespace sccl::compose {
namespace {

constexpr Step kNoStep = -1;

// Takes sends with their new steps.
class Steps {
 public:
  // Of so many chunks, at so many ranks.
  Steps(int chunks, int ranks) : ranks_(static_cast<std::size_t>(ranks)) {
    all_ = static_cast<std::size_t>(chunks) * ranks_;
  }

  // False if the rank has such a send of the chunk already.
  bool take(SendKind kind, ChunkId chunk, Rank rank, Step step) {
    std::vector<Step>& table = kind == SendKind::copy ? order_.copies : order_.sums;
    if (table.empty()) table.assign(all_, kNoStep);
    Step& place = table[static_cast<std::size_t>(chunk) * ranks_ + static_cast<std::size_t>(rank)];
    order_.steps = std::max(order_.steps, step + 1);
    return std::exchange(place, step) == kNoStep;
  }

  std::shared_ptr<const Order> order() && {
    for (std::vector<Step>* table : {&order_.copies, &order_.sums})
      std::replace(table->begin(), table->end(), kNoStep, 0);
    return std::make_shared<const Order>(std::move(order_));
  }

 private:
  std::size_t ranks_;
  std::size_t all_;
  Order order_;
};

}  // namespace

Ordered order_by_time(const Composite& composite, double chunk_bytes) {
  schedule::Schedule flat = expand_without_rounds(composite);
  // Trees of all ranks are deep, and frames tell little about when their chunks should begin.
  const bool deep = composite.hosts.size() == 1 && composite.collective != Collective::allreduce;
  const auto urgency = deep ? schedule::Urgency::longest_way : schedule::Urgency::first_step;
  const std::vector<Step> steps = schedule::steps_by_time(flat, chunk_bytes, urgency).steps;
  Steps all(flat.chunks, flat.ranks);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const schedule::Send& send = flat.sends[i];
    if (!all.take(send.kind, send.chunk, send.kind == SendKind::copy ? send.dst : send.src, steps[i])) {
      flat.rounds = schedule::needed_rounds(flat);
      return {nullptr, std::move(flat)};
    }
  }
  auto order = std::move(all).order();
  for (std::size_t i = 0; i < steps.size(); ++i) flat.sends[i].step = steps[i];
  flat.steps = order->steps;
  flat.rounds.assign(static_cast<std::size_t>(flat.steps), 1);  // steps of one send each
  return {std::move(order), std::move(flat)};
}

std::shared_ptr<const Order> order_by_time(const Composite& composite, schedule::HostShare& share, double chunk_bytes) {
  if (!composite.alike) return nullptr;
  schedule::Schedule& of_host = share.schedule;
  const std::vector<Step> steps = schedule::steps_by_time(share, chunk_bytes).steps;
  Steps all(of_host.chunks, static_cast<int>(share.whole_ranks.size()));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const schedule::Send& send = of_host.sends[i];
    const bool copy = send.kind == SendKind::copy;
    if (!all.take(send.kind, copy ? share.beyond[i].arrives_as : send.chunk, copy ? send.dst : send.src, steps[i]))
      return nullptr;
  }
  auto order = std::move(all).order();
  for (std::size_t i = 0; i < steps.size(); ++i) of_host.sends[i].step = steps[i];
  of_host.steps = order->steps;
  return order;
}

}  // namespace sccl::compose
