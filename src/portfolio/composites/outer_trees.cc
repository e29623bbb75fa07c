#include "portfolio/composites/outer_trees.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "treegen/graph/graph_algorithms.h"
#include "treegen/graph/links.h"
#include "treegen/math/simplex.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

using treegen::Amount;
using treegen::Column;
using treegen::PackingProgram;
using treegen::Tree;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kNearlyLeast = 1.003;  // further trees gain less than this
constexpr double kWellRounded = 1.01;   // of the program's optimum
constexpr double kLeastWeight = 1e-4;   // of a root's data
constexpr int kMostRounds = 400;
constexpr int kTurns[] = {1, 2, 3, 4, 6, 8, 12, 16, 24};
constexpr int kMostImprovements = 200;
// Of an arc's average price: what a link costs that is not on a shortest way. Of trees that load links alike, those are
// found that bring data early.
constexpr double kDetour = 1e-3;

struct Weighted {
  Tree tree;
  double weight = 0;
};

class OuterProgram {
 public:
  // `roots` of which each has the part of the same place in `data`.
  OuterProgram(const compose::HopUse& hops, OuterUse use, std::vector<int> roots, std::vector<double> data,
               std::vector<double> entries)
      : hops_(hops),
        use_(use),
        roots_(std::move(roots)),
        data_(std::move(data)),
        entries_(std::move(entries)),
        arcs_(arcs(hops.hosts())),
        search_(hops.hosts(), arcs_),
        program_(limits()) {
    for (int from = 0; from < hops.hosts(); ++from)
      for (int to = 0; to < hops.hosts(); ++to)
        for (const auto& one : hops.of(from, to)) unit_us_ = std::max(unit_us_, one.us_per_byte);
    Column rate;
    for (std::size_t root = 0; root < roots_.size(); ++root) rate.entries.emplace_back(row_of_root(root), data_[root]);
    program_.add(std::move(rate));
    const std::vector<double> equal(at(hops.rows()), 1);
    for (std::size_t root = 0; root < roots_.size(); ++root) add(cheapest(equal, root).first, root);
  }

  // Microseconds for all data at the optimum; nothing if the program does not end.
  std::optional<double> solve() {
    int rounds = 0;
    double most = std::numeric_limits<double>::infinity();
    const auto end = program_.maximise(
        most, [&](const std::vector<double>& prices) { return ++rounds > kMostRounds ? 0 : generate(prices, most); });
    if (end == PackingProgram::End::stalled) return std::nullopt;
    const double rate = program_.value();
    if (!(rate > 0)) return std::nullopt;
    return unit_us_ / rate;
  }

  // By root: its trees and the parts of its data that they carry.
  std::vector<std::vector<Weighted>> trees() const {
    std::vector<std::vector<Weighted>> result(roots_.size());
    const std::vector<double> solution = program_.solution();
    for (std::size_t column = 0; column < trees_.size(); ++column)
      result[trees_[column].second].push_back({trees_[column].first, std::max(0.0, solution[column + 1])});
    for (std::vector<Weighted>& of_root : result) {
      double sum = 0;
      for (const Weighted& one : of_root) sum += one.weight;
      for (Weighted& one : of_root) one.weight /= sum;
      std::erase_if(of_root, [](const Weighted& one) { return !(one.weight > kLeastWeight); });
    }
    return result;
  }

  // By row: what a byte on the tree takes.
  std::vector<double> loads(const Tree& tree) const {
    std::vector<double> result(at(hops_.rows()), 0);
    for (int host = 0; host < hops_.hosts(); ++host)
      if (host != tree.root)
        for_each_use(tree.parent[at(host)], host, [&](int row, double us) { result[at(row)] += us; });
    return result;
  }

 private:
  static std::vector<topology::Arc> arcs(int hosts) {
    std::vector<topology::Arc> result;
    for (int from = 0; from < hosts; ++from)
      for (int to = 0; to < hosts; ++to)
        if (from != to) result.push_back({from, to});
    return result;
  }

  int row_of_root(std::size_t root) const { return hops_.rows() + static_cast<int>(root); }

  std::vector<double> limits() const {
    std::vector<double> result(at(hops_.rows()), 1);
    result.resize(result.size() + roots_.size(), 0);
    return result;
  }

