#include "treegen/clusters/entry_packing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "treegen/graph/cheapest_tree.h"
#include "treegen/math/power_of_e.h"
#include "treegen/math/simplex.h"

namespace sccl::treegen {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kFar = 1e3;        // a hop that a port must not take, in the sum of all prices
constexpr double kEnough = 0.9999;  // of what is proved to be the most
constexpr double kMostWork = 1e8;   // of the program: about a tenth of a second
constexpr int kMostRounds = 2000;
// With fewer a program soon ends at a vertex, whose few trees are best for few chunks.
constexpr std::size_t kManyCapacities = 128;
constexpr double kKept = 0.8;  // of the prices that proved most, where trees are looked for
constexpr int kFirstTrees = 256;
constexpr int kLeastTreesOfPort = 4;
constexpr int kPasses = 3;  // over the first trees
constexpr double kSteepness = 10;
constexpr int kThirds = 50;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

class EntryProgram {
 public:
  EntryProgram(const Topology& one, EntryUse use, const EntryDemand& demand)
      : links_(one),
        reversed_(links_.reversed()),
        use_(use),
        ports_(one.ranks - 1),
        own_(own_loads(demand)),
        program_(limits()),
        search_(links_) {
    Column rate;
    for (std::size_t row = 0; row < own_.size(); ++row)
      if (own_[row] > 0) rate.entries.emplace_back(static_cast<int>(row), own_[row]);
    for (Rank port = 0; port < ports_; ++port) {
      of_ports_.push_back(demand.from_outside * (demand.of_ports.empty() ? 1.0 / ports_ : demand.of_ports[at(port)]));
      rate.entries.emplace_back(row_of(port), of_ports_.back());
    }
    program_.add(std::move(rate));
    program_.allow(kMostWork);
    from_outside_ = std::accumulate(of_ports_.begin(), of_ports_.end(), 0.0);
    for (Rank port = 0; port < ports_; ++port) add(star(), port);
  }

