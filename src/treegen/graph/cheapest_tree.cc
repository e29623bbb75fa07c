#include "treegen/graph/cheapest_tree.h"

#include <algorithm>
#include <cmath>

namespace sccl::treegen {
namespace {

std::vector<Arc> arcs_of(const Links& links) {
  std::vector<Arc> arcs;
  for (const Hop& hop : links.hops()) arcs.push_back({hop.src, hop.dst});
  return arcs;
}

// Whole numbers make comparisons exact, so every rank finds the same tree; a tree's sum stays far below 2^63.
constexpr double kUnitsOfDearest = 1ll << 44;

}  // namespace

CheapestTree::CheapestTree(const Links& links)
    : links_(links), search_(links.ranks(), arcs_of(links)), costs_(links.hops().size()) {}

std::vector<double> CheapestTree::hop_prices(const std::vector<double>& price_by_capacity) const {
  std::vector<double> prices;
  for (const Hop& hop : links_.hops()) {
    double price = 0;
    for (const Use& use : hop.uses)
      price += std::max(0.0, price_by_capacity[static_cast<std::size_t>(use.capacity)]) * use.times;
    prices.push_back(price);
  }
  return prices;
}

CheapestTree::Priced CheapestTree::run(Rank root, const std::vector<double>& price_by_capacity) {
  return run_hops(root, hop_prices(price_by_capacity));
}

CheapestTree::Priced CheapestTree::run_hops(Rank root, const std::vector<double>& price_by_hop) {
  const double dearest = std::max(1e-300, *std::max_element(price_by_hop.begin(), price_by_hop.end()));
  for (std::size_t hop = 0; hop < price_by_hop.size(); ++hop)
    costs_[hop] = std::llround(price_by_hop[hop] / dearest * kUnitsOfDearest);
  const auto entering = search_.run(root, costs_);
  Priced result{{root, std::vector<Rank>(entering.size(), -1)}, 0};
  for (std::size_t rank = 0; rank < entering.size(); ++rank) {
    if (entering[rank] < 0) continue;
    const auto hop = static_cast<std::size_t>(entering[rank]);
    result.tree.parent[rank] = links_.hops()[hop].src;
    result.cost += price_by_hop[hop];
  }
  return result;
}

}  // namespace sccl::treegen
