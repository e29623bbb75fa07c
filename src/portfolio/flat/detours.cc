#include "portfolio/flat/detours.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "portfolio/links/ways.h"

namespace sccl::portfolio {
namespace {

constexpr int kMostRanks = 16;
constexpr int kAlltoallPieces = 8;
constexpr int kRootedPieces = 16;
constexpr int kMostSweeps = 20;
constexpr double kBetter = 0.98;
constexpr double kLess = 1 - 1e-9;
// One more device on a way counts as this part of one more use of the busiest link, so that ways stay short where links
// have room.
constexpr double kDeviceWeight = 1e-3;

// Pieces of blocks and their ways. One piece after another moves to a better way, as long as the sum of high powers of
// how busy the links are (Uses) gets less.
class Detours {
 public:
  explicit Detours(const topology::Topology& links) : ranks_(links.ranks), ways_(links), uses_(ways_) {
    weights_.resize(static_cast<std::size_t>(ways_.count()));
  }

  // A piece on a way over as few devices as possible. False if no way leads there.
  bool add(schedule::ChunkId chunk, Rank from, Rank to) {
    if (from == to) return true;
    std::vector<Rank> way = best_way(from, to, Count::devices);
    if (way.empty()) return false;
    parts_.push_back({chunk, std::move(way)});
    use(parts_.back(), 1);
    return true;
  }

  double busiest() const { return uses_.busiest(); }

  void relieve() {
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      uses_.set_unit();
      for (int resource = 0; resource < ways_.count(); ++resource) weigh(resource);
      bool moved = false;
      for (Part& part : parts_) moved = move(part) || moved;
      if (!moved) return;
    }
  }

  std::vector<schedule::Send> sends() const {
    std::vector<schedule::Send> result;
    for (const Part& part : parts_)
      for (std::size_t at = 1; at < part.way.size(); ++at)
        result.push_back({part.chunk, part.way[at - 1], part.way[at], static_cast<schedule::Step>(at - 1),
                          schedule::SendKind::copy});
    return result;
  }

 private:
  struct Part {
    schedule::ChunkId chunk;
    std::vector<Rank> way;  // from the block's owner to its target
  };
  enum class Count : std::uint8_t { devices, weights };

  const std::vector<int>& link(const Part& part, std::size_t at) const {
    return ways_.between(part.way[at - 1], part.way[at]);
  }

  void use(const Part& part, double more) {
    for (std::size_t at = 1; at < part.way.size(); ++at) {
      uses_.add(link(part, at), more);
      for (const int resource : link(part, at)) weigh(resource);
    }
  }

  void weigh(int resource) { weights_[static_cast<std::size_t>(resource)] = uses_.weight(resource); }

  double weight(Rank from, Rank to) const {
    double sum = uses_.weight_at_busiest() * kDeviceWeight;
    for (const int resource : ways_.between(from, to)) sum += weights_[static_cast<std::size_t>(resource)];
    return sum;
  }

  double weight(const Part& part) const {
    double sum = 0;
    for (std::size_t at = 1; at < part.way.size(); ++at) sum += weight(part.way[at - 1], part.way[at]);
    return sum;
  }

  // Dijkstra's search; empty if `to` is out of reach. Among equal ways the lowest ranks win.
  std::vector<Rank> best_way(Rank from, Rank to, Count count) const {
    constexpr double kFar = std::numeric_limits<double>::infinity();
    const auto ranks = static_cast<std::size_t>(ranks_);
    std::vector<double> distance(ranks, kFar);
    std::vector<Rank> before(ranks, -1);
    std::vector<bool> done(ranks, false);
    distance[static_cast<std::size_t>(from)] = 0;
    while (!done[static_cast<std::size_t>(to)]) {
      Rank at = -1;
      for (Rank rank = 0; rank < ranks_; ++rank)
        if (const auto place = static_cast<std::size_t>(rank);
            !done[place] && distance[place] < (at < 0 ? kFar : distance[static_cast<std::size_t>(at)]))
          at = rank;
      if (at < 0) return {};
      done[static_cast<std::size_t>(at)] = true;
      for (Rank next = 0; next < ranks_; ++next) {
        const auto place = static_cast<std::size_t>(next);
        if (done[place] || ways_.between(at, next).empty()) continue;
        const double step = count == Count::devices ? 1 : weight(at, next);
        const double there = distance[static_cast<std::size_t>(at)] + step;
        if (there >= distance[place]) continue;
        distance[place] = there;
        before[place] = at;
      }
    }
    std::vector<Rank> way{to};
    while (way.back() != from) way.push_back(before[static_cast<std::size_t>(way.back())]);
    std::reverse(way.begin(), way.end());
    return way;
  }

  bool move(Part& part) {
    use(part, -1);
    std::vector<Rank> best = best_way(part.way.front(), part.way.back(), Count::weights);
    const bool moves = best != part.way && weight({part.chunk, best}) < weight(part) * kLess;
    if (moves) part.way = std::move(best);
    use(part, 1);
    return moves;
  }

  int ranks_;
  Ways ways_;
  Uses uses_;
  std::vector<double> weights_;  // by resource: Uses::weight()
  std::vector<Part> parts_;
};

// All pieces on shortest ways. False if a device is not reached.
bool add_pieces(Detours& detours, Collective collective, int ranks, Rank root) {
  const int pieces = collective == Collective::alltoall ? kAlltoallPieces : kRootedPieces;
  const int targets = collective == Collective::alltoall ? ranks : 1;
  for (schedule::ChunkId chunk = 0; chunk < pieces * targets * ranks; ++chunk) {
    const schedule::ChunkEnds ends = schedule::ends(collective, ranks, root, chunk);
    if (!detours.add(chunk, ends.source, ends.sink)) return false;
  }
  return true;
}

int chunks_per_rank(Collective collective, int ranks) {
  if (collective == Collective::alltoall) return ranks * kAlltoallPieces;
  return collective == Collective::gather ? kRootedPieces : ranks * kRootedPieces;
}

}  // namespace

std::optional<schedule::Schedule> detours(const topology::Topology& links, Collective collective, Rank root) {
  const bool serves =
      collective == Collective::alltoall || collective == Collective::gather || collective == Collective::scatter;
  if (!serves || links.ranks < 3 || links.ranks > kMostRanks) return std::nullopt;
  Detours found(links);
  if (!add_pieces(found, collective, links.ranks, root)) return std::nullopt;
  const double shortest = found.busiest();
  found.relieve();
  if (found.busiest() > kBetter * shortest) return std::nullopt;
  schedule::Schedule made = schedule::make_schedule("detours", collective, root, links,
                                                    chunks_per_rank(collective, links.ranks), found.sends());
  made.pipelined = true;
  return made;
}

}  // namespace sccl::portfolio
