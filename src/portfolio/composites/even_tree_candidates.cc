#include "portfolio/composites/even_tree_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "compose/bounds/bound.h"
#include "compose/lowering/by_time.h"
#include "compose/lowering/expand.h"
#include "planners/planners.h"
#include "portfolio/flat/candidate.h"
#include "schedule/simulation/cost.h"
#include "schedule/simulation/simulate.h"
#include "treegen/clusters/even_trees.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

// AllReduce: more trees leave links more evenly busy, fewer trees wait for one another less. Chunks have a long way,
// and where there are many the last ones begin early; but an order of many chunks on many ranks takes long to find.
struct Trees {
  int count;
  int frames;
};
constexpr Trees kOfSomeRanks[] = {{128, 16}, {64, 8}};
constexpr Trees kOfManyRanks[] = {{64, 8}, {32, 16}};
constexpr int kFewRanks = 16;
// All sends of a frame are more urgent than those of the frames after the next few.
constexpr int kFrameSteps = 8;
constexpr int kMostRoots = 32;
constexpr double kClearlyLess = 0.95;
// AllGather and ReduceScatter: of all ranks together.
struct TreesOfBlocks {
  int count;
  int chunks;
};
constexpr TreesOfBlocks kBlocksOfFewRanks[] = {{512, 2048}, {256, 512}};
constexpr TreesOfBlocks kBlocksOfSomeRanks[] = {{256, 512}};
constexpr double kLessForBlocks = 0.98;
constexpr double kWaitsLittle = 1.1;  // times the busiest link
constexpr double kFarMore = 1.2;      // another number of trees does not help
// Of clusters with more ranks, where nothing else comes near the bound.
constexpr double kFarFromBound = 1.6;
constexpr double kMuchLess = 0.75;
constexpr int kTreesOfMany = 32;
// Of Broadcast and Reduce on few ranks.
constexpr int kTreesOfOneRoot = 128;
constexpr int kFramesOfOneRoot = 16;
constexpr double kLongData = 64 << 20;
constexpr double kLongSlice = 128 * 1024;
constexpr double kNearBound = 1.1;
constexpr double kVeryNearBound = 1.05;  // where a simulation tells
constexpr int kMostTwice = 96;           // ranks for which more trees are tried
constexpr int kMostSends = 1 << 16;
constexpr int kFramesOfBlocks = 2;  // more gain nothing: blocks are many chunks
constexpr int kMostRanksOfChain = 128;
constexpr int kChunksOfChain = 4;           // times the ranks, so that few of them wait for the first ones
constexpr int kMostRanksWithoutRail = 512;  // whose pairs are few enough to simulate a message between each
constexpr double kTinyChunk = 1;
constexpr double kShortChunk = 4096;
constexpr double kLongChunk = 32 * 1024;
constexpr double kLongestChunk = 128 * 1024;

using schedule::ChunkId;
using treegen::Tree;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Trees that chunks take in turn: root by root, then each root's next tree.
struct Turns {
  std::vector<Rank> roots;  // of equally many trees each
  std::vector<Tree> trees;
};

// Few ranks are roots, each of equally many trees, as composites want it.
class SharedRoots {
 public:
  SharedRoots(const std::vector<Tree>& trees, int ranks) : trees_(trees), ranks_(ranks) {
    for (const Tree& tree : trees) {
      depths_.emplace_back();
      for (Rank rank = 0; rank < ranks; ++rank) depths_.back().push_back(treegen::depth(treegen::rerooted(tree, rank)));
    }
  }

