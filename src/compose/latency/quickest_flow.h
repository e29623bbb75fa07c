// A lower bound that counts latency beside bandwidth: the least time in which data can come from one place to another
// one over all links at once.
//
// Why it bounds every schedule. Take a rank v, and the bytes that v must have at the end and that begin elsewhere. One
// copy of each of these bytes, or one partial sum with the contribution of a rank u, makes its way over links to v. It
// passes a link from x to y not before it can be at x, and so early that the rest of the way to v fits into the time.
// A link carries no more than its bandwidth. So these ways are a flow over time that ends with v by T, however the data
// is cut, copied or added. By Ford and Fulkerson the most that a flow over time brings within T is
//     max over static flows f of  T |f| - sum over links of (latency x flow of f on the link),
// so T is at least the least of (bytes + latencies x flow) / |f|. Successive shortest paths by latency visit the flows
// among which the least one is.
//
// What is not looked at is one node, `outside`, within which data moves at once; links that share their bandwidth have
// all of it each. Both only make the bound smaller. Sums are read backwards: from every link's end to its beginning.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "topology/topology.h"

namespace sccl::compose {

enum class Reading : std::uint8_t { forwards, backwards };

// What leaves a host is so much later beyond its border. `side`: by node, the host within whose border it is, or -1.
struct Delay {
  std::span<const int> side = {};
  int host = -1;
  double us = 0;
};

class QuickestFlow {
 public:
  // `nodes`: those that are looked at, each once. Links between others are left out.
  QuickestFlow(const topology::Topology& topology, const std::vector<topology::Node>& nodes, Reading reading,
               const Delay& delay = {});

  // From a node, or from outside, to a node other than the source. Infinite if no path leads there. O(links x nodes)
  // for each of the shortest paths, whose number is about that of the links.
  double us(std::optional<topology::Node> source, topology::Node sink, double bytes) const;

 private:
  struct Arc {
    std::size_t from, to;
    double bytes_per_us;
    double alpha_us;
  };
  std::vector<topology::Node> nodes_;                // ascending
  std::vector<Arc> arcs_;                            // each followed by the one that takes its flow back
  std::vector<std::vector<std::size_t>> arcs_from_;  // by node
  std::size_t index(topology::Node node) const;
};

}  // namespace sccl::compose
