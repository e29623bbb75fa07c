// The fewest out-trees that reach the optimal broadcast rate, and among such packings one of minimal depth.
#pragma once

#include <cstdint>

#include "treegen/graph/links.h"
#include "treegen/packing/integral.h"

namespace sccl::treegen {

// How many trees there are at the least is a linear program of its own, whose answer helps only where all trees can be
// listed. Elsewhere it takes longer than to pack.
enum class LeastNumber : std::uint8_t { always, where_it_helps };

struct FewestTrees {
  std::vector<WholeTree> trees;     // weights in capacity units
  std::size_t listed = 0;           // trees examined
  int least = 1;                    // no packing of this rate has fewer trees, whatever its weights
  bool fewest_proved = false;       // trees.size() == least
  bool least_depth_proved = false;  // among packings with that many trees and whole weights
};

// `rate` is the optimum in whole capacity units (Edmonds: it is whole). Nothing when pack_whole() finds no packing.
std::optional<FewestTrees> fewest_trees(const Links& links, Rank root, Amount rate, LeastNumber least);

// As many trees of weight 1 as the rate. Nothing when pack_whole() finds no packing.
std::optional<std::vector<WholeTree>> unit_trees(const Links& links, Rank root, Amount rate);

// All spanning out-trees; nothing when there are more than `most`.
std::optional<std::vector<Tree>> all_trees(const Links& links, Rank root, std::size_t most);

// Blink 3.2.1 as published: as many candidates of weight 1 as fit, then of 1/2, 1/3, ... until the rate is within
// `threshold` of `rate`. Weights are in units of 1 / scale.
struct SelectedTrees {
  std::vector<WholeTree> trees;
  Amount scale = 1;
  double rate = 0;  // in capacity units
};
SelectedTrees select_candidates(const Links& links, const std::vector<Tree>& candidates, double rate, double threshold);

}  // namespace sccl::treegen