  // The number of roots, a divisor of the number of trees, whose trees are shallowest.
  Turns best() const {
    std::vector<std::size_t> least;
    std::vector<Rank> roots;
    int least_sum = std::numeric_limits<int>::max();
    for (int count = 1; count <= std::min(kMostRoots, ranks_); count *= 2) {
      const std::vector<Rank> chosen = choose(count);
      std::vector<std::size_t> root_of = assign(chosen);
      int sum = 0;
      for (std::size_t tree = 0; tree < trees_.size(); ++tree) sum += depth(tree, chosen[root_of[tree]]);
      if (sum >= least_sum) continue;
      least_sum = sum;
      least = std::move(root_of);
      roots = chosen;
    }
    Turns result{roots, std::vector<Tree>(trees_.size())};
    std::vector<std::size_t> taken(roots.size(), 0);
    for (std::size_t tree = 0; tree < trees_.size(); ++tree) {
      const std::size_t root = least[tree];
      result.trees[roots.size() * taken[root]++ + root] = treegen::rerooted(trees_[tree], roots[root]);
    }
    return result;
  }

 private:
  int depth(std::size_t tree, Rank root) const { return depths_[tree][at(root)]; }

  // One after the other, each the one that helps most.
  std::vector<Rank> choose(int count) const {
    std::vector<Rank> roots;
    std::vector<int> known(trees_.size(), ranks_);
    while (static_cast<int>(roots.size()) < count) {
      Rank best = -1;
      int least = std::numeric_limits<int>::max();
      for (Rank rank = 0; rank < ranks_; ++rank) {
        if (std::find(roots.begin(), roots.end(), rank) != roots.end()) continue;
        int sum = 0;
        for (std::size_t tree = 0; tree < trees_.size(); ++tree) sum += std::min(known[tree], depth(tree, rank));
        if (sum < least) {
          least = sum;
          best = rank;
        }
      }
      roots.push_back(best);
      for (std::size_t tree = 0; tree < trees_.size(); ++tree) known[tree] = std::min(known[tree], depth(tree, best));
    }
    return roots;
  }

  // Round the roots at first; trees change roots as long as that makes them shallower.
  std::vector<std::size_t> assign(const std::vector<Rank>& roots) const {
    std::vector<std::size_t> root_of(trees_.size());
    for (std::size_t tree = 0; tree < trees_.size(); ++tree) root_of[tree] = tree % roots.size();
    for (bool better = true; better;) {
      better = false;
      for (std::size_t a = 0; a < trees_.size(); ++a)
        for (std::size_t b = 0; b < a; ++b) {
          const Rank of_a = roots[root_of[a]];
          const Rank of_b = roots[root_of[b]];
          if (depth(a, of_b) + depth(b, of_a) >= depth(a, of_a) + depth(b, of_b)) continue;
          std::swap(root_of[a], root_of[b]);
          better = true;
        }
    }
    return root_of;
  }

  const std::vector<Tree>& trees_;
  int ranks_;
  std::vector<std::vector<int>> depths_;  // by tree, then rank: of the tree with this root
};

// A host's schedule of one collective: a chunk is a tree, and its owner the root. Ranks that are no roots own trees
// that no chunk of the cluster takes.
schedule::Schedule host_schedule(const topology::Topology& topology, const std::vector<Tree>& by_owner,
                                 Collective collective) {
  const bool sums = collective == Collective::reducescatter;
  const auto count = static_cast<int>(by_owner.size());
  std::vector<schedule::Send> sends;
  for (ChunkId chunk = 0; chunk < count; ++chunk) {
    treegen::Route route;
    (sums ? route.in : route.out) = by_owner[at(chunk)];
    treegen::add_sends(route, chunk, 0, sends);
  }
  schedule::Schedule made = schedule::make_schedule(std::string(kEvenTrees), collective, 0, topology,
                                                    sums ? count : count / topology.ranks, std::move(sends));
  made.pipelined = true;
  return made;
}

