#include "portfolio/host/shallow_trees.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <set>
#include <utility>
#include <vector>

#include "base/splitmix.h"
#include "portfolio/links/ways.h"
#include "schedule/simulation/cost.h"
#include "topology/graph/routes.h"

namespace sccl::portfolio {
namespace {

constexpr int kTreesOfOwner = 8;
constexpr int kMostMoves = 2000;
constexpr double kNearLeast = 1.01;
constexpr double kBetter = 0.99;
constexpr std::size_t kProposals = 40;  // for each device of each tree
constexpr std::size_t kMostProposals = 100000;
constexpr double kHeat = 1;
constexpr double kSame = 1 + 1e-6;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Forest {
 public:
  Forest(const topology::Topology& links, bool backwards, const schedule::Schedule* beside,
         std::span<const double> parts)
      : ranks_(links.ranks), shared_(!links.shared.empty()), ways_(links, backwards), uses_(ways_) {
    for (Rank rank = 0; rank < ranks_; ++rank) weights_.push_back(parts.empty() ? 1 : parts[at(rank)] * ranks_);
    if (beside == nullptr) return;
    const Ways ways(links);
    const double trees = static_cast<double>(beside->chunks) / (ranks_ * kTreesOfOwner);
    for (const schedule::Send& send : beside->sends)
      uses_.add(ways.between(send.src, send.dst), weights_[at(send.chunk % ranks_)] / trees);
  }

  // False if a device is not reached.
  bool grow() {
    for (int piece = 0; piece < kTreesOfOwner; ++piece)
      for (Rank owner = 0; owner < ranks_; ++owner)
        if (!grow(trees_.emplace_back(piece, owner, ranks_))) return false;
    return true;
  }

  int deepest() const {
    int most = 0;
    for (const Tree& tree : trees_) most = std::max(most, *std::max_element(tree.depth.begin(), tree.depth.end()));
    return most;
  }

  void balance(int most_depth, Search search) {
    uses_.set_unit();
    int left = kMostMoves;
    while (left > 0 && relieve(most_depth, left)) {
    }
    const double busiest = uses_.busiest();
    if (search == Search::moves || shared_ || busiest <= kNearLeast * least_busiest()) return;
    const std::vector<Tree> trees = trees_;
    const Uses uses = uses_;
    anneal(most_depth);
    if (uses_.busiest() <= kBetter * busiest) return;
    trees_ = trees;
    uses_ = uses;
  }

  template <typename Visit>
  void for_each_edge(Visit&& visit) const {
    for (const Tree& tree : trees_)
      for (Rank rank = 0; rank < ranks_; ++rank)
        if (rank != tree.owner)
          visit(tree.piece * ranks_ + tree.owner, tree.parent[at(rank)], rank, tree.depth[at(rank)] - 1);
  }

 private:
  struct Tree {
    Tree(int piece_, Rank owner_, int ranks)
        : piece(piece_), owner(owner_), parent(at(ranks), -1), depth(at(ranks), -1) {}
    int piece;
    Rank owner;
    std::vector<Rank> parent;
    std::vector<int> depth;
  };

  // How often it counts where it uses a link.
  double weight(const Tree& tree) const { return weights_[at(tree.owner)]; }

  // Of the busiest part of the way, with a use more.
  double busiest_with(const std::vector<int>& way, double more) const {
    double most = 0;
    for (const int resource : way) most = std::max(most, uses_.busy(resource, more));
    return most;
  }
  // Level by level: a device receives from a device of the level before, over the way that is least busy so far.
  bool grow(Tree& tree) {
    tree.depth[at(tree.owner)] = 0;
    int known = 1;
    for (int level = 1; level < ranks_ && known < ranks_; ++level)
      for (Rank i = 0; i < ranks_; ++i) {
        const Rank rank = (tree.owner + tree.piece + i) % ranks_;
        if (tree.depth[at(rank)] >= 0) continue;
        Rank from = -1;
        double least = 0;
        for (Rank j = 0; j < ranks_; ++j) {
          const Rank other = (rank + j) % ranks_;
          if (other == rank || tree.depth[at(other)] != level - 1 || ways_.between(other, rank).empty()) continue;
          if (const double here = busiest_with(ways_.between(other, rank), weight(tree)); from < 0 || here < least) {
            from = other;
            least = here;
          }
        }
        if (from < 0) continue;
        uses_.add(ways_.between(from, rank), weight(tree));
        tree.parent[at(rank)] = from;
        tree.depth[at(rank)] = level;
        ++known;
      }
    return known == ranks_;
  }

  // Moves subtrees to other parents as long as that lowers the sum of high powers of how busy links and sets are. Not
  // only the busiest counts: several moves may be needed before it is relieved. False if nothing was moved.
  bool relieve(int most_depth, int& moves_left) {
    bool moved = false;
    for (Tree& tree : trees_) {
      const double uses = weight(tree);
      if (!(uses > 0)) continue;
      for (Rank rank = 0; rank < ranks_ && moves_left > 0; ++rank) {
        if (rank == tree.owner) continue;
        const std::vector<int>& now = ways_.between(tree.parent[at(rank)], rank);
        uses_.add(now, -uses);
        const double here = uses_.weight_with(now, uses) * (1 - 1e-9);
        const Rank better = best_parent(tree, rank, most_depth, here);
        uses_.add(ways_.between(better >= 0 ? better : tree.parent[at(rank)], rank), uses);
        if (better < 0) continue;
        hang(tree, rank, better);
        moved = true;
        --moves_left;
      }
    }
    return moved;
  }

  // The best device to hang `rank` and its subtree on, if its way then weighs less than `limit`; else -1.
  Rank best_parent(const Tree& tree, Rank rank, int most_depth, double limit) const {
    std::vector<bool> below;  // known once some way weighs less, which is rare
    int height = 0;
    Rank best = -1;
    for (Rank other = 0; other < ranks_; ++other) {
      const std::vector<int>& way = ways_.between(other, rank);
      if (way.empty()) continue;
      const double here = uses_.weight_with(way, weight(tree));
      if (!(here < limit)) continue;
      if (below.empty()) below = below_and_height(tree, rank, height);
      if (below[at(other)] || tree.depth[at(other)] + 1 + height > most_depth) continue;
      best = other;
      limit = here;
    }
    return best;
  }

  // The subtree of `rank`, and how many levels it has below that rank.
  std::vector<bool> below_and_height(const Tree& tree, Rank rank, int& height) const {
    std::vector<bool> below(at(ranks_), false);
    for (Rank other = 0; other < ranks_; ++other) {
      if (!is_below(tree, other, rank)) continue;
      below[at(other)] = true;
      height = std::max(height, tree.depth[at(other)] - tree.depth[at(rank)]);
    }
    return below;
  }

  // Every device gets all data but its own; all ways to it begin with some first links, and end with some last ones.
  double least_busiest() const {
    double most = 0;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      std::set<int> first;
      std::set<int> last;
      for (Rank other = 0; other < ranks_; ++other) {
        const std::vector<int>& way = ways_.between(other, rank);
        if (way.empty()) continue;
        first.insert(way.front());
        last.insert(way.back());
      }
      for (const std::set<int>& links : {first, last}) {
        double per_us = 0;
        for (const int link : links) per_us += 1 / ways_.us_per_byte(link);
        most = std::max(most, (ranks_ - weights_[at(rank)]) * kTreesOfOwner / per_us);
      }
    }
    return most;
  }

