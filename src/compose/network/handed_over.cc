#include "compose/network/handed_over.h"

#include <algorithm>
#include <numeric>

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<double> in_turn(const std::vector<int>& ports, std::size_t devices) {
  std::vector<double> result(devices, 0);
  for (const int port : ports) result[at(port)] += 1.0 / static_cast<double>(ports.size());
  return result;
}

// Of chunks that begin or end at the rank at this position.
std::vector<double> shares_near(const Host& host, std::size_t local) {
  if (host.all_own()) return in_turn({static_cast<int>(local)}, host.ranks.size());
  return host.near[local].empty() ? shares(host) : in_turn(host.near[local], host.ranks.size());
}

bool is_unicast(Collective collective) {
  return collective == Collective::alltoall || collective == Collective::gather || collective == Collective::scatter;
}

// Of chunks that begin or end at the host's ranks. Of `all_at_root`, all chunks begin or end at the root.
std::vector<double> shares_near(const Composite& composite, int host, Collective all_at_root) {
  const Host& one = composite.hosts[at(host)];
  const auto root = std::find(one.ranks.begin(), one.ranks.end(), composite.root) - one.ranks.begin();
  const auto devices = static_cast<std::ptrdiff_t>(one.ranks.size());
  if (composite.collective == all_at_root && root < devices) return shares_near(one, static_cast<std::size_t>(root));
  std::vector<double> result(one.ranks.size(), 0);
  for (std::size_t local = 0; local < result.size(); ++local) {
    const std::vector<double> parts = shares_near(one, local);
    for (std::size_t port = 0; port < result.size(); ++port) result[port] += parts[port] / static_cast<double>(devices);
  }
  return result;
}

// More than 1 in all with entries.
std::vector<double> uses_with_entries(const Composite& composite, int host) {
  const Host& one = composite.hosts[at(host)];
  const HostKind& kind = *composite.kinds[at(one.kind)];
  const std::vector<double> share = shares(one);
  std::vector<double> result = share;
  if (!kind.has_entries()) return result;
  const bool out = composite.collective != Collective::reducescatter && composite.collective != Collective::reduce;
  const auto& turns = out ? kind.out_turns : kind.in_turns;
  for (std::size_t port = 0; port < turns.size(); ++port)
    for (const ChunkId chunk : turns[port])
      for (const int device : (out ? kind.out_entries : kind.in_entries)[at(chunk)])
        result[at(device)] += share[port] / static_cast<double>(turns[port].size());
  return result;
}

std::vector<double> shares_with_entries(const Composite& composite, int host) {
  std::vector<double> result = uses_with_entries(composite, host);
  const double all = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& one : result) one /= all;
  return result;
}

}  // namespace

double entries_of(const Composite& composite, int host) {
  const std::vector<double> uses = uses_with_entries(composite, host);
  return std::accumulate(uses.begin(), uses.end(), 0.0);
}

std::vector<double> shares(const Host& host) { return in_turn(host.ports, host.ranks.size()); }

std::vector<double> shares_of_leaving(const Composite& composite, int host) {
  const bool near = is_unicast(composite.collective) && composite.source_is_near;
  return near ? shares_near(composite, host, Collective::scatter) : shares_with_entries(composite, host);
}

std::vector<double> shares_of_entering(const Composite& composite, int host) {
  const bool near = is_unicast(composite.collective) && composite.sink_is_near;
  return near ? shares_near(composite, host, Collective::gather) : shares_with_entries(composite, host);
}

std::vector<std::vector<double>> handed_over(const Composite& composite, int host) {
  const Host& one = composite.hosts[at(host)];
  const std::size_t devices = one.ranks.size();
  const double ranks = composite.ranks();
  std::vector<std::vector<double>> bytes(devices, std::vector<double>(devices, 0));
  // By device: the parts of what it sends that leave by each port, and of what it receives that enter there.
  std::vector<std::vector<double>> leaves(devices, shares(one));
  std::vector<std::vector<double>> enters = leaves;
  for (std::size_t device = 0; device < devices; ++device) {
    if (composite.source_is_near) leaves[device] = shares_near(one, device);
    if (composite.sink_is_near) enters[device] = shares_near(one, device);
  }
  const double others = ranks - static_cast<double>(devices);
  const auto root = std::find(one.ranks.begin(), one.ranks.end(), composite.root) - one.ranks.begin();
  const bool root_here = root < static_cast<std::ptrdiff_t>(devices);
  for (std::size_t a = 0; a < devices; ++a)
    for (std::size_t b = 0; b < devices; ++b) {
      double& here = bytes[a][b];
      if (a == b) continue;
      const bool a_root = root_here && static_cast<std::ptrdiff_t>(a) == root;
      const bool b_root = root_here && static_cast<std::ptrdiff_t>(b) == root;
      switch (composite.collective) {
        case Collective::allgather:
          here = leaves[a][b];
          break;
        case Collective::reducescatter:
          here = enters[b][a] / ranks;
          break;
        case Collective::broadcast:
          if (a_root) here = leaves[a][b];
          break;
        case Collective::reduce:
          if (b_root) here = enters[b][a];
          break;
        case Collective::alltoall:
          here = (1 + (leaves[a][b] + enters[b][a]) * others) / ranks;
          break;
        case Collective::gather:
          if (b_root) here = 1 + enters[b][a] * others;
          if (!root_here) here += leaves[a][b];
          break;
        case Collective::scatter:
          if (a_root) here = (1 + leaves[a][b] * others) / ranks;
          if (!root_here) here += enters[b][a] / ranks;
          break;
        default:
          break;
      }
    }
  return bytes;
}

}  // namespace sccl::compose
