// What hosts pass where each pair of hosts has its own rails (compose/form/rails_of_pairs.h). Of many blocks on
// average: equal hosts are looked at once. Few blocks are not near their average, and are counted.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "compose/form/composite.h"
#include "compose/network/leaf_traffic.h"

namespace sccl::compose {

// Per byte of L. Positions are those of the host's ranks.
struct PassedByHost {
  std::vector<std::vector<double>> on_host;  // from position to position
  std::vector<double> leaves, enters;        // by position of the port; the sum is 1, or 0
};

class PairTraffic {
 public:
  // Takes time that grows with the square of the kinds of hosts; hosts are of one kind if their ports are equal.
  PairTraffic(const Composite& composite, const topology::Cluster& cluster, const Routes& routes);

  int kind(int host) const { return kind_of_[static_cast<std::size_t>(host)]; }
  const PassedByHost& of(int host) const { return kinds_[static_cast<std::size_t>(kind(host))].passed; }
  void lay(Paths paths, LeafTraffic& traffic) const;

 private:
  struct Kind {
    int host = 0;  // the first one
    int count = 0;
    int root = -1;                     // its position
    std::vector<topology::Node> leaf;  // by position
    PassedByHost passed;
  };
  // Each sender of one kind passes the bytes to each receiver of another one.
  struct Pairs {
    Kind* from;
    Kind* to;
    int senders;    // of a receiver
    int receivers;  // of a sender
  };
  void group(const Composite& composite, bool each_host);
  void stay(const Composite& composite);
  void pass(const Composite& composite);
  void pass_each(const Composite& composite, const Routes& routes);
  void add(const Pairs& pairs, int source, int sink, int leaves, int enters, double bytes);

  std::vector<Kind> kinds_;
  std::vector<int> kind_of_;  // by host
  std::map<std::pair<topology::Node, topology::Node>, LinkLoad> by_leaves_;
};

}  // namespace sccl::compose