std::shared_ptr<const compose::HostKind> kind_of(const topology::Topology& topology, const Turns& turns) {
  auto between = planners::shortest(topology, Collective::alltoall, 0);
  if (!between) return nullptr;
  const std::size_t each = turns.trees.size() / turns.roots.size();
  std::vector<Tree> by_owner;
  for (std::size_t turn = 0; turn < each; ++turn)
    for (Rank rank = 0; rank < topology.ranks; ++rank) by_owner.push_back(treegen::rerooted(turns.trees[0], rank));
  for (std::size_t i = 0; i < turns.trees.size(); ++i)
    by_owner[i / turns.roots.size() * at(topology.ranks) + at(turns.trees[i].root)] = turns.trees[i];
  auto kind = std::make_shared<compose::HostKind>();
  kind->in = host_schedule(topology, by_owner, Collective::reducescatter);
  kind->out = host_schedule(topology, by_owner, Collective::allgather);
  kind->between = *std::move(between);
  kind->in_turns.resize(at(topology.ranks));
  for (ChunkId chunk = 0; chunk < static_cast<int>(by_owner.size()); ++chunk)
    kind->in_turns[at(chunk % topology.ranks)].push_back(chunk);
  kind->out_turns = kind->in_turns;
  return kind;
}

double simulated_us(const schedule::Simulator& simulator, int chunks, double chunk_bytes) {
  schedule::SimulationOptions options;
  options.bytes = chunk_bytes * chunks;
  options.slice_bytes = chunk_bytes;
  options.slots = schedule::kSlots;
  options.short_slots = options.network_slots = schedule::kShortSlots;
  options.lane_bytes = schedule::kLaneBytes;
  options.detail = schedule::Detail::totals;
  return simulator.run(options).time_us;
}

// The closed form goes through the times of short and of long chunks, and ends at that of tiny ones. Where it would
// then be less steep than the busiest link allows, short chunks wait for latencies: it goes through the time of long
// chunks alone, and ends at that of short ones.
compose::Cost fitted(const schedule::Schedule& schedule, const topology::Cluster& cluster, int frames) {
  compose::Cost cost;
  cost.frames = frames;
  const int chunks = schedule.chunks_per_rank;
  cost.chunk_per_byte = 1.0 / chunks;
  const schedule::Simulator simulator(schedule);
  // Sums of one root wait the more for one another the longer their chunks are.
  const bool waits_more = schedule.collective == Collective::reduce && schedule.ranks > kMostFlatRanks;
  std::vector<double> chunk_bytes{kLongChunk, kShortChunk, kTinyChunk};
  if (waits_more) chunk_bytes.push_back(kLongestChunk);
  std::vector<double> us(chunk_bytes.size());
  in_parallel(us.size(), planning_threads(),
              [&](std::size_t i, unsigned) { us[i] = simulated_us(simulator, chunks, chunk_bytes[i]); });
  const double long_us = us[0], short_us = us[1], tiny_us = us[2];
  const double steepness = (long_us - short_us) / ((kLongChunk - kShortChunk) * chunks);
  cost.host_us_per_byte = std::max(steepness, schedule::busiest_us_per_byte(schedule));
  if (waits_more) cost.host_us_per_byte = std::max(cost.host_us_per_byte, us.back() / (kLongestChunk * chunks));
  const double rest_us = long_us - cost.host_us_per_byte * kLongChunk * chunks;
  cost.least_us = steepness < cost.host_us_per_byte ? short_us : tiny_us;
  cost.on_host.steps = 1;
  cost.on_host.alpha_us = std::max(rest_us, 0.0);
  cost.on_host.connections = std::max(1, schedule.ranks - 1);
  std::vector<double> away(cluster.hosts.size(), 0);
  std::vector<double> within(cluster.hosts.size(), 0);
  for (const schedule::Send& send : schedule.sends) {
    const int host = cluster.host_of[at(send.src)];
    ++(host == cluster.host_of[at(send.dst)] ? within : away)[at(host)];
  }
  cost.messages_between_hosts = *std::max_element(away.begin(), away.end());
  cost.messages_on_host = *std::max_element(within.begin(), within.end());
  return cost;
}

