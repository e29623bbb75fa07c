#include "treegen/schedules/to_schedule.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"

namespace sccl::treegen {
namespace {

using schedule::Schedule;
using schedule::Send;
using schedule::SendKind;

// More chunks than these cost more in operations than they bring in evenness.
constexpr std::int64_t kMostEqualChunks = 48;

// A piece of the buffer, or of one rank's block, and the route it takes.
struct Piece {
  const Route* route = nullptr;
  Rational share;  // of the buffer or block
};

std::vector<Rational> shares_of(const std::vector<WeightedRoute>& routes) {
  Rational sum(0);
  for (const WeightedRoute& route : routes) sum += route.weight;
  std::vector<Rational> shares;
  for (const WeightedRoute& route : routes) shares.push_back(route.weight / sum);
  return shares;
}

std::int64_t common_denominator(const std::vector<Rational>& shares) {
  std::int64_t common = 1;
  for (const Rational& share : shares) common = std::min<std::int64_t>(std::lcm(common, share.denominator()), 1 << 30);
  return common;
}

std::vector<Piece> equal_pieces(const std::vector<WeightedRoute>& routes, std::int64_t pieces) {
  std::vector<Amount> turns;
  for (const Rational& share : shares_of(routes)) turns.push_back((share * pieces).numerator());
  std::vector<Piece> result;
  for (const int index : take_turns(turns))
    result.push_back({&routes[static_cast<std::size_t>(index)].route, Rational(1, pieces)});
  return result;
}

// One piece a route; the largest pieces are halved until there are `pieces`.
std::vector<Piece> weighted_pieces(const std::vector<WeightedRoute>& routes, std::size_t pieces) {
  std::vector<Piece> result;
  const auto shares = shares_of(routes);
  for (std::size_t index = 0; index < routes.size(); ++index) result.push_back({&routes[index].route, shares[index]});
  while (result.size() < pieces) {
    auto largest = std::max_element(result.begin(), result.end(),
                                    [](const Piece& a, const Piece& b) { return a.share < b.share; });
    largest->share /= 2;
    result.push_back(*largest);
  }
  return result;
}

// Blocks' routes: one block where the buffer has no owners, else one by rank.
std::vector<std::vector<WeightedRoute>> by_block(const Packing& packing, int ranks) {
  const bool owned = packing.collective == Collective::allgather || packing.collective == Collective::reducescatter;
  std::vector<std::vector<WeightedRoute>> blocks(static_cast<std::size_t>(owned ? ranks : 1));
  for (const WeightedRoute& route : packing.routes)
    blocks[static_cast<std::size_t>(owned ? route.route.root() : 0)].push_back(route);
  return blocks;
}

}  // namespace

std::vector<int> take_turns(const std::vector<Amount>& shares) {
  const Amount turns = std::accumulate(shares.begin(), shares.end(), Amount{0});
  std::vector<Amount> credit(shares.size(), 0);
  std::vector<int> order;
  for (Amount turn = 0; turn < turns; ++turn) {
    for (std::size_t index = 0; index < shares.size(); ++index) credit[index] += shares[index];
    const auto next = std::max_element(credit.begin(), credit.end());
    *next -= turns;
    order.push_back(static_cast<int>(next - credit.begin()));
  }
  return order;
}

schedule::Step add_sends(const Route& route, schedule::ChunkId chunk, schedule::Step first_step,
                         std::vector<Send>& sends) {
  schedule::Step step = first_step;
  if (route.reduces()) {
    // All children of a node arrive in one step, so that one operation reduces them.
    const auto depths = depth_by_rank(route.in);
    const int height = *std::max_element(depths.begin(), depths.end());
    for (Rank rank = 0; rank < static_cast<Rank>(depths.size()); ++rank)
      if (rank != route.in.root)
        sends.push_back({chunk, rank, route.in.parent[static_cast<std::size_t>(rank)],
                         step + height - depths[static_cast<std::size_t>(rank)], SendKind::reduce});
    step += height;
  }
  if (route.copies()) {
    const auto depths = depth_by_rank(route.out);
    for (Rank rank = 0; rank < static_cast<Rank>(depths.size()); ++rank)
      if (rank != route.out.root)
        sends.push_back({chunk, route.out.parent[static_cast<std::size_t>(rank)], rank,
                         step + depths[static_cast<std::size_t>(rank)] - 1, SendKind::copy});
    step += *std::max_element(depths.begin(), depths.end());
  }
  return step;
}

Schedule to_schedule(const Topology& topology, const Packing& packing) {
  const auto blocks = by_block(packing, topology.ranks);
  std::int64_t common = 1;
  std::size_t most_routes = 0;
  for (const auto& block : blocks) {
    common = std::min<std::int64_t>(std::lcm(common, common_denominator(shares_of(block))), 1 << 30);
    most_routes = std::max(most_routes, block.size());
  }
  const bool equal = common <= kMostEqualChunks;
  const int owners = static_cast<int>(blocks.size());
  const int pieces = equal ? static_cast<int>(common) : static_cast<int>(most_routes);
  std::vector<Send> sends;
  std::vector<double> weights(static_cast<std::size_t>(pieces * owners), 0);
  for (int owner = 0; owner < owners; ++owner) {
    const auto& block = blocks[static_cast<std::size_t>(owner)];
    const auto cut = equal ? equal_pieces(block, common) : weighted_pieces(block, most_routes);
    for (int piece = 0; piece < pieces; ++piece) {
      const schedule::ChunkId chunk = piece * owners + owner;
      add_sends(*cut[static_cast<std::size_t>(piece)].route, chunk, 0, sends);
      weights[static_cast<std::size_t>(chunk)] = to_double(cut[static_cast<std::size_t>(piece)].share);
    }
  }
  const int per_rank = packing.collective == Collective::reducescatter ? pieces * owners : pieces;
  Schedule schedule =
      schedule::make_schedule("trees", packing.collective, packing.root, topology, per_rank, std::move(sends));
  schedule.pipelined = true;
  if (!equal) schedule.weights = std::move(weights);
  return schedule;
}

std::optional<Schedule> plan(const Topology& topology, Collective collective, Rank root, const PackOptions& options) {
  const bool packed = collective == Collective::broadcast || collective == Collective::reduce ||
                      collective == Collective::allreduce || collective == Collective::allgather ||
                      collective == Collective::reducescatter;
  if (!packed || topology.ranks < 2) return std::nullopt;
  PackOptions as_needed = options;
  as_needed.least_number = LeastNumber::where_it_helps;  // a schedule does not tell how few trees there may be
  try {
    return to_schedule(topology, pack(topology, collective, root, as_needed));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    return std::nullopt;  // not connected
  }
}

}  // namespace sccl::treegen
