// Over hosts, which share no clock: what a call costs, from the times that ranks spend in measured calls. Each rank
// sums its own, and its agent passes the sums on. The rank that comes last is in a call from the last arrival to the
// end, so the least of all ranks' means is what the call costs; and the means differ by as much as ranks come apart.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/control/control_plane.h"

namespace sccl::runtime {

class ArrivalCosts {
 public:
  explicit ArrivalCosts(const Members& members) : members_(members) {}

  // Calls of one group: in the usual form, then those reduced by the ranks that are there.
  struct Sum {
    double calls = 0;
    double messages = 0;  // times of a message of the call's size
  };
  using Sums = std::array<Sum, 2>;

  // This rank was in a call for so long.
  void add(std::size_t group, bool by_arrival, double messages);
  // By rank: all calls up to now.
  std::vector<Sums> seen(std::size_t group) const;
  // The same since then.
  std::vector<Sums> since(const std::vector<Sums>& then, std::size_t group) const;

 private:
  const Members& members_;
};

}  // namespace sccl::runtime