// The ports are the roots of the trees, `trees` of all ranks together.
compose::Composite one_host(const std::shared_ptr<const topology::Topology>& topology, Collective collective,
                            std::shared_ptr<const compose::HostKind> kind, std::vector<Rank> roots, int trees,
                            int frames) {
  compose::Composite composite;
  composite.name = fmt::format("{}/{}x{}", kEvenTrees, trees, frames);
  composite.collective = collective;
  composite.topology = topology;
  composite.kinds = {std::move(kind)};
  compose::Host host;
  for (Rank rank = 0; rank < topology->ranks; ++rank) host.ranks.push_back(rank);
  host.ports = std::move(roots);
  if (collective == Collective::allreduce) host.near.assign(host.ranks.size(), {});
  composite.hosts = {std::move(host)};
  composite.chunks_per_rank = trees * frames / (collective == Collective::allgather ? topology->ranks : 1);
  composite.frames = frames;
  if (collective == Collective::allreduce) composite.frame_steps = kFrameSteps;
  return composite;
}

// In an order by time. False if there is none.
bool add_ordered(std::vector<CompositeCandidate>& result, const compose::Verified& known,
                 const topology::Cluster& cluster) {
  compose::Ordered ordered = compose::order_by_time(*known);
  if (ordered.order == nullptr) return false;
  result.push_back({compose::Verified(known, std::move(ordered.order)), fitted(ordered.flat, cluster, known->frames)});
  return true;
}

double least_busy_us_per_byte(const std::vector<CompositeCandidate>& candidates) {
  double least = std::numeric_limits<double>::infinity();
  for (const CompositeCandidate& one : candidates) least = std::min(least, one.cost.busy_us(1));
  return least;
}

// Mostly the links of one rank have to carry as much with any trees: these need not be found then.
bool cannot_be_below(double us_per_byte, const topology::Topology& topology, Collective collective) {
  constexpr double kRounded = 1 - 1e-9;
  return kRounded * treegen::least_busiest_us_per_byte(topology, collective) >= us_per_byte;
}

double busiest_us_per_byte(const topology::Topology& topology, const std::vector<Tree>& trees) {
  std::vector<schedule::Send> sends;
  for (std::size_t tree = 0; tree < trees.size(); ++tree)
    treegen::add_sends({trees[tree], trees[tree]}, static_cast<int>(tree), 0, sends);
  return schedule::busiest_us_per_byte(schedule::make_schedule(
      std::string(kEvenTrees), Collective::allreduce, 0, topology, static_cast<int>(trees.size()), std::move(sends)));
}

// Each rank's chunks in turn: of all ranks in the order of their numbers.
void take_turns(compose::HostKind& kind, int ranks) {
  for (const auto& [schedule, turns] : {std::pair(&kind.in, &kind.in_turns), std::pair(&kind.out, &kind.out_turns)}) {
    turns->resize(at(ranks));
    for (ChunkId chunk = 0; chunk < schedule->chunks; ++chunk) (*turns)[at(chunk % ranks)].push_back(chunk);
  }
}

// Of AllGather or ReduceScatter: `trees` of each rank, the first of each rank first. What the kind would do for the
// other one of them is not used.
std::shared_ptr<const compose::HostKind> kind_of(const topology::Topology& topology, const std::vector<Tree>& trees,
                                                 Collective collective) {
  const bool sums = collective == Collective::reducescatter;
  auto between = planners::shortest(topology, Collective::alltoall, 0);
  auto other = planners::shortest(topology, sums ? Collective::allgather : Collective::reducescatter, 0);
  if (!between || !other) return nullptr;
  auto kind = std::make_shared<compose::HostKind>();
  (sums ? kind->in : kind->out) = host_schedule(topology, trees, collective);
  (sums ? kind->out : kind->in) = *std::move(other);
  kind->between = *std::move(between);
  take_turns(*kind, topology.ranks);
  return kind;
}

