#include "treegen/graph/links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"

namespace sccl::treegen {
namespace {

// On mixed machines lanes have different rates (NVLink 25 GB/s, PCIe 13): the unit is a hundredth of the slowest kind's
// rate.
constexpr Amount kHundredths = 100;

std::map<Edge, Amount> amounts(const Topology& topology, CapacityUnit unit) {
  std::map<Edge, Amount> result;
  if (unit == CapacityUnit::lanes) {
    for (const auto& [edge, lanes] : topology::edge_lanes(topology)) result[edge] = lanes;
    return result;
  }
  double slowest = 0;
  for (const topology::Link& link : topology.links) {
    const double lane = link.gbytes_per_s / link.lanes;
    if (!(lane > 0))
      fail(ErrorCode::invalid_argument, "topology '{}': link {}->{} has no bandwidth: give gbytes_per_s or pack lanes",
           topology.name, link.src, link.dst);
    slowest = slowest == 0 ? lane : std::min(slowest, lane);
  }
  for (const topology::Link& link : topology.links)
    result[{link.src, link.dst}] += std::llround(link.gbytes_per_s / slowest * static_cast<double>(kHundredths));
  return result;
}

std::vector<Use> counted(const std::map<int, int>& times) {
  std::vector<Use> uses;
  for (const auto& [capacity, count] : times) uses.push_back({capacity, count});
  return uses;
}

Edge turned(const Edge& edge) { return {edge.second, edge.first}; }

}  // namespace

std::vector<int> depth_by_rank(const Tree& tree) {
  std::vector<int> depths;
  for (Rank rank = 0; rank < static_cast<Rank>(tree.parent.size()); ++rank) {
    int depth = 0;
    for (Rank at = rank; tree.parent[static_cast<std::size_t>(at)] >= 0; at = tree.parent[static_cast<std::size_t>(at)])
      ++depth;
    depths.push_back(depth);
  }
  return depths;
}

int depth(const Tree& tree) {
  const auto depths = depth_by_rank(tree);
  return *std::max_element(depths.begin(), depths.end());
}

Tree rerooted(const Tree& tree, Rank root) {
  Tree result = tree;
  result.root = root;
  Rank child = -1;
  for (Rank at = root; at >= 0;) {
    const Rank parent = tree.parent[static_cast<std::size_t>(at)];
    result.parent[static_cast<std::size_t>(at)] = child;
    child = at;
    at = parent;
  }
  return result;
}

Tree rerooted_at_centre(const Tree& tree) {
  Tree best = tree;
  for (Rank root = 0; root < static_cast<Rank>(tree.parent.size()); ++root)
    if (Tree other = rerooted(tree, root); depth(other) < depth(best)) best = std::move(other);
  return best;
}

Links::Links(const Topology& topology, CapacityUnit unit)
    : name_(topology.name), devices_(topology.devices), ranks_(topology.ranks), nodes_(topology.nodes()) {
  topology::validate(topology);
  const Amount units = unit == CapacityUnit::lanes ? 1 : kHundredths;
  units_per_lane_ = units;
  for (const auto& [edge, amount] : amounts(topology, unit)) {
    edges_.push_back(edge);
    capacities_.push_back({amount, {edge}});
  }
  for (const topology::SharedSet& set : topology.shared) {
    std::vector<Edge> members(set.links.begin(), set.links.end());
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    capacities_.push_back({set.lanes * units, std::move(members)});
  }
  if (unit == CapacityUnit::gbytes_per_s) choose_largest_unit();
  add_hops(topology);
}

// Larger units leave fewer weights to choose from.
void Links::choose_largest_unit() {
  Amount common = 0;
  for (const Capacity& capacity : capacities_) common = std::gcd(common, capacity.amount);
  if (common <= 1) return;
  for (Capacity& capacity : capacities_) capacity.amount /= common;
  units_per_lane_ /= common;
}

void Links::add_hops(const Topology& topology) {
  std::map<Edge, std::vector<int>> capacities_of;
  for (std::size_t index = 0; index < capacities_.size(); ++index)
    for (const Edge& edge : capacities_[index].edges) capacities_of[edge].push_back(static_cast<int>(index));
  topology::Routes routes(topology);
  hop_of_.assign(static_cast<std::size_t>(ranks_ * ranks_), -1);
  for (Rank src = 0; src < ranks_; ++src)
    for (Rank dst = 0; dst < ranks_; ++dst) {
      std::map<int, int> times;
      for (const Edge& edge : routes.path(src, dst))
        for (const int capacity : capacities_of[edge]) ++times[capacity];
      if (times.empty()) continue;
      hop_of_[static_cast<std::size_t>(src * ranks_ + dst)] = static_cast<int>(hops_.size());
      hops_.push_back({src, dst, counted(times)});
    }
}

Links Links::reversed() const {
  Links result = *this;
  for (Edge& edge : result.edges_) edge = turned(edge);
  for (Capacity& capacity : result.capacities_) {
    for (Edge& edge : capacity.edges) edge = turned(edge);
    std::sort(capacity.edges.begin(), capacity.edges.end());
  }
  std::fill(result.hop_of_.begin(), result.hop_of_.end(), -1);
  for (std::size_t index = 0; index < result.hops_.size(); ++index) {
    Hop& hop = result.hops_[index];
    std::swap(hop.src, hop.dst);
    result.hop_of_[static_cast<std::size_t>(hop.src * ranks_ + hop.dst)] = static_cast<int>(index);
  }
  result.direction_ = direction_ == Direction::forward ? Direction::reversed : Direction::forward;
  return result;
}

bool Links::symmetric() const {
  std::map<std::vector<Edge>, int> index_of;
  for (std::size_t index = 0; index < capacities_.size(); ++index)
    index_of.emplace(capacities_[index].edges, static_cast<int>(index));
  std::vector<int> opposite;  // the capacity of the reversed edges
  for (const Capacity& capacity : capacities_) {
    std::vector<Edge> back;
    for (const Edge& edge : capacity.edges) back.push_back(turned(edge));
    std::sort(back.begin(), back.end());
    const auto found = index_of.find(back);
    if (found == index_of.end() || capacities_[static_cast<std::size_t>(found->second)].amount != capacity.amount)
      return false;
    opposite.push_back(found->second);
  }
  return std::all_of(hops_.begin(), hops_.end(), [&](const Hop& there) {
    const int back = hop(there.dst, there.src);
    if (back < 0) return false;
    std::map<int, int> turned_uses;
    for (const Use& use : there.uses) turned_uses[opposite[static_cast<std::size_t>(use.capacity)]] += use.times;
    return counted(turned_uses) == hops_[static_cast<std::size_t>(back)].uses;
  });
}

std::vector<Use> Links::uses(const Tree& tree) const {
  std::map<int, int> times;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    const Rank parent = tree.parent[static_cast<std::size_t>(rank)];
    if (parent < 0) continue;
    for (const Use& use : hops_[static_cast<std::size_t>(hop(parent, rank))].uses) times[use.capacity] += use.times;
  }
  return counted(times);
}