  std::optional<EntryPacking> solve() {
    if (capacities() > kManyCapacities) {
      prove_by_cut();
      if (auto even = by_two_steps_and_stars()) return even;
      add_first_trees();
    }
    int rounds = 0;
    const auto end = program_.maximise(kEnough * best_.bound, [&](const std::vector<double>& prices) {
      return ++rounds > kMostRounds ? 0 : generate(prices);
    });
    if (end == PackingProgram::End::stalled) return std::nullopt;
    EntryPacking result;
    const std::vector<double> solution = program_.solution();
    result.rate = solution.front();
    result.work = program_.work();
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

  // Prices of capacities, for which one unit of all data costs 1: so no packing carries more than all capacities are
  // worth.
  struct Proof {
    std::vector<double> prices;
    double bound = kInfinite;
  };

  Rank outside() const { return ports_; }
  std::size_t capacities() const { return links_.capacities().size(); }
  double amount(std::size_t capacity) const { return static_cast<double>(links_.capacities()[capacity].amount); }
  int row_of(Rank port) const { return static_cast<int>(capacities()) + port; }

  std::vector<double> limits() const {
    std::vector<double> result;
    for (std::size_t row = 0; row < capacities(); ++row) result.push_back(amount(row));
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

  // All devices are entries.
  Tree star() const {
    Tree tree{outside(), std::vector<Rank>(at(ports_) + 1, outside())};
    tree.parent.back() = -1;
    return tree;
  }

  std::vector<Use> uses_of(const Tree& tree) const {
    std::vector<Use> uses = links_.uses(tree);
    return use_ == EntryUse::both_ways ? merged(std::move(uses), reversed_.uses(tree)) : uses;
  }

  int add(const Tree& tree, Rank port) {
    if (!known_.emplace(tree, port).second) return 0;
    Column column{0, {}};
    for (const Use& use : uses_of(tree)) column.entries.emplace_back(use.capacity, use.times);
    column.entries.emplace_back(row_of(port), -1);
    program_.add(std::move(column));
    trees_.emplace_back(tree, port);
    return 1;
  }

  std::vector<double> hop_prices(const std::vector<double>& prices) const {
    std::vector<double> result = search_.hop_prices(prices);
    if (use_ == EntryUse::both_ways)
      for (const Hop& hop : reversed_.hops())
        for (const Use& use : hop.uses)
          result[at(links_.hop(hop.src, hop.dst))] += std::max(0.0, prices[at(use.capacity)]) * use.times;
    return result;
  }

  // The cheapest tree with this port.
  CheapestTree::Priced cheapest(Rank port, std::vector<double> hop_prices) {
    const double far = std::accumulate(hop_prices.begin(), hop_prices.end(), 1e-9 / kFar) * kFar;
    for (Rank src = 0; src < ports_; ++src)
      if (const int hop = links_.hop(src, port); hop >= 0) hop_prices[at(hop)] = far;
    return search_.run_hops(outside(), hop_prices);
  }

  // What a unit of all data keeps each capacity busy with, if each tree of `trees` carries its weight of it.
  std::vector<double> busy_with(const std::vector<EntryTree>& trees) const {
    std::vector<double> busy(capacities(), 0);
    for (const EntryTree& one : trees)
      for (const Use& use : uses_of(one.tree))
        busy[at(use.capacity)] += one.weight * from_outside_ * use.times / amount(at(use.capacity));
    return busy;
  }

  // By two steps: from a port to each device in turn, and from there to all others. A part goes by stars: past all
  // links of the host. Where devices have equal links to all others nothing carries more; else nothing is returned.
  std::optional<EntryPacking> by_two_steps_and_stars() const {
    constexpr int kMostPorts = 256;  // whose trees, their square, weigh more than kLeastWeight
    if (!(from_outside_ > 0) || ports_ > kMostPorts) return std::nullopt;
    std::vector<EntryTree> steps, stars;
    for (Rank port = 0; port < ports_; ++port) {
      const double part = of_ports_[at(port)] / from_outside_;
      if (!(part > 0)) continue;
      stars.push_back({star(), port, part});
      for (Rank by = 0; by < ports_; ++by) {
        Tree tree{outside(), std::vector<Rank>(at(ports_) + 1, by)};
        tree.parent.back() = -1;
        tree.parent[at(by)] = port;
        tree.parent[at(port)] = outside();
        for (Rank rank = 0; rank < ports_; ++rank)
          if (links_.hop(tree.parent[at(rank)], rank) < 0) return std::nullopt;
        steps.push_back({std::move(tree), port, part / ports_});
      }
    }
    const std::vector<double> of_steps = busy_with(steps);
    const std::vector<double> of_stars = busy_with(stars);
    const auto busiest = [&](double of_all) {  // convex
      double most = 0;
      for (std::size_t row = 0; row < capacities(); ++row)
        most = std::max(most, own_[row] / amount(row) + (1 - of_all) * of_steps[row] + of_all * of_stars[row]);
      return most;
    };
    double low = 0;
    double high = 1;
    for (int i = 0; i < kThirds; ++i) {
      const double third = (high - low) / 3;
      if (busiest(low + third) <= busiest(high - third))
        high -= third;
      else
        low += third;
    }
    EntryPacking result{1 / busiest(low), {}};
    if (result.rate < kEnough * best_.bound) return std::nullopt;
    for (auto* trees : {&steps, &stars})
      for (EntryTree& one : *trees) {
        one.weight *= trees == &stars ? low : 1 - low;
        if (one.weight > kLeastWeight) result.trees.push_back(std::move(one));
      }
    return result;
  }

  // Trees to begin with, each cheap where those before it left links idle. With stars alone the program takes hundreds
  // of rounds to find that every device of many can pass on a part of every other one's data.
  void add_first_trees() {
    const int of_port = std::max(kLeastTreesOfPort, kFirstTrees / ports_);
    std::vector<double> busy;
    for (std::size_t row = 0; row < capacities(); ++row) busy.push_back(own_[row] / amount(row));
    const auto take = [&](const Tree& tree, double part) {
      for (const Use& use : uses_of(tree)) busy[at(use.capacity)] += part * use.times / amount(at(use.capacity));
    };
    std::vector<Tree> trees(at(of_port * ports_));
    for (int pass = 1; pass <= kPasses; ++pass)
      for (std::size_t index = 0; index < trees.size(); ++index) {
        const auto port = static_cast<Rank>(index % at(ports_));
        const double part = of_ports_[at(port)] / of_port;
        if (pass > 1) take(trees[index], -part);
        trees[index] = cheapest(port, hop_prices(prices_where(busy, kSteepness * pass))).tree;
        take(trees[index], part);
        add(trees[index], port);
      }
  }

  std::vector<double> prices_where(const std::vector<double>& busy, double steepness) const {
    const double most = std::max(1e-30, *std::max_element(busy.begin(), busy.end()));
    std::vector<double> prices;
    for (std::size_t row = 0; row < capacities(); ++row)
      prices.push_back(power_of_e(steepness * (busy[row] / most - 1)) / amount(row));
    return prices;
  }

  // What enters the device whose links are the first to be full, or the host, or all devices together. Mostly no trees
  // carry more than one of these allows, and no fewer.
  void prove_by_cut() {
    std::vector<double> narrowest;
    std::vector<double> together(capacities(), 0);
    double least = kInfinite;
    for (Rank rank = 0; rank <= outside(); ++rank) {
      std::vector<double> one = cut(rank);
      double used = from_outside_;
      for (std::size_t row = 0; row < capacities(); ++row) {
        used += one[row] * own_[row];
        if (rank != outside()) together[row] = std::max(together[row], one[row]);
      }
      const double bound = worth(one) / used;
      if (bound >= least) continue;
      least = bound;
      narrowest = std::move(one);
    }
    for (const std::vector<double>& one : {narrowest, together})
      if (!one.empty()) add_trees(one, std::vector<double>(capacities() + at(ports_), 0));
  }

  // The capacities that enter a device, or leave `outside`, have the price 1.
  std::vector<double> cut(Rank rank) const {
    std::vector<double> result(capacities(), 0);
    for (std::size_t row = 0; row < capacities(); ++row)
      if (std::ranges::any_of(links_.capacities()[row].edges, [&](const Edge& edge) {
            return rank == outside() ? edge.first == rank : edge.second == rank;
          }))
        result[row] = 1;
    return result;
  }

  // Trees are looked for between the program's prices, which leap from round to round, and those that proved most so
  // far (Wentges 1997).
  int generate(const std::vector<double>& prices) {
    if (best_.prices.empty()) return add_trees(prices, prices);
    const std::vector<double> now(prices.begin(), prices.begin() + static_cast<std::ptrdiff_t>(capacities()));
    std::vector<double> between = now;
    for (std::size_t row = 0; row < now.size(); ++row)
      between[row] = kKept * best_.prices[row] + (1 - kKept) * now[row];
    int added = add_trees(between, prices);
    if (added == 0) added = add_trees(now, prices);
    return enough(now) ? 0 : added;
  }

  bool enough(const std::vector<double>& now) const { return worth(now) >= kEnough * best_.bound; }

  // Adds the cheapest trees at `asked` that pay at the program's own prices.
  int add_trees(const std::vector<double>& asked, const std::vector<double>& prices) {
    const std::vector<double> of_hops = hop_prices(asked);
    int added = 0;
    double paid = 0;  // for one unit of all data
    for (std::size_t row = 0; row < capacities(); ++row) paid += own_[row] * std::max(0.0, asked[row]);
    for (Rank port = 0; port < ports_; ++port) {
      const auto [tree, cost] = cheapest(port, of_hops);
      paid += of_ports_[at(port)] * cost;
      double cost_now = 0;
      for (const Use& use : uses_of(tree)) cost_now += std::max(0.0, prices[at(use.capacity)]) * use.times;
      if (prices[at(row_of(port))] - cost_now > PackingProgram::kTolerance) added += add(tree, port);
    }
    const bool wanted = capacities() > kManyCapacities;
    if (const double bound = worth(asked) / paid; wanted && paid > 0 && bound < best_.bound) {
      best_ = {asked, bound};
      for (double& price : best_.prices) price /= paid;
    }
    return added;
  }

  // Of all capacities.
  double worth(const std::vector<double>& prices) const {
    double sum = 0;
    for (std::size_t row = 0; row < capacities(); ++row) sum += std::max(0.0, prices[row]) * amount(row);
    return sum;
  }

  Links links_, reversed_;
  EntryUse use_;
  int ports_;
  std::vector<double> own_;  // by capacity: what the host's own data uses, for one unit of all data
  PackingProgram program_;
  CheapestTree search_;
  std::vector<double> of_ports_;  // the data of each port, of one unit of all data
  double from_outside_ = 0;       // of all ports
  Proof best_;
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
