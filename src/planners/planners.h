// The planners that need no search, and the table in which every planner is registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "schedule/schedule.h"

namespace sccl::planners {

using schedule::Schedule;
using topology::Topology;

// A planner returns nothing when it has no schedule for this collective on these links (too few links, a rank count
// it does not handle). Results are correct by construction but still pass schedule::verify before they run.
using Plan = std::optional<Schedule> (*)(const Topology& topology, Collective collective, Rank root);

// Chunks travel along a Hamiltonian cycle (Patarasu and Yuan's bandwidth-optimal ring for the unrooted collectives, a
// chain for the rooted ones). Serves every collective where the links have such a cycle.
std::optional<Schedule> ring(const Topology& topology, Collective collective, Rank root);

// Every chunk takes one hop to or from its owner. ReduceScatter and AllGather go directly between all pairs; AllReduce
// is a ReduceScatter followed by an AllGather (the one-hop trees of Blink 3.5). Needs a link between every pair that
// exchanges data.
std::optional<Schedule> one_hop(const Topology& topology, Collective collective, Rank root);

// AllReduce in one step: every rank sends its whole buffer to every other rank and reduces everything itself. Least
// latency.
std::optional<Schedule> all_pairs(const Topology& topology, Collective collective, Rank root);

// Recursive doubling and halving (PCCL III): AllGather, ReduceScatter, AllReduce in logarithmically many steps.
// AllReduce folds ranks beyond the largest power of two into others; AllGather and ReduceScatter need a power of two.
std::optional<Schedule> recursive(const Topology& topology, Collective collective, Rank root);

// Binomial trees: Broadcast, Reduce, Gather, Scatter, and AllReduce as Reduce then Broadcast.
std::optional<Schedule> binomial(const Topology& topology, Collective collective, Rank root);

// Every chunk takes shortest paths, in breadth-first trees. Serves every collective on links that join all ranks.
std::optional<Schedule> shortest(const Topology& topology, Collective collective, Rank root);

// Broadcast and Reduce: each other rank passes a part of the buffer between the root and the rest. Needs a path between
// every pair.
std::optional<Schedule> two_hop(const Topology& topology, Collective collective, Rank root);

// How chunks travel. A choice between planners asks for this and for the traits below, never for a name.
enum class Family : std::uint8_t {
  ring,      // along a cycle of all ranks
  star,      // one hop to or from the chunk's owner: the only routes on which peers' buffers can be used in place
  exchange,  // everything to everyone, in one step
  doubling,  // over distances that double or halve
  tree,      // up or down a tree with logarithmically many steps
  paths,     // shortest paths over whatever links there are
  spread,    // one root's buffer in parts over all others, and from or to each of them
};

struct Planner {
  std::string_view name;  // as in SCCL_ALGO and --algo
  Plan plan;
  std::string_view summary;
  Family family;
  // Into how many chunks a rank's buffer of this collective is cut where `count` counts the whole buffer.
  int (*parts)(Collective collective, int ranks);
  // Whether it can be the fastest for so many bytes (of `count` elements) where all ranks reach each other alike.
  bool (*sensible)(std::size_t bytes, int ranks);
};

std::span<const Planner> table();
const Planner* find(std::string_view name);
// The first of a family, which has one.
const Planner& first_of(Family family);
// False for schedules of other origins, too.
bool belongs(std::string_view name, Family family);

}  // namespace sccl::planners
