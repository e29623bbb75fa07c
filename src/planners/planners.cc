#include "planners/planners.h"

#include <array>

namespace sccl::planners {
namespace {

constexpr std::array<Planner, 6> kPlanners{{
    {"ring", ring, "chunks travel along a cycle of all ranks; least bandwidth, most steps"},
    {"one-hop", one_hop, "every chunk takes one hop to or from its owner"},
    {"all-pairs", all_pairs, "AllReduce in one step, everything to everyone; least latency"},
    {"recursive", recursive, "recursive doubling and halving; logarithmically many steps"},
    {"binomial", binomial, "binomial trees from or to the root"},
    {"shortest", shortest, "breadth-first trees of shortest paths; serves wherever paths join all ranks"},
}};

}  // namespace

std::span<const Planner> table() { return kPlanners; }

const Planner* find(std::string_view name) {
  for (const Planner& planner : kPlanners)
    if (planner.name == name) return &planner;
  return nullptr;
}

}  // namespace sccl::planners