  // Of a tree's edge from `parent` to `child`.
  template <typename Visit>
  void for_each_use(int parent, int child, Visit&& visit) const {
    const double times = entries_.empty() ? 1 : entries_[at(child)];
    if (use_ != OuterUse::sums)
      for (const auto& one : hops_.of(parent, child)) visit(one.row, times * one.us_per_byte);
    if (use_ != OuterUse::copies)
      for (const auto& one : hops_.of(child, parent)) visit(one.row, times * one.us_per_byte);
  }

  // Links of the message from a host to another one.
  int links(int from, int to) const { return from == to ? 0 : static_cast<int>(hops_.of(from, to).size()); }

  // How many links more than directly data of the root pass if they come to the arc's end by this arc.
  int links_more(int root, const topology::Arc& arc) const {
    return links(root, arc.src) + links(arc.src, arc.dst) - links(root, arc.dst);
  }

  // Of `both`, what a tree costs depends on its root only if hosts differ in entries: then any host may be the root.
  std::pair<Tree, double> cheapest(const std::vector<double>& prices, std::size_t root) {
    if (use_ != OuterUse::both || entries_.empty()) return cheapest_from(prices, roots_[root]);
    std::pair<Tree, double> best{{}, std::numeric_limits<double>::infinity()};
    for (int host = 0; host < hops_.hosts(); ++host)
      if (auto one = cheapest_from(prices, host); one.second < best.second) best = std::move(one);
    return best;
  }

  std::pair<Tree, double> cheapest_from(const std::vector<double>& prices, int root) {
    std::vector<double> exact;
    for (const topology::Arc& arc : arcs_) {
      exact.push_back(0);
      for_each_use(arc.src, arc.dst, [&](int row, double us) { exact.back() += std::max(0.0, prices[at(row)]) * us; });
    }
    const double all = std::accumulate(exact.begin(), exact.end(), 0.0);
    const double detour = kDetour * all / static_cast<double>(arcs_.size());
    constexpr double kParts = 1e12;
    std::vector<Amount> costs;
    for (std::size_t arc = 0; arc < exact.size(); ++arc) {
      const double cost = exact[arc] + detour * links_more(root, arcs_[arc]);
      costs.push_back(all > 0 ? static_cast<Amount>(std::llround(cost / all * kParts)) : 1);
    }
    const std::vector<int> entering = search_.run(root, costs);
    Tree tree{root, std::vector<Rank>(entering.size(), -1)};
    double cost = 0;
    for (std::size_t host = 0; host < entering.size(); ++host) {
      if (entering[host] < 0) continue;
      tree.parent[host] = arcs_[at(entering[host])].src;
      cost += exact[at(entering[host])];
    }
    return {std::move(tree), cost / unit_us_};
  }

  int add(const Tree& tree, std::size_t root) {
    if (!known_.emplace(tree, root).second) return 0;
    Column column{0, {}};
    const std::vector<double> all = loads(tree);
    for (std::size_t row = 0; row < all.size(); ++row)
      if (all[row] > 0) column.entries.emplace_back(static_cast<int>(row), all[row] / unit_us_);
    column.entries.emplace_back(row_of_root(root), -1);
    program_.add(std::move(column));
    trees_.emplace_back(tree, root);
    return 1;
  }

  // `most`: no packing carries more, by the prices seen so far.
  int generate(const std::vector<double>& prices, double& most) {
    std::vector<std::pair<Tree, double>> found;
    double needed = 0;
    for (std::size_t root = 0; root < roots_.size(); ++root) {
      found.push_back(cheapest(prices, root));
      needed += data_[root] * found.back().second;
    }
    double paid = 0;
    for (int row = 0; row < hops_.rows(); ++row) paid += std::max(0.0, prices[at(row)]);
    if (needed > 0) most = std::min(most, paid / needed);
    if (program_.value() * kNearlyLeast >= most) return 0;
    int added = 0;
    for (std::size_t root = 0; root < roots_.size(); ++root)
      if (prices[at(row_of_root(root))] - found[root].second > PackingProgram::kTolerance)
        added += add(found[root].first, root);
    return added;
  }

  const compose::HopUse& hops_;
  OuterUse use_;
  std::vector<int> roots_;
  std::vector<double> data_;
  std::vector<double> entries_;
  std::vector<topology::Arc> arcs_;
  treegen::CheapestArborescence search_;
  PackingProgram program_;
  double unit_us_ = 0;
  std::set<std::pair<Tree, std::size_t>> known_;
  std::vector<std::pair<Tree, std::size_t>> trees_;  // by column, after that of the rate
};

