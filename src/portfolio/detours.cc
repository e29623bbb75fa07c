#include "portfolio/detours.h"

#include <utility>
#include <vector>

#include "portfolio/ways.h"

namespace sccl::portfolio {
namespace {

constexpr int kMostRanks = 16;
constexpr int kPieces = 8;
constexpr int kMostSweeps = 20;
constexpr double kBetter = 0.98;
constexpr double kLess = 1 - 1e-9;

class Detours {
 public:
  explicit Detours(const topology::Topology& links) : ranks_(links.ranks), ways_(links), uses_(ways_) {}

  // False if a device is not reached.
  bool go_directly() {
    for (int piece = 0; piece < kPieces; ++piece)
      for (Rank to = 0; to < ranks_; ++to)
        for (Rank from = 0; from < ranks_; ++from) {
          if (from == to) continue;
          if (ways_.between(from, to).empty()) return false;
          uses_.add(ways_.between(from, to), 1);
          parts_.push_back({(piece * ranks_ + to) * ranks_ + from, from, to, to});
        }
    return true;
  }

  double busiest() const { return uses_.busiest(); }

  void relieve() {
    uses_.set_unit();
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      bool moved = false;
      for (Part& part : parts_) moved = move(part) || moved;
      if (!moved) return;
    }
  }

  std::vector<schedule::Send> sends() const {
    std::vector<schedule::Send> result;
    for (const Part& part : parts_) {
      result.push_back({part.chunk, part.from, part.over, 0, schedule::SendKind::copy});
      if (part.over != part.to) result.push_back({part.chunk, part.over, part.to, 1, schedule::SendKind::copy});
    }
    return result;
  }

 private:
  struct Part {
    schedule::ChunkId chunk;
    Rank from, to;
    Rank over;  // `to`: directly
  };

  void use(const Part& part, double more) {
    uses_.add(ways_.between(part.from, part.over), more);
    if (part.over != part.to) uses_.add(ways_.between(part.over, part.to), more);
  }

  // Both halves of a detour may pass one link; then the second counts after the first.
  double weight(Part part, Rank over) {
    part.over = over;
    double sum = uses_.weight_with(ways_.between(part.from, over));
    if (over == part.to) return sum;
    uses_.add(ways_.between(part.from, over), 1);
    sum += uses_.weight_with(ways_.between(over, part.to));
    uses_.add(ways_.between(part.from, over), -1);
    return sum;
  }

  bool move(Part& part) {
    use(part, -1);
    Rank best = part.over;
    double least = weight(part, best) * kLess;
    for (Rank over = 0; over < ranks_; ++over) {
      if (over == part.from || ways_.between(part.from, over).empty()) continue;
      if (over != part.to && ways_.between(over, part.to).empty()) continue;
      if (const double here = weight(part, over); here < least) {
        best = over;
        least = here;
      }
    }
    const bool moved = best != part.over;
    part.over = best;
    use(part, 1);
    return moved;
  }

  int ranks_;
  Ways ways_;
  Uses uses_;
  std::vector<Part> parts_;
};

}  // namespace

std::optional<schedule::Schedule> detours(const topology::Topology& links, Collective collective) {
  if (collective != Collective::alltoall || links.ranks < 3 || links.ranks > kMostRanks) return std::nullopt;
  Detours found(links);
  if (!found.go_directly()) return std::nullopt;
  const double direct = found.busiest();
  found.relieve();
  if (found.busiest() > kBetter * direct) return std::nullopt;
  schedule::Schedule made =
      schedule::make_schedule("detours", collective, 0, links, links.ranks * kPieces, found.sends());
  made.pipelined = true;
  return made;
}

}  // namespace sccl::portfolio
