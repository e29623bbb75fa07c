#include "portfolio/links/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

// A member of an equal share takes one turn; where there are many members, one of half of that, too.
double most_turns(std::size_t members) {
  constexpr std::size_t kMost = 16;
  return static_cast<double>(members > kMost ? 2 * members : kMost);
}

}  // namespace

std::vector<int> in_proportion(const std::vector<double>& shares) {
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  double least = all;
  for (const double share : shares)
    if (share > 0) least = std::min(least, share);
  const double unit = std::max(least, all / most_turns(shares.size()));
  std::vector<treegen::Amount> turns;
  for (const double share : shares) turns.push_back(static_cast<treegen::Amount>(std::lround(share / unit)));
  if (std::all_of(turns.begin(), turns.end(), [](auto turn) { return turn == 0; })) turns.front() = 1;
  return treegen::take_turns(turns);
}

std::vector<double> root_shares(const std::vector<double>& rates) {
  const auto others = static_cast<double>(rates.size() - 2);
  const auto share = [&](double time, double rate) { return std::max(0.0, (time * rate - 1) / others); };
  double low = 0;
  double high = 2.0 * static_cast<double>(rates.size()) / *std::min_element(rates.begin(), rates.end());
  for (int halving = 0; halving < 60; ++halving) {
    const double time = (low + high) / 2;
    double sum = 0;
    for (const double rate : rates) sum += share(time, rate);
    (sum < 1 ? low : high) = time;
  }
  std::vector<double> shares;
  for (const double rate : rates) shares.push_back(share(high, rate));
  return shares;
}

}  // namespace sccl::portfolio
