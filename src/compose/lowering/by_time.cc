#include "compose/lowering/by_time.h"

#include <algorithm>
#include <utility>

#include "compose/lowering/expand.h"
#include "schedule/simulation/steps_by_time.h"

namespace sccl::compose {
namespace {

constexpr Step kNoStep = -1;

}  // namespace

Ordered order_by_time(const Composite& composite, double chunk_bytes) {
  schedule::Schedule flat = expand_without_rounds(composite);
  // Trees of all ranks are deep, and frames tell little about when their chunks should begin.
  const bool deep = composite.hosts.size() == 1 && composite.collective != Collective::allreduce;
  const auto urgency = deep ? schedule::Urgency::longest_way : schedule::Urgency::first_step;
  const std::vector<Step> steps = schedule::steps_by_time(flat, chunk_bytes, urgency).steps;
  const auto ranks = static_cast<std::size_t>(flat.ranks);
  auto order = std::make_shared<Order>();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const schedule::Send& send = flat.sends[i];
    const bool copy = send.kind == SendKind::copy;
    std::vector<Step>& table = copy ? order->copies : order->sums;
    if (table.empty()) table.assign(static_cast<std::size_t>(flat.chunks) * ranks, kNoStep);
    Step& place =
        table[static_cast<std::size_t>(send.chunk) * ranks + static_cast<std::size_t>(copy ? send.dst : send.src)];
    if (place != kNoStep) {
      flat.rounds = schedule::needed_rounds(flat);
      return {nullptr, std::move(flat)};
    }
    place = steps[i];
    order->steps = std::max(order->steps, steps[i] + 1);
  }
  for (std::vector<Step>* table : {&order->copies, &order->sums})
    std::replace(table->begin(), table->end(), kNoStep, 0);
  for (std::size_t i = 0; i < steps.size(); ++i) flat.sends[i].step = steps[i];
  flat.steps = order->steps;
  flat.rounds.assign(static_cast<std::size_t>(flat.steps), 1);  // steps of one send each
  return {std::move(order), std::move(flat)};
}

}  // namespace sccl::compose
