#include "treegen/clusters/entry_packing.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "treegen/graph/cheapest_tree.h"
#include "treegen/math/simplex.h"

namespace sccl::treegen {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kFar = 1e3;  // a hop that a port must not take, in the sum of all prices
constexpr int kMostRounds = 2000;

class EntryProgram {
 public:
  EntryProgram(const Topology& one, EntryUse use, const EntryDemand& demand)
      : links_(one),
        reversed_(links_.reversed()),
        use_(use),
        ports_(one.ranks - 1),
        program_(limits()),
        search_(links_) {
    Column rate;
    const std::vector<double> own = own_loads(demand);
    for (std::size_t row = 0; row < own.size(); ++row)
      if (own[row] > 0) rate.entries.emplace_back(static_cast<int>(row), own[row]);
    for (Rank port = 0; port < ports_; ++port) {
      const double all = demand.from_outside;
      rate.entries.emplace_back(row_of(port), demand.of_ports.empty() ? all / ports_ : all * demand.of_ports[at(port)]);
    }
    program_.add(std::move(rate));
    Tree star{outside(), std::vector<Rank>(at(ports_) + 1, outside())};
    star.parent.back() = -1;
    for (Rank port = 0; port < ports_; ++port) add(star, port);
  }

  std::optional<EntryPacking> solve() {
    int rounds = 0;
    const auto end = program_.maximise(std::numeric_limits<double>::infinity(), [&](const std::vector<double>& prices) {
      return ++rounds > kMostRounds ? 0 : generate(prices);
    });
    if (end == PackingProgram::End::stalled) return std::nullopt;
    EntryPacking result;
    const std::vector<double> solution = program_.solution();
    result.rate = solution.front();
    if (!(result.rate > 0)) return std::nullopt;
    double all = 0;
    for (std::size_t index = 0; index < trees_.size(); ++index) all += std::max(0.0, solution[index + 1]);
    for (std::size_t index = 0; index < trees_.size(); ++index)
      if (const double weight = solution[index + 1] / all; weight > kLeastWeight)
        result.trees.push_back({trees_[index].first, trees_[index].second, weight});
    return result;
  }

 private:
  static constexpr double kLeastWeight = 1e-6;

  Rank outside() const { return ports_; }
  int row_of(Rank port) const { return static_cast<int>(links_.capacities().size()) + port; }

  std::vector<double> limits() const {
    std::vector<double> result;
    for (const Capacity& capacity : links_.capacities()) result.push_back(static_cast<double>(capacity.amount));
    result.resize(result.size() + at(ports_), 0);
    return result;
  }

  std::vector<double> own_loads(const EntryDemand& demand) const {
    std::vector<double> result;
    for (const Capacity& capacity : links_.capacities()) {
      double sum = 0;
      for (const Edge& edge : capacity.edges)
        if (const auto load = demand.own.find(edge); load != demand.own.end()) sum += load->second;
      result.push_back(sum);
    }
    return result;
  }

  int add(const Tree& tree, Rank port) {
    if (!known_.emplace(tree, port).second) return 0;
    std::vector<Use> uses = links_.uses(tree);
    if (use_ == EntryUse::both_ways) uses = merged(std::move(uses), reversed_.uses(tree));
    Column column{0, {}};
    for (const Use& use : uses) column.entries.emplace_back(use.capacity, use.times);
    column.entries.emplace_back(row_of(port), -1);
    program_.add(std::move(column));
    trees_.emplace_back(tree, port);
    return 1;
  }

  int generate(const std::vector<double>& prices) {
    std::vector<double> hop_prices = search_.hop_prices(prices);
    if (use_ == EntryUse::both_ways)
      for (const Hop& hop : reversed_.hops())
        for (const Use& use : hop.uses)
          hop_prices[at(links_.hop(hop.src, hop.dst))] += std::max(0.0, prices[at(use.capacity)]) * use.times;
    double far = 1e-9;
    for (const double price : hop_prices) far += kFar * price;
    int added = 0;
    for (Rank port = 0; port < ports_; ++port) {
      std::vector<double> with_port = hop_prices;
      for (Rank src = 0; src < ports_; ++src)
        if (const int hop = links_.hop(src, port); hop >= 0) with_port[at(hop)] = far;
      const auto [tree, cost] = search_.run_hops(outside(), with_port);
      if (prices[at(row_of(port))] - cost > PackingProgram::kTolerance) added += add(tree, port);
    }
    return added;
  }

  Links links_, reversed_;
  EntryUse use_;
  int ports_;
  PackingProgram program_;
  CheapestTree search_;
  std::set<std::pair<Tree, Rank>> known_;
  std::vector<std::pair<Tree, Rank>> trees_;  // by column, after that of the rate
};

bool has_ways(const Topology& one) {
  topology::Routes routes(one);
  for (Rank rank = 0; rank + 1 < one.ranks; ++rank)
    if (!routes.connected(rank, one.ranks - 1) || !routes.connected(one.ranks - 1, rank)) return false;
  return true;
}

}  // namespace

std::optional<EntryPacking> pack_entries(const Topology& one, EntryUse use, const EntryDemand& demand) {
  if (one.ranks < 3 || !has_ways(one)) return std::nullopt;
  if (use == EntryUse::both_ways && !Links(one).symmetric()) return std::nullopt;
  return EntryProgram(one, use, demand).solve();
}

}  // namespace sccl::treegen
