// Trees of hosts for networks that join hosts unevenly: a line or a ring of hosts, racks behind slow links.
//
// Where all hosts reach each other at one speed, one shape that every root turns round to itself loads all links alike
// (compose/form/tree.h). Elsewhere no such shape does: each root gets weighted trees of its own. A linear program finds
// the trees that carry most data of all roots together; trees are generated when they pay, as cheapest arborescences. A
// message from host to host loads the hosts' NICs and the links on its way as in the cost of composites
// (compose/cost/hop_use.h). Weights are rounded to a few turns that a root's chunks take.
//
// Hosts with several entries (compose::HostKind) get data as often from their parent. Where hosts have unequal numbers
// of entries, trees matter on every network: a host with weak NICs has few children with many entries.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "compose/cost/hop_use.h"
#include "compose/form/tree.h"

namespace sccl::portfolio {

enum class OuterUse : std::uint8_t {
  copies,  // from the root down its trees
  sums,    // from the leaves up to the root
  both,    // up to some root and down again: roots are free
};

struct OuterTrees {
  std::vector<std::vector<compose::Tree>> of_roots;  // compose::Tier::of_roots, for all hosts in one group
  std::vector<int> root_hosts;                       // both: the roots in turn, one for each tree
  double us_per_byte = 0;                            // of the busiest link, for the given data
};

// With more hosts the trees of all roots take longer to find and more memory than a plan may.
inline constexpr int kMostPackedHosts = 32;

// `data` are the bytes of each root; for `both` their sum counts. Some may be 0. `entries`: by host, on average of its
// chunks; empty: 1. A pure function; nothing if the program does not end.
std::optional<OuterTrees> outer_trees(const compose::HopUse& hops, OuterUse use, const std::vector<double>& data,
                                      const std::vector<double>& entries = {});

// The trees of one cluster's collectives, each found when it is asked for first.
class OuterPlanner {
 public:
  OuterPlanner(compose::CostModel& costs, const std::vector<compose::Host>& hosts);

  // Null where all hosts reach each other at one speed, so that shapes do, where there are too few hosts or too many,
  // and for collectives without trees. `root_host` is that of Broadcast and Reduce. `entries` as above: those of hosts
  // that differ, else empty.
  const OuterTrees* find(Collective collective, int root_host, const std::vector<double>& entries = {});

  // How fast the network brings a host of so many devices what it lacks of an AllGather, an AllReduce or a Broadcast of
  // the first host. Infinite if find() finds nothing.
  double gbytes_per_s_into_host(Collective collective, int devices);

 private:
  std::vector<double> devices_;  // by host
  bool one_speed_ = true;        // hosts reach each other
  std::optional<compose::HopUse> hops_;
  std::map<std::tuple<Collective, int, std::vector<double>>, std::optional<OuterTrees>> found_;
};

}  // namespace sccl::portfolio
