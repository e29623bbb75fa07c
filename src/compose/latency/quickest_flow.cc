#include "compose/latency/quickest_flow.h"

#include <algorithm>
#include <limits>

namespace sccl::compose {
namespace {

constexpr double kBytesPerUs = 1e3;  // at one GB/s
constexpr double kNothing = 1e-6;    // bytes per us, of rounding
constexpr double kNoWay = std::numeric_limits<double>::infinity();

}  // namespace

QuickestFlow::QuickestFlow(const topology::Topology& topology, const std::vector<topology::Node>& nodes,
                           Reading reading, const Delay& delay)
    : nodes_(nodes), arcs_from_(nodes.size() + 1) {
  std::sort(nodes_.begin(), nodes_.end());
  for (const topology::Link& link : topology.links) {
    std::size_t from = index(link.src);
    std::size_t to = index(link.dst);
    if (from == to || !(link.gbytes_per_s > 0)) continue;
    topology::Node begin = link.src;
    topology::Node end = link.dst;
    if (reading == Reading::backwards) {
      std::swap(from, to);
      std::swap(begin, end);
    }
    const auto is_there = [&](topology::Node node) { return delay.side[static_cast<std::size_t>(node)] == delay.host; };
    const bool later = delay.us > 0 && is_there(begin) && !is_there(end);
    const double alpha_us = link.alpha_us + (later ? delay.us : 0);
    arcs_from_[from].push_back(arcs_.size());
    arcs_.push_back({from, to, link.gbytes_per_s * kBytesPerUs, alpha_us});
    arcs_from_[to].push_back(arcs_.size());
    arcs_.push_back({to, from, 0, -alpha_us});
  }
}

// One more than the last: outside.
std::size_t QuickestFlow::index(topology::Node node) const {
  const auto found = std::lower_bound(nodes_.begin(), nodes_.end(), node);
  return found != nodes_.end() && *found == node ? static_cast<std::size_t>(found - nodes_.begin()) : nodes_.size();
}

double QuickestFlow::us(std::optional<topology::Node> source, topology::Node sink, double bytes) const {
  const std::size_t begin = source ? index(*source) : nodes_.size();
  const std::size_t end = index(sink);
  if (begin == end) return 0;
  std::vector<double> left;
  for (const Arc& arc : arcs_) left.push_back(arc.bytes_per_us);
  double best = kNoWay;
  double rate = 0;
  double under_way = 0;  // latencies x flow
  while (true) {
    std::vector<double> distance(nodes_.size() + 1, kNoWay);
    std::vector<std::size_t> by(nodes_.size() + 1, arcs_.size());
    std::vector<bool> waits(nodes_.size() + 1, false);
    std::vector<std::size_t> now{begin};
    std::vector<std::size_t> next;
    distance[begin] = 0;
    for (; !now.empty(); now.swap(next)) {
      next.clear();
      for (const std::size_t from : now) {
        waits[from] = false;
        for (const std::size_t i : arcs_from_[from]) {
          const std::size_t to = arcs_[i].to;
          if (left[i] <= kNothing || distance[from] + arcs_[i].alpha_us >= distance[to] - 1e-9) continue;
          distance[to] = distance[from] + arcs_[i].alpha_us;
          by[to] = i;
          if (!waits[to]) next.push_back(to);
          waits[to] = true;
        }
      }
    }
    // A longer way than the time so far brings nothing.
    if (distance[end] >= best) return best;
    double more = kNoWay;
    for (std::size_t at = end; at != begin; at = arcs_[by[at]].from) more = std::min(more, left[by[at]]);
    for (std::size_t at = end; at != begin; at = arcs_[by[at]].from) {
      left[by[at]] -= more;
      left[by[at] ^ 1] += more;
    }
    rate += more;
    under_way += more * distance[end];
    best = (bytes + under_way) / rate;
  }
}

}  // namespace sccl::compose
