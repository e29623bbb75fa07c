#include "compose/cost/phases.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "compose/network/sums_by_key.h"
#include "schedule/simulation/channels.h"
#include "schedule/simulation/cost.h"
#include "topology/graph/routes.h"

namespace sccl::compose {

namespace {

constexpr double kBusy = 0.95;  // of the busiest link's time: such a link may be the one that all wait for

struct Passing {  // of a link
  int sends = 0;
  int connections = 0;
  double us_per_byte = 0;  // of a send

  // Added up send by send: products round in other ways.
  double all_us_per_byte() const {
    double all = 0;
    for (int send = 0; send < sends; ++send) all += us_per_byte;
    return all;
  }
};

int connections_of_busiest(const std::vector<Passing>& passing) {
  double most = 0;
  std::vector<std::pair<double, int>> used;
  for (const Passing& one : passing)
    if (one.sends > 0) most = std::max(most, used.emplace_back(one.all_us_per_byte(), one.connections).first);
  int fewest = used.empty() ? 1 : std::numeric_limits<int>::max();
  for (const auto& [us_per_byte, connections] : used)
    if (us_per_byte >= kBusy * most) fewest = std::min(fewest, connections);
  return fewest;
}

}  // namespace

void take_rates(Phase& phase, const schedule::EdgeInfo& link, const topology::Topology& topology) {
  const double us_per_byte = schedule::lane_us_per_byte(link, topology) / link.lanes;
  const int channels = schedule::channels_of(link.lanes, link.gbytes_per_s);
  phase.us_per_byte = std::max(phase.us_per_byte, us_per_byte * channels);
  phase.link_us_per_byte = std::max(phase.link_us_per_byte, us_per_byte);
}

Connection connection_of(const schedule::EdgeIndex& edges, std::span<const topology::Edge> path,
                         const topology::Topology& topology) {
  Connection connection;
  int lanes = std::numeric_limits<int>::max();
  for (const topology::Edge& edge : path) {
    const schedule::EdgeInfo& link = edges[edges.find(edge)];
    connection.alpha_us += link.alpha_us;
    const int channels = schedule::channels_of(link.lanes, link.gbytes_per_s);
    connection.us_per_byte =
        std::max(connection.us_per_byte, schedule::lane_us_per_byte(link, topology) / link.lanes * channels);
    lanes = std::min(lanes, channels);
  }
  if (!path.empty()) connection.lanes = lanes;
  return connection;
}

Phase slower(const Phase& a, const Phase& b, int steps) {
  return {steps,
          std::max(a.alpha_us, b.alpha_us),
          std::max(a.us_per_byte, b.us_per_byte),
          std::max(a.link_us_per_byte, b.link_us_per_byte),
          std::max(a.connections, b.connections),
          std::max(a.slots, b.slots)};
}

Phase phase_of(const schedule::Schedule& schedule) {
  Phase phase;
  const schedule::EdgeIndex edges(schedule.topology);
  topology::Routes ways(schedule.topology);
  phase.steps = schedule.steps;
  SumsByKey sends;  // by connection: how many
  for (const schedule::Send& send : schedule.sends)
    sends.add(SumsByKey::Key{static_cast<std::uint32_t>(send.src)} << 32 | static_cast<std::uint32_t>(send.dst), 1);
  std::vector<Passing> passing(static_cast<std::size_t>(edges.size()));
  for (const auto& [connection, count] : sends.ascending()) {
    double alpha_us = 0;
    for (const topology::Edge& edge :
         ways.path(static_cast<Rank>(connection >> 32), static_cast<Rank>(connection & 0xffffffff))) {
      const schedule::EdgeId id = edges.find(edge);
      const schedule::EdgeInfo& link = edges[id];
      alpha_us += link.alpha_us;
      take_rates(phase, link, schedule.topology);
      Passing& here = passing[static_cast<std::size_t>(id)];
      here.sends += static_cast<int>(count);
      here.us_per_byte = schedule::lane_us_per_byte(link, schedule.topology) / link.lanes;
      ++here.connections;
    }
    phase.alpha_us = std::max(phase.alpha_us, alpha_us);
  }
  phase.connections = connections_of_busiest(passing);
  return phase;
}

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
