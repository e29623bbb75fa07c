#include "planners/planners.h"

#include <algorithm>
#include <array>

namespace sccl::planners {
namespace {

// Everything to everyone costs the square of the ranks (two exchange all they have at any size); a ring its length.
constexpr std::size_t kMostAllPairsBytes = 128 * 1024;
constexpr std::size_t kLeastRingBytes = 16 * 1024;

constexpr int whole(Collective, int) { return 1; }
constexpr bool always(std::size_t, int) { return true; }

constexpr std::array<Planner, 7> kPlanners{{
    {"ring", ring, "chunks travel along a cycle of all ranks; least bandwidth, most steps", Family::ring,
     [](Collective collective, int ranks) { return collective == Collective::allreduce ? ranks : 1; },
     [](std::size_t bytes, int) { return bytes >= kLeastRingBytes; }},
    {"one-hop", one_hop, "every chunk takes one hop to or from its owner", Family::star,
     [](Collective collective, int ranks) {
       return collective == Collective::allreduce || collective == Collective::reduce ? ranks : 1;
     },
     always},
    {"all-pairs", all_pairs, "AllReduce in one step, everything to everyone; least latency", Family::exchange, whole,
     [](std::size_t bytes, int ranks) {
       return ranks == 2 || bytes * static_cast<std::size_t>(ranks) <= kMostAllPairsBytes;
     }},
    {"recursive", recursive, "recursive doubling and halving; logarithmically many steps", Family::doubling, whole,
     always},
    {"binomial", binomial, "binomial trees from or to the root", Family::tree, whole, always},
    // Where all are joined it is the same as one-hop.
    {"shortest", shortest, "breadth-first trees of shortest paths; serves wherever paths join all ranks", Family::paths,
     [](Collective collective, int ranks) { return collective == Collective::allreduce ? ranks : 1; },
     [](std::size_t, int) { return false; }},
    {"two-hop", two_hop, "Broadcast and Reduce: each other rank passes a part between the root and the rest",
     Family::spread,
     [](Collective collective, int ranks) {
       return collective == Collective::broadcast || collective == Collective::reduce ? ranks - 1 : 1;
     },
     [](std::size_t, int) { return false; }},
}};

}  // namespace

std::span<const Planner> table() { return kPlanners; }

const Planner* find(std::string_view name) {
  for (const Planner& planner : kPlanners)
    if (planner.name == name) return &planner;
  return nullptr;
}

const Planner& first_of(Family family) {
  return *std::find_if(kPlanners.begin(), kPlanners.end(),
                       [family](const Planner& planner) { return planner.family == family; });
}

bool belongs(std::string_view name, Family family) {
  const Planner* const planner = find(name);
  return planner != nullptr && planner->family == family;
}

}  // namespace sccl::planners
