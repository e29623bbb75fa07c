// Over which ports a block changes hosts where these have NICs at several leaf switches (rails).
//
// Links between rails are often slow, so a block takes a rail that both hosts have. Which rails these are, and which of
// them is near the block's ends, depends on the pair of hosts. No table of pairs is kept: both ends find the ports by
// the same function of what is known of each host.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "compose/form/composite.h"

namespace sccl::compose {

// Positions of a port of each host, and how often blocks with these ends take them.
struct Crossing {
  int leaves = 0;
  int enters = 0;
  std::uint32_t weight = 0;
};

class RailsOfPairs {
 public:
  // Of hosts that have rails (Host::rails). `pace` is that of links between rails (Composite::pace_across).
  RailsOfPairs(const std::vector<Host>& hosts, int pace);

  // The ways from a rank of one host to a rank of another one, by positions; at least one. Best is a rail that is near
  // both. Else the block leaves near its source or enters near its sink, and the other host hands it over; or both are
  // near, and the block goes from rail to rail. Each is taken as often as the pace says of those who do the work.
  void find(int from, int source, int to, int sink, std::vector<Crossing>& ways) const;

  // The way that a block takes of these. Numbers that differ by one are far apart in turn.
  static const Crossing& choose(std::span<const Crossing> ways, std::uint32_t turn);

 private:
  using Often = std::vector<std::pair<int, int>>;  // positions, each with how often it stands in a list of ports
  struct Side {
    std::vector<std::pair<int, Often>> on_rail;
    std::vector<Often> near;  // by position
    Often ports;
    const std::vector<int>* rails = nullptr;
    int pace = 1;

    const Often* ports_on(int rail) const;
  };
  struct Ends;

  std::vector<Side> hosts_;
  int pace_;
};

}  // namespace sccl::compose
