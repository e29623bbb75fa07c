#include "compose/cost/host_loads.h"

#include <algorithm>
#include <map>

#include "topology/graph/routes.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

void join(EdgeLoads& sum, const EdgeLoads& more, double times) {
  EdgeLoads all;
  all.reserve(sum.size() + more.size());
  auto one = sum.begin();
  for (const auto& [edge, load] : more) {
    for (; one != sum.end() && one->first < edge; ++one) all.push_back(*one);
    const double before = one != sum.end() && one->first == edge ? (one++)->second : 0;
    all.emplace_back(edge, before + load * times);
  }
  all.insert(all.end(), one, sum.end());
  sum = std::move(all);
}

}  // namespace

void join(HostLoads& sum, const HostLoads& more, double times) {
  join(sum.links, more.links, times);
  join(sum.connections, more.connections, times);
}

HostLoads host_loads(const schedule::Schedule& schedule, const std::vector<double>& part) {
  topology::Routes ways(schedule.topology);
  std::map<topology::Edge, double> links;
  std::map<topology::Edge, double> connections;
  for (const schedule::Send& send : schedule.sends)
    if (part[at(send.chunk)] > 0) connections[{send.src, send.dst}] += part[at(send.chunk)];
  for (const auto& [connection, bytes] : connections)
    for (const topology::Edge& edge : ways.path(connection.first, connection.second)) links[edge] += bytes;
  return {{links.begin(), links.end()}, {connections.begin(), connections.end()}};
}

HostLoads loads_of_turns(const schedule::Schedule& schedule, const std::vector<std::vector<ChunkId>>& turns,
                         const std::vector<double>& share) {
  std::vector<double> part(at(schedule.chunks), 0);
  for (std::size_t port = 0; port < turns.size(); ++port)
    for (const ChunkId chunk : turns[port]) part[at(chunk)] += share[port] / static_cast<double>(turns[port].size());
  return host_loads(schedule, part);
}

HostLoads loads_between(const HostKind& kind, const std::vector<std::vector<double>>& bytes) {
  const int devices = kind.between.ranks;
  const int pieces = std::max(1, kind.between.chunks / (devices * devices));
  std::vector<double> part(at(kind.between.chunks), 0);
  for (ChunkId chunk = 0; chunk < kind.between.chunks; ++chunk)
    part[at(chunk)] = bytes[at(chunk % devices)][at(chunk / devices % devices)] / pieces;
  return host_loads(kind.between, part);
}

HostLoads loads_at_root(const Composite& composite, int chunks) {
  const schedule::Schedule& schedule = composite.at_root->schedule;
  std::vector<double> part(at(schedule.chunks), 0);
  for (std::size_t chunk = 0; chunk < at(chunks); ++chunk)
    part[at(composite.root_turns[chunk % composite.root_turns.size()])] += 1.0 / chunks;
  return host_loads(schedule, part);
}

}  // namespace sccl::compose
