#include "compose/cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sccl::compose {
namespace {

constexpr double kLeastSlice = 4096;

}  // namespace

double Cost::busy_us(double bytes) const { return std::max(network_us_per_byte, host_us_per_byte) * bytes; }

double Cost::time_us(double bytes, double slice_bytes) const {
  const double chunk = chunk_per_byte * bytes;
  const double slice = slice_bytes > 0 ? std::min(slice_bytes, chunk) : chunk;
  const double hops = between_hosts.time_us(slice);
  const double way = hops + on_host.time_us(slice);
  const double rounds = !one_depth && slice > 0 ? std::ceil(chunk / slice - 1e-9) - 1 : 0;
  if (!chained) return std::max(busy_us(bytes), rounds * way) + way;
  const double chain = hops + (chunk * frames - slice) * between_hosts.us_per_byte;
  return std::max({busy_us(bytes) + between_hosts.alpha_us, chain, (rounds + 1) * hops}) + on_host.time_us(slice);
}

double Cost::good_slice(double bytes, double most_slice_bytes) const {
  constexpr double kNearlyLeast = 1.01;
  const double wanted = kNearlyLeast * time_us(bytes, kLeastSlice);
  double slice = std::max(kLeastSlice, most_slice_bytes);
  while (slice > kLeastSlice && time_us(bytes, slice) > wanted) slice /= 2;
  return slice;
}

CostModel::CostModel(std::shared_ptr<const topology::Topology> topology,
                     std::shared_ptr<const topology::Cluster> cluster)
    : topology_(std::move(topology)), cluster_(std::move(cluster)), edges_(*topology_), ways_(*topology_, *cluster_) {}

}  // namespace sccl::compose
