// What a byte from one host to another one takes of the network: the hosts' NICs and the links between leaf switches.
#pragma once

#include <utility>
#include <vector>

#include "compose/cost/cost.h"

namespace sccl::compose {

// Rows are what can be busy: of every host the busiest link of its ways to the network and that of its ways from there,
// and the links between leaf switches. Hosts' ports share what a host sends and receives (Host::ports). Reads the hosts
// of a composite as CostModel::cost() does, for those without entries.
class HopUse {
 public:
  struct Use {
    int row = 0;
    double us_per_byte = 0;
  };

  // Throws invalid_argument when a used link has no bandwidth.
  HopUse(CostModel& model, const std::vector<Host>& hosts);

  int hosts() const { return hosts_; }
  int rows() const { return rows_; }
  // Of the message from a host to another one; rows ascending, each once.
  const std::vector<Use>& of(int from, int to) const {
    return uses_[static_cast<std::size_t>(from) * static_cast<std::size_t>(hosts_) + static_cast<std::size_t>(to)];
  }

 private:
  int hosts_ = 0;
  int rows_ = 0;
  std::vector<std::vector<Use>> uses_;
};

}  // namespace sccl::compose
