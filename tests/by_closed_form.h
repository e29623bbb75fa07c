// The order in which the closed form alone takes composites. The library simulates some of them as well
// (portfolio/clusters/ranked.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "portfolio/composites/composites.h"

namespace sccl_test {

// Indices of the candidates, fastest first, for `bytes` (the L of schedule/simulation/cost.h). Without orders by time
// on many ranks: the closed form does not know them, and only simulations choose them.
inline std::vector<std::size_t> by_closed_form(const std::vector<sccl::portfolio::CompositeCandidate>& candidates,
                                               double bytes, double slice_bytes) {
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t one) { return candidates[one].by_time != nullptr; });
  std::vector<double> time_us;
  for (const sccl::portfolio::CompositeCandidate& one : candidates)
    time_us.push_back(one.cost.time_us(bytes, one.cost.good_slice(bytes, slice_bytes)));
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return time_us[a] < time_us[b]; });
  return order;
}

}  // namespace sccl_test
