#include "compose/handed_over.h"

#include <algorithm>

namespace sccl::compose {

std::vector<std::vector<double>> handed_over(const Composite& composite, int host, const std::vector<double>& share) {
  const Host& one = composite.hosts[static_cast<std::size_t>(host)];
  const std::size_t devices = one.ranks.size();
  const double ranks = composite.ranks();
  std::vector<std::vector<double>> bytes(devices, std::vector<double>(devices, 0));
  const bool own = std::all_of(one.own.begin(), one.own.end(), [](bool may) { return may; });
  const bool from_own = own && composite.source_is_port;
  const bool to_own = own && composite.sink_is_port;
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
          if (!from_own) here = share[b];
          break;
        case Collective::reducescatter:
          if (!to_own) here = share[a] / ranks;
          break;
        case Collective::broadcast:
          if (a_root) here = share[b];
          break;
        case Collective::reduce:
          if (b_root) here = share[a];
          break;
        case Collective::alltoall:
          here = 1 / ranks;
          if (!from_own) here += share[b] * others / ranks;
          if (!to_own) here += share[a] * others / ranks;
          break;
        case Collective::gather:
          if (b_root) here = 1 + share[a] * others;
          if (!from_own && !root_here) here += share[b];
          break;
        case Collective::scatter:
          if (a_root) here = (1 + share[b] * others) / ranks;
          if (!to_own && !root_here) here += share[a] / ranks;
          break;
        default:
          break;
      }
    }
  return bytes;
}

}  // namespace sccl::compose
