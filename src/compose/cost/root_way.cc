#include "compose/cost/root_way.h"

#include <algorithm>
#include <numeric>

namespace sccl::compose {

int steps_to_ports(const Composite& composite, const Routes& routes) {
  const auto depths = schedule::sends_from_root(composite.at_root->schedule);
  const auto host = static_cast<std::size_t>(routes.host_of(composite.root));
  const std::vector<int>& ports = composite.hosts[host].ports;
  const std::vector<ChunkId>& turns = composite.root_turns;
  int most = 0;
  for (std::size_t place = 0; place < std::lcm(turns.size(), ports.size()); ++place) {
    const auto chunk = static_cast<std::size_t>(turns[place % turns.size()]);
    most = std::max(most, depths[chunk][static_cast<std::size_t>(ports[place % ports.size()])]);
  }
  return most;
}

}  // namespace sccl::compose
