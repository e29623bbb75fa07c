// Each capacity has a price, at first 1 / capacity. The cheapest tree gets a load that fills its tightest capacity; the
// price of each capacity it uses rises by a factor of 1 + step * (share of the capacity that was used).
//
// For any prices, sum(capacity * price) / (cost of the cheapest tree) bounds every packing (linear programming
// duality); the best bound so far proves the quality of the packing. By Garg and Koenemann's analysis a step of about
// epsilon / 3 suffices. Only additions, multiplications and divisions are used, so that all ranks agree.
#include "treegen/packing/mwu.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "treegen/graph/cheapest_tree.h"

namespace sccl::treegen {
namespace {

double fullest(const Links& links, const std::vector<double>& load) {
  double most = 0;
  for (std::size_t index = 0; index < load.size(); ++index)
    most = std::max(most, load[index] / static_cast<double>(links.capacities()[index].amount));
  return most;
}

void check(const Links& links, Rank root, const MwuOptions& options) {
  links.require_reachable(root);
  if (links.ranks() < 2)
    fail(ErrorCode::invalid_argument, "a topology of one rank has nothing to pack: give at least two ranks");
  if (!(options.epsilon > 0 && options.epsilon < 1))
    fail(ErrorCode::invalid_argument, "epsilon {} of the multiplicative weights: give a number between 0 and 1",
         options.epsilon);
}

}  // namespace

MwuPacking pack_by_weights(const Links& links, Rank root, const MwuOptions& options) {
  check(links, root, options);
  constexpr double kTooDear = 1e200;
  const double step = options.epsilon / 3;
  const auto capacities = links.capacities();
  std::vector<double> price;
  for (const Capacity& capacity : capacities) price.push_back(1 / static_cast<double>(capacity.amount));
  std::vector<double> load(capacities.size(), 0);
  std::map<Tree, double> weights;
  double total = 0;
  MwuPacking result;
  result.epsilon = options.epsilon;
  result.bound = std::numeric_limits<double>::infinity();
  CheapestTree search(links);
  while (total < (1 - options.epsilon) * result.bound * fullest(links, load) || total == 0) {
    if (result.iterations++ == options.most_iterations)
      fail(ErrorCode::internal_error, "multiplicative weights did not reach 1 - {} of the bound {} in {} iterations",
           options.epsilon, result.bound, options.most_iterations);
    const auto [tree, cost] = search.run(root, price);
    double worth = 0;
    for (std::size_t index = 0; index < price.size(); ++index)
      worth += price[index] * static_cast<double>(capacities[index].amount);
    result.bound = std::min(result.bound, worth / cost);
    const auto uses = links.uses(tree);
    double amount = std::numeric_limits<double>::infinity();
    for (const Use& use : uses)
      amount =
          std::min(amount, static_cast<double>(capacities[static_cast<std::size_t>(use.capacity)].amount) / use.times);
    for (const Use& use : uses) {
      const auto index = static_cast<std::size_t>(use.capacity);
      load[index] += amount * use.times;
      price[index] *= 1 + step * amount * use.times / static_cast<double>(capacities[index].amount);
    }
    weights[tree] += amount;
    total += amount;
    if (worth > kTooDear)
      for (double& one : price) one /= worth;
  }
  const double scale = fullest(links, load) * to_double(links.units_per_lane());
  result.rate = total / scale;
  result.bound /= to_double(links.units_per_lane());
  for (const auto& [tree, weight] : weights) {
    result.trees.push_back(tree);
    result.weights.push_back(weight / scale);
  }
  return result;
}

}  // namespace sccl::treegen
