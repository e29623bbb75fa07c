#include "portfolio/links/shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

// A member of an equal share takes one turn; where there are many members, one of half of that, too.
double most_turns(std::size_t members) {
  constexpr std::size_t kMost = 16;
  return static_cast<double>(members > kMost ? 2 * members : kMost);
}

std::vector<treegen::Amount> whole_turns(const std::vector<double>& shares, double unit) {
  constexpr double kWhole = 1 - 1e-9;
  std::vector<treegen::Amount> turns;
  for (const double share : shares) turns.push_back(static_cast<treegen::Amount>(std::floor(share / (unit * kWhole))));
  return turns;
}

// What comes of a turn for each whole unit of a share.
struct Rounded {
  double unit = 0;
  double turns = 0;
  int left_out = 0;    // members with a share, but no turn
  double busiest = 0;  // 1: all members are as busy as their shares say

  Rounded(const std::vector<double>& shares, double one) : unit(one) {
    double most = 0;  // turns for a share
    double sum = 0;
    const std::vector<treegen::Amount> of_members = whole_turns(shares, unit);
    for (std::size_t member = 0; member < shares.size(); ++member) {
      if (!(shares[member] > 0)) continue;
      const auto own = static_cast<double>(of_members[member]);
      sum += shares[member];
      turns += own;
      most = std::max(most, own / shares[member]);
      if (own < 1) ++left_out;
    }
    busiest = most * sum / turns;
  }
};

}  // namespace

// Shares are rounded down to the unit that leaves the busiest member least busy: a NIC slower than its siblings is
// never busier than these, and without turns if there are too few for it.
std::vector<int> in_proportion(const std::vector<double>& shares) {
  constexpr double kAboutLeast = 1.01;
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (!(sum > 0)) return {0};
  const double most = most_turns(shares.size());
  constexpr std::size_t kMostUnits = 256;  // each takes a look at all members
  std::set<double, std::greater<>> units;
  for (const double share : std::set<double>(shares.begin(), shares.end()))
    for (int turns = 1; share > 0 && sum / share * turns < 2 * most && units.size() < kMostUnits; ++turns)
      units.insert(share / turns);
  std::vector<Rounded> all;
  for (const double unit : units)
    if (const Rounded one(shares, unit); one.turns <= most) all.push_back(one);
  if (all.empty()) return {0};  // the sum is not finite
  const double least = std::ranges::min(all, {}, &Rounded::busiest).busiest;
  std::erase_if(all, [&](const Rounded& one) { return one.busiest > kAboutLeast * least; });
  const auto few = [](const Rounded& one) { return std::pair(one.left_out, one.turns); };
  return treegen::take_turns(whole_turns(shares, std::ranges::min(all, {}, few).unit));
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