// Gives each root's data to whole turns of its trees: first what the weights say, rounded down, then what makes links
// least busy.
class Rounding {
 public:
  Rounding(const OuterProgram& program, const std::vector<std::vector<Weighted>>& trees,
           const std::vector<double>& data, int turns)
      : data_(data), turns_(turns) {
    for (std::size_t root = 0; root < trees.size(); ++root) {
      counts_.emplace_back(trees[root].size(), 0);
      loads_.emplace_back();
      for (const Weighted& one : trees[root]) loads_.back().push_back(program.loads(one.tree));
      if (sums_.empty()) sums_.resize(loads_.front().front().size(), 0);
    }
    for (std::size_t root = 0; root < trees.size(); ++root)
      for (std::size_t tree = 0; tree < trees[root].size(); ++tree)
        for (int turn = static_cast<int>(trees[root][tree].weight * turns + 1e-6); turn > 0; --turn)
          take(root, tree, 1);
  }

  // `least_us` is the program's optimum.
  void run(double least_us) {
    least_us_ = least_us;
    for (std::size_t root = 0; root < counts_.size(); ++root)
      while (std::accumulate(counts_[root].begin(), counts_[root].end(), 0) < turns_) take(root, best(root), 1);
    for (int i = 0; i < kMostImprovements && improve(); ++i) {
    }
  }

  double busiest_us() const { return *std::max_element(sums_.begin(), sums_.end()); }
  const std::vector<std::vector<int>>& counts() const { return counts_; }

 private:
  void take(std::size_t root, std::size_t tree, int times) {
    counts_[root][tree] += times;
    for (std::size_t row = 0; row < sums_.size(); ++row)
      sums_[row] += times * loads_[root][tree][row] * data_[root] / turns_;
  }

  // Grows with the busiest rows.
  double badness() const {
    double sum = 0;
    for (const double one : sums_) {
      double power = one / least_us_;
      for (int i = 0; i < 5; ++i) power *= power;
      sum += power;
    }
    return sum;
  }

  std::size_t best(std::size_t root) {
    std::size_t found = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t tree = 0; tree < counts_[root].size(); ++tree) {
      take(root, tree, 1);
      if (const double bad = badness(); bad < least) {
        least = bad;
        found = tree;
      }
      take(root, tree, -1);
    }
    return found;
  }

  bool improve() {
    bool any = false;
    for (std::size_t root = 0; root < counts_.size(); ++root)
      for (std::size_t tree = 0; tree < counts_[root].size(); ++tree) {
        if (counts_[root][tree] == 0) continue;
        const double before = badness();
        take(root, tree, -1);
        const std::size_t other = best(root);
        take(root, other, 1);
        if (badness() < before * (1 - 1e-9)) {
          any = true;
        } else {
          take(root, other, -1);
          take(root, tree, 1);
        }
      }
    return any;
  }

  std::vector<double> data_;
  int turns_;
  double least_us_ = 1;
  std::vector<std::vector<int>> counts_;                 // by root, then tree
  std::vector<std::vector<std::vector<double>>> loads_;  // by root, then tree, then row
  std::vector<double> sums_;                             // by row
};

// Positions are distances from the root round the hosts; a child hears one step after its parent.
compose::Tree by_positions(const Tree& tree) {
  const std::size_t hosts = tree.parent.size();
  const auto position = [&](int host) { return (at(host - tree.root) + hosts) % hosts; };
  const std::vector<int> depths = treegen::depth_by_rank(tree);
  compose::Tree result;
  result.parent.assign(hosts, -1);
  result.step.assign(hosts, -1);
  for (std::size_t host = 0; host < hosts; ++host) {
    if (static_cast<int>(host) == tree.root) continue;
    const std::size_t place = position(static_cast<int>(host));
    result.parent[place] = static_cast<int>(position(tree.parent[host]));
    result.step[place] = depths[host] - 1;
  }
  compose::index_children(result);
  return result;
}

}  // namespace

