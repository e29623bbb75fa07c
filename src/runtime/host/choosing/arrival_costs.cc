#include "runtime/host/choosing/arrival_costs.h"

#include <algorithm>

namespace sccl::runtime {

void ArrivalCosts::add(std::size_t group, bool by_arrival, double messages) {
  ArrivalTimes::Sum& own = members_.own().arrival.times.sums[group][by_arrival ? 1 : 0];
  own.calls.store(own.calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  own.thousandths.store(own.thousandths.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(messages * 1e3),
                        std::memory_order_relaxed);
}

std::vector<ArrivalCosts::Sums> ArrivalCosts::seen(std::size_t group) const {
  std::vector<Sums> all;
  for (const Member& member : members_.all) {
    Sums& sums = all.emplace_back();
    for (std::size_t form = 0; form < sums.size(); ++form) {
      const ArrivalTimes::Sum& sum = member.state->arrival.times.sums[group][form];
      sums[form] = {static_cast<double>(sum.calls.load(std::memory_order_relaxed)),
                    static_cast<double>(sum.thousandths.load(std::memory_order_relaxed)) * 1e-3};
    }
  }
  return all;
}

std::vector<ArrivalCosts::Sums> ArrivalCosts::since(const std::vector<Sums>& then, std::size_t group) const {
  std::vector<Sums> all = seen(group);
  for (std::size_t rank = 0; rank < all.size() && rank < then.size(); ++rank)
    for (std::size_t form = 0; form < all[rank].size(); ++form) {
      Sum& sum = all[rank][form];
      // An agent that was stopped may have stored older values since then.
      sum.calls = std::max(0.0, sum.calls - then[rank][form].calls);
      sum.messages = std::max(0.0, sum.messages - then[rank][form].messages);
    }
  return all;
}

}  // namespace sccl::runtime