  // Single moves that each relieve something end where only several moves together do. So subtrees of any tree move to
  // any other parent by chance, also where that makes links busier, but less and less so (simulated annealing).
  void anneal(int most_depth) {
    uses_.set_unit();
    std::vector<std::vector<Rank>> neighbours(at(ranks_));
    for (Rank rank = 0; rank < ranks_; ++rank)
      for (Rank other = 0; other < ranks_; ++other)
        if (!ways_.between(other, rank).empty()) neighbours[at(rank)].push_back(other);
    const std::size_t proposals = std::min(kMostProposals, kProposals * trees_.size() * at(ranks_));
    for (std::size_t i = 0; i < proposals; ++i) {
      const std::uint64_t random = splitmix64(i);
      Tree& tree = trees_[random % trees_.size()];
      const auto rank = static_cast<Rank>((random >> 16) % at(ranks_));
      const std::vector<Rank>& choices = neighbours[at(rank)];
      const double uses = weight(tree);
      if (rank == tree.owner || choices.empty() || !(uses > 0)) continue;
      const Rank parent = choices[(random >> 24) % choices.size()];
      if (parent == tree.parent[at(rank)] || !may_hang(tree, rank, parent, most_depth)) continue;
      const std::vector<int>& now = ways_.between(tree.parent[at(rank)], rank);
      const std::vector<int>& then = ways_.between(parent, rank);
      const double cooled = 1 - static_cast<double>(i) / static_cast<double>(proposals);
      const double chance = static_cast<double>(random >> 32) * 0x1p-32;
      uses_.add(now, -uses);
      const double worse = uses_.weight_with(then, uses) - uses_.weight_with(now, uses);
      const bool taken = worse <= kHeat * cooled * cooled * chance;
      uses_.add(taken ? then : now, uses);
      if (taken) hang(tree, rank, parent);
    }
  }

  bool may_hang(const Tree& tree, Rank rank, Rank parent, int most_depth) const {
    if (is_below(tree, parent, rank)) return false;
    const int deeper = tree.depth[at(parent)] + 1 - tree.depth[at(rank)];
    if (deeper <= 0) return true;
    for (Rank other = 0; other < ranks_; ++other)
      if (tree.depth[at(other)] + deeper > most_depth && is_below(tree, other, rank)) return false;
    return true;
  }

