#include "planners/cycle.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "topology/graph/routes.h"

namespace sccl::planners {
namespace {

constexpr int kMostSteps = 200000;  // of one search: a few milliseconds
constexpr int kSearchedRanks = 64;  // with more ranks, only the natural order is tried

// By source and destination rank: the lanes of the narrowest edge on the path; 0 where no path exists.
class Widths {
 public:
  explicit Widths(const topology::Topology& topology)
      : ranks_(topology.ranks), widths_(static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(ranks_), 0) {
    const auto lanes = topology::edge_lanes(topology);
    topology::Routes routes(topology);
    for (Rank src = 0; src < ranks_; ++src)
      for (Rank dst = 0; dst < ranks_; ++dst) {
        int width = std::numeric_limits<int>::max();
        const auto path = routes.path(src, dst);
        for (const topology::Edge& edge : path) width = std::min(width, lanes.at(edge));
        if (!path.empty()) widths_[index(src, dst)] = width;
      }
  }

  int ranks() const { return ranks_; }
  int operator()(Rank src, Rank dst) const { return widths_[index(src, dst)]; }
  // Ascending, each once.
  std::vector<int> values() const {
    const std::set<int> distinct(widths_.begin(), widths_.end());
    return {distinct.begin(), distinct.end()};
  }

 private:
  std::size_t index(Rank src, Rank dst) const {
    return static_cast<std::size_t>(src) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(dst);
  }
  int ranks_;
  std::vector<int> widths_;
};

// Depth-first search over paths of at least `least` lanes. Ranks with the fewest onward paths come first (Warnsdorff).
class TourSearch {
 public:
  TourSearch(const Widths& widths, int least) : widths_(widths), least_(least) {}

  std::optional<std::vector<Rank>> run() {
    tour_ = {0};
    visited_.assign(static_cast<std::size_t>(widths_.ranks()), false);
    visited_[0] = true;
    if (!joined() || !extend()) return std::nullopt;
    return tour_;
  }

 private:
  bool leads(Rank from, Rank to) const { return widths_(from, to) >= least_; }

  // Whether rank 0 reaches every rank, and every rank reaches rank 0. Where they do not, the search would go through
  // all its steps in vain.
  bool joined() const {
    return reaches_all([&](Rank from, Rank to) { return leads(from, to); }) &&
           reaches_all([&](Rank from, Rank to) { return leads(to, from); });
  }

  template <typename Leads>
  bool reaches_all(Leads&& leads) const {
    std::vector<bool> reached(visited_.size(), false);
    reached[0] = true;
    std::vector<Rank> found{0};
    for (std::size_t at = 0; at < found.size(); ++at)
      for (Rank to = 0; to < widths_.ranks(); ++to) {
        if (reached[static_cast<std::size_t>(to)] || !leads(found[at], to)) continue;
        reached[static_cast<std::size_t>(to)] = true;
        found.push_back(to);
      }
    return found.size() == visited_.size();
  }

  int ways_onward(Rank from) const {
    int ways = 0;
    for (Rank to = 0; to < widths_.ranks(); ++to)
      if (!visited_[static_cast<std::size_t>(to)] && leads(from, to)) ++ways;
    return ways;
  }

  bool extend() {
    if (++steps_ > kMostSteps) return false;
    const Rank at = tour_.back();
    if (static_cast<int>(tour_.size()) == widths_.ranks()) return leads(at, 0);
    std::vector<std::pair<int, Rank>> next;
    for (Rank to = 0; to < widths_.ranks(); ++to)
      if (!visited_[static_cast<std::size_t>(to)] && leads(at, to)) next.emplace_back(ways_onward(to), to);
    std::sort(next.begin(), next.end());
    for (const auto& [ways, to] : next) {
      tour_.push_back(to);
      visited_[static_cast<std::size_t>(to)] = true;
      if (extend()) return true;
      visited_[static_cast<std::size_t>(to)] = false;
      tour_.pop_back();
    }
    return false;
  }

  const Widths& widths_;
  int least_;
  int steps_ = 0;
  std::vector<Rank> tour_;
  std::vector<bool> visited_;
};

std::vector<Rank> natural_order(int ranks) {
  std::vector<Rank> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

int narrowest(const Widths& widths, const std::vector<Rank>& tour) {
  int least = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < tour.size(); ++i) least = std::min(least, widths(tour[i], tour[(i + 1) % tour.size()]));
  return least;
}

bool natural_order_exists(const topology::Topology& topology) {
  topology::Routes routes(topology);
  for (Rank rank = 0; rank < topology.ranks; ++rank)
    if (!routes.connected(rank, (rank + 1) % topology.ranks)) return false;
  return true;
}

}  // namespace

Cycle::Cycle(std::vector<Rank> order) : order_(std::move(order)), place_(order_.size()) {
  for (std::size_t i = 0; i < order_.size(); ++i) place_[static_cast<std::size_t>(order_[i])] = static_cast<int>(i);
}

std::optional<Cycle> Cycle::find(const topology::Topology& topology) {
  if (topology.ranks == 1) return Cycle({0});
  if (topology.ranks > kSearchedRanks) {
    if (!natural_order_exists(topology)) return std::nullopt;
    return Cycle(natural_order(topology.ranks));
  }
  const Widths widths(topology);
  const std::vector<Rank> natural = natural_order(topology.ranks);
  const std::vector<int> values = widths.values();
  for (auto least = values.rbegin(); least != values.rend() && *least > 0; ++least) {
    if (narrowest(widths, natural) >= *least) return Cycle(natural);
    if (auto tour = TourSearch(widths, *least).run()) return Cycle(*std::move(tour));
  }
  return std::nullopt;
}

}  // namespace sccl::planners