std::span<const TreesOfBlocks> blocks_for(int ranks) {
  return ranks <= kFewRanks ? std::span<const TreesOfBlocks>(kBlocksOfFewRanks) : kBlocksOfSomeRanks;
}

void add_for_blocks(std::vector<CompositeCandidate>& result, const std::shared_ptr<const topology::Topology>& topology,
                    Collective collective, const topology::Cluster& cluster, compose::Verifier& verifier) {
  const int ranks = topology->ranks;
  const double least_us = kLessForBlocks * least_busy_us_per_byte(result);
  if (cannot_be_below(least_us, *topology, collective)) return;
  const bool sums = collective == Collective::reducescatter;
  const auto reading = sums ? treegen::Reading::sums : treegen::Reading::copies;
  std::vector<Rank> roots(at(ranks));
  std::iota(roots.begin(), roots.end(), 0);
  const auto add = [&](const TreesOfBlocks& wanted, treegen::Peers peers) {
    const int trees_of_rank = std::max(1, wanted.count / ranks);
    const std::vector<Tree> trees = treegen::even_trees_of_ranks(*topology, reading, trees_of_rank, peers);
    if (trees.empty()) return false;
    const double busiest_us = schedule::busiest_us_per_byte(host_schedule(*topology, trees, collective));
    auto kind = busiest_us < least_us ? kind_of(*topology, trees, collective) : nullptr;
    if (kind == nullptr) return false;
    const int count = trees_of_rank * ranks;
    const int frames = std::max(1, wanted.chunks / count);
    compose::Composite composite = one_host(topology, collective, std::move(kind), roots, count, frames);
    if (peers == treegen::Peers::any) composite.name += "-of-any-peers";
    if (!add_ordered(result, compose::Verified(std::move(composite), verifier), cluster)) return false;
    const compose::Cost& cost = result.back().cost;
    const double bytes = kLongChunk / cost.chunk_per_byte;
    return cost.time_us(bytes, kLongSlice) < kWaitsLittle * busiest_us * bytes;
  };
  for (const TreesOfBlocks& wanted : blocks_for(ranks))
    if (!add(wanted, treegen::Peers::few) && ranks <= kFewRanks) add(wanted, treegen::Peers::any);
}

std::span<const Trees> trees_for(int ranks) {
  return ranks <= kMostFlatRanks ? std::span<const Trees>(kOfSomeRanks) : kOfManyRanks;
}

void add_for_sums_and_copies(std::vector<CompositeCandidate>& result,
                             const std::shared_ptr<const topology::Topology>& topology,
                             const topology::Cluster& cluster, compose::Verifier& verifier) {
  const double least_us = kClearlyLess * least_busy_us_per_byte(result);
  if (cannot_be_below(least_us, *topology, Collective::allreduce)) return;
  for (const auto& [count, frames] : trees_for(topology->ranks)) {
    const std::vector<Tree> trees = treegen::even_trees(*topology, count);
    if (trees.empty()) return;
    const double busiest_us = busiest_us_per_byte(*topology, trees);
    if (busiest_us > kFarMore * least_us) return;
    if (busiest_us >= least_us) continue;
    Turns turns = SharedRoots(trees, topology->ranks).best();
    auto kind = kind_of(*topology, turns);
    if (kind == nullptr) return;
    const compose::Verified known(
        one_host(topology, Collective::allreduce, std::move(kind), std::move(turns.roots), count, frames), verifier);
    if (!add_ordered(result, known, cluster)) continue;
    // An eighth of a second for half as many trees gained nothing on 93 clusters of 33 to 64 ranks.
    if (topology->ranks > kMostFlatRanks) return;
  }
}

// The same undirected trees serve copies from all ranks, and sums to them.
std::vector<Tree> of_each_rank(const std::vector<Tree>& trees, int ranks, int each) {
  std::vector<Tree> result;
  for (int i = 0; i < each * ranks; ++i)
    result.push_back(treegen::rerooted(trees[at(i + i / ranks) % trees.size()], i % ranks));
  return result;
}