  // Or the rank itself. A rank that is no deeper is not below.
  static bool is_below(const Tree& tree, Rank rank, Rank above) {
    while (tree.depth[at(rank)] > tree.depth[at(above)]) rank = tree.parent[at(rank)];
    return rank == above;
  }

  void hang(Tree& tree, Rank rank, Rank parent) {
    tree.parent[at(rank)] = parent;
    if (tree.depth[at(rank)] == tree.depth[at(parent)] + 1) return;
    std::vector<Rank> open{rank};
    while (!open.empty()) {
      const Rank one = open.back();
      open.pop_back();
      tree.depth[at(one)] = tree.depth[at(tree.parent[at(one)])] + 1;
      for (Rank other = 0; other < ranks_; ++other)
        if (tree.parent[at(other)] == one) open.push_back(other);
    }
  }

  int ranks_;
  bool shared_;  // links share their rate: there composites with entries (entries.h) do better from the first trees
  Ways ways_;
  Uses uses_;                    // by trees
  std::vector<double> weights_;  // of each owner's trees, 1 on average
  std::vector<Tree> trees_;
};

}  // namespace

std::optional<schedule::Schedule> shallow_trees(const topology::Topology& links, Collective collective, int more_steps,
                                                const schedule::Schedule* beside, std::span<const double> parts,
                                                Search search) {
  const bool sums = collective == Collective::reducescatter;
  Forest forest(links, sums, beside, parts);
  if (!forest.grow()) return std::nullopt;
  forest.balance(forest.deepest() + more_steps, search);
  const int deepest = forest.deepest();
  std::vector<schedule::Send> sends;
  forest.for_each_edge([&](schedule::ChunkId chunk, Rank from, Rank to, schedule::Step step) {
    if (sums)
      sends.push_back({chunk, to, from, deepest - 1 - step, schedule::SendKind::reduce});
    else
      sends.push_back({chunk, from, to, step, schedule::SendKind::copy});
  });
  std::string name = more_steps == 0 ? "shallow" : fmt::format("shallow-{}", more_steps);
  if (beside != nullptr) name += "-beside";
  return schedule::make_schedule(name, collective, 0, links, sums ? kTreesOfOwner * links.ranks : kTreesOfOwner,
                                 std::move(sends));
}

std::optional<schedule::Schedule> backwards(const schedule::Schedule& allgather) {
  topology::Routes routes(allgather.topology);
  std::vector<schedule::Send> sends;
  for (const schedule::Send& send : allgather.sends) {
    if (!routes.connected(send.dst, send.src)) return std::nullopt;
    sends.push_back({send.chunk, send.dst, send.src, allgather.steps - 1 - send.step, schedule::SendKind::reduce});
  }
  const int ranks = allgather.ranks;
  schedule::Schedule result = schedule::make_schedule(allgather.name, Collective::reducescatter, 0, allgather.topology,
                                                      allgather.chunks_per_rank * ranks, std::move(sends));
  const double forwards = schedule::busiest_us_per_byte(allgather) / ranks;
  if (schedule::busiest_us_per_byte(result) > kSame * forwards) return std::nullopt;
  return result;
}

namespace {

// Adds what a byte of all data is busy with.
void add_bytes(std::vector<double>& bytes, const Ways& ways, const schedule::Schedule& one,
               std::span<const double> parts) {
  // An AllGather's fractions are of one rank's data.
  const double of_owner = one.collective == Collective::allgather ? 1 : one.ranks;
  const std::vector<double> fractions = schedule::chunk_fractions(one);
  for (const schedule::Send& send : one.sends) {
    const double part = parts.empty() ? 1.0 / one.ranks : parts[at(send.chunk % one.ranks)];
    for (const int resource : ways.between(send.src, send.dst))
      bytes[at(resource)] += fractions[at(send.chunk)] * of_owner * part;
  }
}

double busiest_of(std::initializer_list<const schedule::Schedule*> schedules, std::span<const double> parts) {
  const Ways ways((*schedules.begin())->topology);
  std::vector<double> bytes(at(ways.count()), 0);
  for (const schedule::Schedule* one : schedules) add_bytes(bytes, ways, *one, parts);
  double most = 0;
  for (int resource = 0; resource < ways.count(); ++resource)
    most = std::max(most, bytes[at(resource)] * ways.us_per_byte(resource));
  return most;
}

}  // namespace

double busiest_of(const schedule::Schedule& one, std::span<const double> parts) { return busiest_of({&one}, parts); }

double busiest_of_both(const schedule::Schedule& in, const schedule::Schedule& out, std::span<const double> parts) {
  return busiest_of({&in, &out}, parts);
}

}  // namespace sccl::portfolio
