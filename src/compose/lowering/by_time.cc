#include "compose/lowering/by_time.h"

#include <algorithm>
#include <utility>

#include "compose/lowering/expand.h"
#include "schedule/simulation/steps_by_time.h"

namespace sccl::compose {
namespace {

constexpr Step kNoStep = -1;

// The order that has these steps of the sends, at so many ranks. `arrives_as`: the chunk as a send's receiver names it.
// Null if a rank has two such sends of a chunk.
template <typename ArrivesAs>
std::shared_ptr<const Order> order_of(const schedule::Schedule& schedule, const std::vector<Step>& steps, int ranks,
                                      ArrivesAs&& arrives_as) {
  Order order;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const schedule::Send& send = schedule.sends[i];
    const bool copy = send.kind == SendKind::copy;
    std::vector<Step>& table = copy ? order.copies : order.sums;
    const auto all = static_cast<std::size_t>(ranks);
    if (table.empty()) table.assign(static_cast<std::size_t>(schedule.chunks) * all, kNoStep);
    const auto chunk = static_cast<std::size_t>(copy ? arrives_as(i) : send.chunk);
    Step& place = table[chunk * all + static_cast<std::size_t>(copy ? send.dst : send.src)];
    if (place != kNoStep) return nullptr;
    place = steps[i];
    order.steps = std::max(order.steps, steps[i] + 1);
  }
  for (std::vector<Step>* table : {&order.copies, &order.sums}) std::replace(table->begin(), table->end(), kNoStep, 0);
  return std::make_shared<const Order>(std::move(order));
}

void set_steps(schedule::Schedule& schedule, const std::vector<Step>& steps, Step count) {
  for (std::size_t i = 0; i < steps.size(); ++i) schedule.sends[i].step = steps[i];
  schedule.steps = count;
}

}  // namespace

Ordered order_by_time(const Composite& composite, double chunk_bytes) {
  schedule::Schedule flat = expand_without_rounds(composite);
  // Trees of all ranks are deep, and frames tell little about when their chunks should begin.
  const bool deep = composite.hosts.size() == 1 && composite.collective != Collective::allreduce;
  const auto urgency = deep ? schedule::Urgency::longest_way : schedule::Urgency::first_step;
  const std::vector<Step> steps = schedule::steps_by_time(flat, chunk_bytes, urgency).steps;
  auto order = order_of(flat, steps, flat.ranks, [&](std::size_t send) { return flat.sends[send].chunk; });
  if (order == nullptr) {
    flat.rounds = schedule::needed_rounds(flat);
    return {nullptr, std::move(flat)};
  }
  set_steps(flat, steps, order->steps);
  flat.rounds.assign(static_cast<std::size_t>(flat.steps), 1);  // steps of one send each
  return {std::move(order), std::move(flat)};
}

std::shared_ptr<const Order> order_by_time(const Composite& composite, schedule::HostShare& share, double chunk_bytes) {
  if (!composite.alike) return nullptr;
  const std::vector<Step> steps = schedule::steps_by_time(share, chunk_bytes).steps;
  auto order = order_of(share.schedule, steps, static_cast<int>(share.whole_ranks.size()),
                        [&](std::size_t send) { return share.beyond[send].arrives_as; });
  if (order != nullptr) set_steps(share.schedule, steps, order->steps);
  return order;
}

}  // namespace sccl::compose