std::optional<OuterTrees> outer_trees(const compose::HopUse& hops, OuterUse use, const std::vector<double>& data,
                                      const std::vector<double>& entries) {
  std::vector<int> roots;
  std::vector<double> parts;
  const double all = std::accumulate(data.begin(), data.end(), 0.0);
  for (int host = 0; host < hops.hosts(); ++host) {
    if (use == OuterUse::both ? host > 0 : !(data[at(host)] > 0)) continue;
    roots.push_back(host);
    parts.push_back(use == OuterUse::both ? all : data[at(host)]);
  }
  if (hops.hosts() < 2 || hops.hosts() > kMostPackedHosts || roots.empty()) return std::nullopt;
  OuterProgram program(hops, use, roots, parts, entries);
  const std::optional<double> least_us = program.solve();
  if (!least_us) return std::nullopt;
  const auto trees = program.trees();
  std::optional<Rounding> best;
  int best_turns = 0;
  for (const int turns : kTurns) {
    Rounding rounding(program, trees, parts, turns);
    rounding.run(*least_us);
    if (best && rounding.busiest_us() >= best->busiest_us()) continue;
    best = std::move(rounding);
    best_turns = turns;
    if (best->busiest_us() <= kWellRounded * *least_us) break;
  }
  OuterTrees result;
  result.us_per_byte = best->busiest_us();
  result.of_roots.resize(at(hops.hosts()));
  for (std::size_t root = 0; root < roots.size(); ++root) {
    const std::vector<int>& counts = best->counts()[root];
    for (const int tree : treegen::take_turns({counts.begin(), counts.end()})) {
      const Tree& one = trees[root][at(tree)].tree;
      if (use != OuterUse::both) {
        result.of_roots[at(roots[root])].push_back(by_positions(one));
        continue;
      }
      result.root_hosts.push_back(entries.empty() ? treegen::rerooted_at_centre(one).root : one.root);
      for (int host = 0; host < hops.hosts(); ++host)
        result.of_roots[at(host)].push_back(by_positions(treegen::rerooted(one, host)));
    }
  }
  // Roots without data have some tree.
  for (std::vector<compose::Tree>& of_root : result.of_roots)
    if (of_root.empty()) of_root.assign(at(best_turns), compose::trees(compose::Shape::ring, hops.hosts()).front());
  return result;
}

OuterPlanner::OuterPlanner(compose::CostModel& costs, const std::vector<compose::Host>& hosts) {
  for (const compose::Host& host : hosts) devices_.push_back(static_cast<double>(host.ranks.size()));
  one_speed_ = costs.cluster().has_one_leaf();
  if (hosts.size() > 2 && hosts.size() <= at(kMostPackedHosts)) hops_.emplace(costs, hosts);
}

const OuterTrees* OuterPlanner::find(Collective collective, int root_host, const std::vector<double>& entries) {
  if (!hops_ || (one_speed_ && entries.empty())) return nullptr;
  const bool rooted = info(collective).rooted;
  const auto [known, inserted] = found_.emplace(std::tuple(collective, rooted ? root_host : 0, entries), std::nullopt);
  if (inserted) {
    std::vector<double> data = devices_;
    const double all = std::accumulate(data.begin(), data.end(), 0.0);
    const auto one_root = [&] {
      data.assign(data.size(), 0);
      data[at(root_host)] = 1;
    };
    switch (collective) {
      case Collective::allgather:
        known->second = outer_trees(*hops_, OuterUse::copies, data, entries);
        break;
      case Collective::reducescatter:
        for (double& one : data) one /= all;
        known->second = outer_trees(*hops_, OuterUse::sums, data, entries);
        break;
      case Collective::allreduce:
        for (double& one : data) one /= all;
        known->second = outer_trees(*hops_, OuterUse::both, data, entries);
        break;
      case Collective::broadcast:
        one_root();
        known->second = outer_trees(*hops_, OuterUse::copies, data, entries);
        break;
      case Collective::reduce:
        one_root();
        known->second = outer_trees(*hops_, OuterUse::sums, data, entries);
        break;
      default:
        break;
    }
  }
  return known->second ? &*known->second : nullptr;
}

double OuterPlanner::gbytes_per_s_into_host(Collective collective, int devices) {
  const OuterTrees* trees = find(collective, 0);
  if (trees == nullptr) return std::numeric_limits<double>::infinity();
  const double all = std::accumulate(devices_.begin(), devices_.end(), 0.0);
  return (collective == Collective::allgather ? all - devices : 1) / (trees->us_per_byte * 1e3);
}

}  // namespace sccl::portfolio