void Links::require_reachable(Rank root) const {
  if (root < 0 || root >= ranks_)
    fail(ErrorCode::invalid_argument, "root {} is not one of the ranks 0..{} of topology '{}'", root, ranks_ - 1,
         name_);
  std::vector<bool> reached(static_cast<std::size_t>(ranks_), false);
  std::vector<Rank> waiting{root};
  reached[static_cast<std::size_t>(root)] = true;
  while (!waiting.empty()) {
    const Rank at = waiting.back();
    waiting.pop_back();
    for (Rank next = 0; next < ranks_; ++next) {
      if (reached[static_cast<std::size_t>(next)] || hop(at, next) < 0) continue;
      reached[static_cast<std::size_t>(next)] = true;
      waiting.push_back(next);
    }
  }
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < ranks_; ++rank)
    if (!reached[static_cast<std::size_t>(rank)]) missing.push_back(rank);
  if (missing.empty()) return;
  const bool forward = direction_ == Direction::forward;
  fail(ErrorCode::invalid_argument, "topology '{}': no path leads {} rank {} {} {}: add links or leave those out",
       name_, forward ? "from" : "to", list({root}), forward ? "to" : "from", list(missing));
}

std::string Links::list(const std::vector<Rank>& ranks) const {
  std::string text;
  for (const Rank rank : ranks) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", rank);
    if (!devices_.empty()) text += fmt::format(" (device {})", devices_[static_cast<std::size_t>(rank)]);
  }
  return text;
}

std::vector<Use> merged(std::vector<Use> a, std::span<const Use> b) {
  std::map<int, int> times;
  for (const Use& use : a) times[use.capacity] += use.times;
  for (const Use& use : b) times[use.capacity] += use.times;
  return counted(times);
}

}  // namespace sccl::treegen