// Of Broadcast or Reduce: all that ranks do is what the root's host does.
compose::RootHost at_root(const topology::Topology& topology, Collective collective, Rank root,
                          const std::vector<Tree>& trees) {
  std::vector<schedule::Send> sends;
  for (std::size_t tree = 0; tree < trees.size(); ++tree) {
    treegen::Route route;
    (collective == Collective::reduce ? route.in : route.out) = treegen::rerooted(trees[tree], root);
    treegen::add_sends(route, static_cast<ChunkId>(tree), 0, sends);
  }
  schedule::Schedule made = schedule::make_schedule(std::string(kEvenTrees), collective, root, topology,
                                                    static_cast<int>(trees.size()), std::move(sends));
  made.pipelined = true;
  const schedule::Step split = collective == Collective::reduce ? 0 : made.steps;
  return {std::move(made), {}, {}, split};
}

double busiest_us(const compose::RootHost& host) { return schedule::busiest_us_per_byte(host.schedule); }

std::optional<compose::RootHost> even_at_root(const topology::Topology& topology, Collective collective, Rank root,
                                              int count) {
  const auto reading = collective == Collective::reduce ? treegen::Reading::sums : treegen::Reading::copies;
  const std::vector<Tree> trees = treegen::even_trees_of_root(topology, reading, root, count);
  if (trees.empty()) return std::nullopt;
  return at_root(topology, collective, root, trees);
}

std::shared_ptr<const compose::HostKind> plain_kind(const topology::Topology& topology) {
  auto in = planners::shortest(topology, Collective::reducescatter, 0);
  auto out = planners::shortest(topology, Collective::allgather, 0);
  auto between = planners::shortest(topology, Collective::alltoall, 0);
  if (!in || !out || !between) return nullptr;
  auto kind = std::make_shared<compose::HostKind>();
  kind->in = *std::move(in);
  kind->out = *std::move(out);
  kind->between = *std::move(between);
  take_turns(*kind, topology.ranks);
  return kind;
}

double us_per_byte_of_bound(const topology::Topology& topology, const topology::Cluster& cluster, Collective collective,
                            Rank root) {
  constexpr double kLong = 1e12;
  return compose::bounds(topology, cluster, collective, root, kLong).front().us / kLong;
}

// Of Broadcast or Reduce. False if there is no order.
bool add_ordered_at_root(std::vector<CompositeCandidate>& result,
                         const std::shared_ptr<const topology::Topology>& topology, Collective collective, Rank root,
                         const topology::Cluster& cluster, compose::Verifier& verifier, compose::RootHost host,
                         int frames) {
  auto kind = plain_kind(*topology);
  if (kind == nullptr) return false;
  const int count = host.schedule.chunks;
  compose::Composite composite = one_host(topology, collective, std::move(kind), {root}, count, frames);
  composite.root = root;
  composite.at_root = std::move(host);
  composite.root_turns.resize(at(count));
  std::iota(composite.root_turns.begin(), composite.root_turns.end(), 0);
  composite.frame_steps = kFrameSteps;
  return add_ordered(result, compose::Verified(std::move(composite), verifier), cluster);
}

// Of one root and few ranks: where what hosts pass as a whole takes long data a good part longer than the bound.
void add_for_one_root(std::vector<CompositeCandidate>& result,
                      const std::shared_ptr<const topology::Topology>& topology, Collective collective, Rank root,
                      const topology::Cluster& cluster, compose::Verifier& verifier) {
  double least_us = std::numeric_limits<double>::infinity();
  for (const CompositeCandidate& one : result)
    least_us = std::min(least_us, one.cost.time_us(kLongData, one.cost.good_slice(kLongData, kLongSlice)));
  const bool simulated = topology->ranks <= kMostFlatRanks;
  const double near = simulated ? kVeryNearBound : kNearBound;
  if (least_us < near * compose::bounds(*topology, cluster, collective, root, kLongData).front().us) return;
  std::optional<compose::RootHost> host = even_at_root(*topology, collective, root, kTreesOfOneRoot);
  const double wanted_us = (simulated ? 1 : kClearlyLess) * least_us;
  if (!host || kLongData * busiest_us(*host) >= wanted_us) return;
  const bool made =
      add_ordered_at_root(result, topology, collective, root, cluster, verifier, *std::move(host), kFramesOfOneRoot);
  // What they promise simulations have shown; levels may be faster than they promise.
  if (made && !simulated && result.back().cost.time_us(kLongData, kLongSlice) >= wanted_us) result.pop_back();
}

