// A tree carries at most the width of its narrowest hop, so a packing has at least the minimum of sum(weight /
// narrowest hop) trees. This minimum is a linear program with one arborescence search per width; its optimum is rounded
// up. A whole-number packing with no more trees is therefore proved best, even against fractional weights. If all trees
// can be listed (3456 on eight GPUs of a DGX-1), branch and bound then tries smaller numbers and depths until one is
// proved impossible.
#include "treegen/packing/fewest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "treegen/graph/cheapest_tree.h"
#include "treegen/math/simplex.h"
#include "treegen/packing/choose.h"

namespace sccl::treegen {
namespace {

constexpr std::size_t kMostListedTrees = 10000;
constexpr std::size_t kMostWays = 50;  // ways to write a rate as a sum of weights

std::vector<double> limits_of(const Links& links) {
  std::vector<double> limits;
  for (const Capacity& capacity : links.capacities()) limits.push_back(static_cast<double>(capacity.amount));
  return limits;
}

std::vector<Amount> demands_of(const Links& links, Rank root, Amount rate) {
  std::vector<Amount> demands(static_cast<std::size_t>(links.ranks()), 0);
  demands[static_cast<std::size_t>(root)] = rate;
  return demands;
}

Amount width(const Links& links, const Hop& hop) {
  Amount least = 0;
  for (const Use& use : hop.uses) {
    const Amount amount = links.capacities()[static_cast<std::size_t>(use.capacity)].amount / use.times;
    least = least == 0 ? amount : std::min(least, amount);
  }
  return least;
}

// Trees over hops of at least a given width; other hops get a forbidding price.
class ByWidth {
 public:
  explicit ByWidth(const Links& links) : links_(links), search_(links) {
    for (const Hop& hop : links.hops()) widths_.insert(width(links, hop));
  }

  // For every width adds the tree that gains most, if it gains more than it costs. `gain` is by width.
  int generate(PackingProgram& program, Rank root, const std::vector<double>& prices, double gain_per_tree,
               const std::function<Column(const Tree&)>& column_of) {
    constexpr double kForbidden = 1e6;
    const double rate_price = prices.back();
    auto hop_prices = search_.hop_prices({prices.begin(), prices.end() - 1});
    int added = 0;
    for (const Amount least : widths_) {
      for (std::size_t hop = 0; hop < hop_prices.size(); ++hop)
        if (width(links_, links_.hops()[hop]) < least) hop_prices[hop] = kForbidden;
      const auto [tree, cost] = search_.run_hops(root, hop_prices);
      if (cost >= kForbidden) return added;
      const double gain = gain_per_tree - 1 / static_cast<double>(least);
      if (gain - cost - rate_price <= PackingProgram::kTolerance || !known_.insert({least, tree}).second) continue;
      Column column = column_of(tree);
      column.gain = gain;
      program.add(std::move(column));
      ++added;
    }
    return added;
  }

 private:
  const Links& links_;
  CheapestTree search_;
  std::set<Amount> widths_;
  std::set<std::pair<Amount, Tree>> known_;
};

// Maximises sum((gain - 1 / width) * weight) with sum(weight) <= rate. With a gain above every 1 / width the rate is
// reached, and gain * rate minus the optimum is the minimum of sum(weight / width).
int least_number(const Links& links, Rank root, Amount rate) {
  constexpr double kGain = 8;
  auto limits = limits_of(links);
  limits.push_back(static_cast<double>(rate));
  const int rate_row = static_cast<int>(limits.size()) - 1;
  PackingProgram program(std::move(limits));
  const auto column_of = [&](const Tree& tree) {
    Column column;
    for (const Use& use : links.uses(tree)) column.entries.emplace_back(use.capacity, use.times);
    column.entries.emplace_back(rate_row, 1);
    return column;
  };
  ByWidth trees(links);
  const auto end = program.maximise(kGain * static_cast<double>(rate), [&](const std::vector<double>& prices) {
    return trees.generate(program, root, prices, kGain, column_of);
  });
  if (end == PackingProgram::End::stalled) return 1;
  return std::max(1, static_cast<int>(std::ceil(kGain * static_cast<double>(rate) - program.value() - 1e-4)));
}

// Ways to write `rate` as a sum of `parts` whole weights of at most `heaviest`, larger ones first.
void partitions_of(Amount rate, int parts, Amount heaviest, std::map<Amount, int>& now,
                   std::vector<std::map<Amount, int>>& found) {
  if (parts == 0) {
    if (rate == 0) found.push_back(now);
    return;
  }
  for (Amount weight = std::min(heaviest, rate - (parts - 1)); weight * parts >= rate && weight > 0; --weight) {
    if (found.size() > kMostWays) return;
    ++now[weight];
    partitions_of(rate - weight, parts - 1, weight, now, found);
    if (--now[weight] == 0) now.erase(weight);
  }
}

class Improver {
 public:
  Improver(const Links& links, Amount rate, std::vector<Tree> trees)
      : links_(links), rate_(rate), trees_(std::move(trees)) {
    for (const Tree& tree : trees_) {
      uses_.push_back(links.uses(tree));
      depths_.push_back(depth(tree));
      for (const Use& use : uses_.back())
        heaviest_ = std::max(heaviest_, links.capacities()[static_cast<std::size_t>(use.capacity)].amount / use.times);
    }
  }

  int least_depth() const { return *std::min_element(depths_.begin(), depths_.end()); }