// Hosts as a whole pass slow links that ways from device to device avoid: between rails, or beside fast NICs.
void add_for_many(std::vector<CompositeCandidate>& result, const std::shared_ptr<const topology::Topology>& topology,
                  Collective collective, Rank root, const topology::Cluster& cluster, compose::Verifier& verifier) {
  const int ranks = topology->ranks;
  if (ranks > kMostRanksFarFromBound) return;
  const double least_us = least_busy_us_per_byte(result);
  if (least_us < kFarFromBound * us_per_byte_of_bound(*topology, cluster, collective, root)) return;
  const auto frames_for = [&](int sends) { return std::clamp(kMostSends / sends, 1, 16); };
  if (info(collective).rooted) {
    std::optional<compose::RootHost> host;
    for (const int count : {kTreesOfMany, 2 * kTreesOfMany})
      if (!host || (ranks <= kMostTwice && busiest_us(*host) >= kMuchLess * least_us))
        host = even_at_root(*topology, collective, root, count);
    if (!host || busiest_us(*host) >= kMuchLess * least_us) return;
    const int frames = frames_for(host->schedule.chunks * (ranks - 1));
    add_ordered_at_root(result, topology, collective, root, cluster, verifier, *std::move(host), frames);
    return;
  }
  const std::vector<Tree> trees = treegen::even_trees(*topology, kTreesOfMany);
  if (trees.empty()) return;
  if (collective == Collective::allreduce) {
    if (busiest_us_per_byte(*topology, trees) >= kMuchLess * least_us) return;
    Turns turns = SharedRoots(trees, ranks).best();
    auto kind = kind_of(*topology, turns);
    if (kind == nullptr) return;
    add_ordered(result,
                compose::Verified(one_host(topology, collective, std::move(kind), std::move(turns.roots), kTreesOfMany,
                                           frames_for(2 * kTreesOfMany * (ranks - 1))),
                                  verifier),
                cluster);
    return;
  }
  const int each = ranks * ranks * 4 < kMostSends ? 2 : 1;
  const std::vector<Tree> all = of_each_rank(trees, ranks, each);
  if (schedule::busiest_us_per_byte(host_schedule(*topology, all, collective)) >= kMuchLess * least_us) return;
  auto kind = kind_of(*topology, all, collective);
  if (kind == nullptr) return;
  std::vector<Rank> roots(at(ranks));
  std::iota(roots.begin(), roots.end(), 0);
  add_ordered(result,
              compose::Verified(one_host(topology, collective, std::move(kind), std::move(roots), each * ranks,
                                         std::min(kFramesOfBlocks, frames_for(each * ranks * (ranks - 1)))),
                                verifier),
              cluster);
}

// A Broadcast or Reduce whose chunks all take the same ways.
void go_from_root(compose::Composite& composite, schedule::Schedule ways, Rank root, int chunks) {
  ways.pipelined = true;
  composite.root = root;
  composite.chunks_per_rank = chunks;
  const schedule::Step split = composite.collective == Collective::reduce ? 0 : ways.steps;
  composite.at_root = compose::RootHost{std::move(ways), {}, {}, split};
  composite.root_turns = {0};
}