  Verdict find(int number, int most_depth, std::vector<WholeTree>& found) const {
    std::vector<std::map<Amount, int>> ways;
    std::map<Amount, int> now;
    partitions_of(rate_, number, heaviest_, now, ways);
    Question question;
    for (const Capacity& capacity : links_.capacities()) question.capacities.push_back(capacity.amount);
    std::vector<int> tree_of;
    for (std::size_t index = 0; index < trees_.size(); ++index) {
      if (depths_[index] > most_depth) continue;
      tree_of.push_back(static_cast<int>(index));
      question.candidates.push_back(uses_[index]);
    }
    if (ways.size() > kMostWays) return Verdict::gave_up;
    Verdict worst = Verdict::impossible;
    for (const auto& way : ways) {
      question.trees_by_weight = way;
      Choice choice;
      const Verdict verdict = choose(question, choice);
      if (verdict == Verdict::gave_up) worst = verdict;
      if (verdict != Verdict::found) continue;
      found.clear();
      for (std::size_t i = 0; i < choice.candidates.size(); ++i)
        found.push_back({trees_[static_cast<std::size_t>(tree_of[static_cast<std::size_t>(choice.candidates[i])])],
                         choice.weights[i]});
      return Verdict::found;
    }
    return worst;
  }

 private:
  const Links& links_;
  Amount rate_;
  Amount heaviest_ = 0;
  std::vector<Tree> trees_;
  std::vector<std::vector<Use>> uses_;
  std::vector<int> depths_;
};

int most_depth(const std::vector<WholeTree>& trees) {
  int most = 0;
  for (const WholeTree& tree : trees) most = std::max(most, depth(tree.tree));
  return most;
}

void improve(const Improver& improver, FewestTrees& result) {
  const int links_depth = static_cast<int>(result.trees.front().tree.parent.size());
  for (int number = result.least; number < static_cast<int>(result.trees.size()); ++number)
    if (improver.find(number, links_depth, result.trees) == Verdict::found) break;
  const int number = static_cast<int>(result.trees.size());
  result.least_depth_proved = true;
  for (int depth = improver.least_depth(); depth < most_depth(result.trees); ++depth) {
    const Verdict verdict = improver.find(number, depth, result.trees);
    if (verdict == Verdict::gave_up) result.least_depth_proved = false;
  }
}

}  // namespace

std::optional<std::vector<Tree>> all_trees(const Links& links, Rank root, std::size_t most) {
  std::vector<Tree> trees;
  Tree tree{root, std::vector<Rank>(static_cast<std::size_t>(links.ranks()), -1)};
  // Ranks choose their parents in turn; a choice that closes a cycle is dropped at once. Every leaf of this search is a
  // tree, but a branch may have no leaf, hence the second limit.
  std::size_t branches = 0;
  const std::function<bool(Rank)> choose_parent = [&](Rank rank) {
    if (rank == root) return choose_parent(rank + 1);
    if (rank == links.ranks()) {
      trees.push_back(tree);
      return trees.size() <= most;
    }
    if (++branches > 20 * most) return false;
    for (Rank parent = 0; parent < links.ranks(); ++parent) {
      if (links.hop(parent, rank) < 0) continue;
      Rank above = parent;
      while (above >= 0 && above != rank) above = tree.parent[static_cast<std::size_t>(above)];
      if (above == rank) continue;
      tree.parent[static_cast<std::size_t>(rank)] = parent;
      const bool go_on = choose_parent(rank + 1);
      tree.parent[static_cast<std::size_t>(rank)] = -1;
      if (!go_on) return false;
    }
    return true;
  };
  if (!choose_parent(0)) return std::nullopt;
  return trees;
}

std::optional<std::vector<WholeTree>> unit_trees(const Links& links, Rank root, Amount rate) {
  return pack_whole(links, demands_of(links, root, rate), 1, 1);
}

std::optional<FewestTrees> fewest_trees(const Links& links, Rank root, Amount rate, LeastNumber least) {
  auto trees = pack_whole(links, demands_of(links, root, rate), 1);
  if (!trees) return std::nullopt;
  FewestTrees result;
  result.trees = std::move(*trees);
  result.listed = result.trees.size();
  auto listed = all_trees(links, root, kMostListedTrees);
  if (listed || least == LeastNumber::always) result.least = least_number(links, root, rate);
  if (listed) {
    result.listed = listed->size();
    improve(Improver(links, rate, std::move(*listed)), result);
  }
  result.fewest_proved = static_cast<int>(result.trees.size()) == result.least;
  return result;
}

SelectedTrees select_candidates(const Links& links, const std::vector<Tree>& candidates, double rate,
                                double threshold) {
  constexpr Amount kFinestShare = 8;
  SelectedTrees best;
  for (Amount scale = 1; scale <= kFinestShare && best.rate < (1 - threshold) * rate; ++scale) {
    Question question;
    for (const Capacity& capacity : links.capacities()) question.capacities.push_back(capacity.amount * scale);
    for (const Tree& tree : candidates) question.candidates.push_back(links.uses(tree));
    for (int number = static_cast<int>(std::floor(rate * static_cast<double>(scale) + 1e-6)); number > 0; --number) {
      if (static_cast<double>(number) <= best.rate * static_cast<double>(scale)) break;
      question.trees_by_weight = {{1, number}};
      Choice choice;
      if (choose(question, choice) != Verdict::found) continue;
      std::map<int, Amount> weight_of;
      for (const int candidate : choice.candidates) ++weight_of[candidate];
      best = {{}, scale, static_cast<double>(number) / static_cast<double>(scale)};
      for (const auto& [candidate, weight] : weight_of)
        best.trees.push_back({candidates[static_cast<std::size_t>(candidate)], weight});
      break;
    }
  }
  return best;
}

}  // namespace sccl::treegen