// One chain through all devices of all hosts, for Broadcast or Reduce. It enters a host at one device and leaves it at
// another, so that no link of a host with one NIC carries data twice in one direction.
void add_chain(std::vector<CompositeCandidate>& result, const std::shared_ptr<const topology::Topology>& topology,
               Collective collective, Rank root, const topology::Cluster& cluster, compose::Verifier& verifier) {
  const int ranks = topology->ranks;
  if (ranks <= kMostFlatRanks || ranks > kMostRanksOfChain) return;  // few ranks have it as a flat schedule
  auto chain = planners::ring(*topology, collective, root);
  if (!chain || schedule::busiest_us_per_byte(*chain) >= kClearlyLess * least_busy_us_per_byte(result)) return;
  auto kind = plain_kind(*topology);
  if (kind == nullptr) return;
  compose::Composite composite = one_host(topology, collective, std::move(kind), {root}, ranks, 1);
  composite.name = "levels/chain";
  go_from_root(composite, *std::move(chain), root, kChunksOfChain * ranks);
  compose::Verified known(std::move(composite), verifier);
  const compose::Cost cost = fitted(compose::expand(*known), cluster, 1);
  result.push_back({std::move(known), cost});
}

// Hosts without a rail that all of them have: data passes from network to network over hosts that have both.
void add_shortest_ways(std::vector<CompositeCandidate>& result,
                       const std::shared_ptr<const topology::Topology>& topology, Collective collective, Rank root,
                       const topology::Cluster& cluster, compose::Verifier& verifier) {
  const int ranks = topology->ranks;
  if (ranks > kMostRanksWithoutRail)
    fail(ErrorCode::invalid_argument,
         "topology '{}': no network reaches a NIC of each of its {} hosts, and of more than {} ranks none is planned "
         "without one: add links between switches",
         topology->name, cluster.hosts.size(), kMostRanksWithoutRail);
  auto kind = plain_kind(*topology);
  if (kind == nullptr)
    fail(ErrorCode::invalid_argument, "topology '{}': some rank cannot reach another: add links", topology->name);
  std::vector<Rank> ports(at(ranks));
  std::iota(ports.begin(), ports.end(), 0);
  compose::Composite composite = one_host(topology, collective, std::move(kind), std::move(ports), ranks, 1);
  composite.name = "levels/shortest";
  if (info(collective).rooted) composite.root = root;
  if (collective == Collective::gather) composite.chunks_per_rank = 1;
  if (passes_whole(collective)) go_from_root(composite, *planners::shortest(*topology, collective, root), root, 1);
  compose::Verified known(std::move(composite), verifier);
  const compose::Cost cost = fitted(compose::expand(*known), cluster, 1);
  result.push_back({std::move(known), cost});
}

}  // namespace

void add_even_trees(std::vector<CompositeCandidate>& result, const std::shared_ptr<const topology::Topology>& topology,
                    Collective collective, Rank root, const topology::Cluster& cluster, compose::Verifier& verifier) {
  if (result.empty()) add_shortest_ways(result, topology, collective, root, cluster, verifier);
  const bool sums_and_copies = collective == Collective::allreduce;
  const bool blocks = collective == Collective::allgather || collective == Collective::reducescatter;
  const bool whole = passes_whole(collective);
  const bool many = topology->ranks > kMostEvenTreeRanks;
  const auto unless_refused = [](const auto& add) {
    try {
      add();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;  // links that the simulator refuses
    }
  };
  if (whole) unless_refused([&] { add_chain(result, topology, collective, root, cluster, verifier); });
  unless_refused([&] {
    if (whole && !many)
      add_for_one_root(result, topology, collective, root, cluster, verifier);
    else if (many && (whole || sums_and_copies || blocks))
      add_for_many(result, topology, collective, root, cluster, verifier);
    else if (sums_and_copies)
      add_for_sums_and_copies(result, topology, cluster, verifier);
    else if (blocks)
      add_for_blocks(result, topology, collective, cluster, verifier);
  });
}

}  // namespace sccl::portfolio
