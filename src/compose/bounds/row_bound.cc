#include "compose/bounds/row_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "compose/bounds/parts_bound.h"

namespace sccl::compose {
namespace {

// Whole numbers, so that what is added and taken away again leaves nothing. Rounded up, so that bounds hold.
using Rate = std::int64_t;
constexpr double kRatePerGByte = 1e6;
constexpr double kBytesPerUs = 1e3;  // at one GB/s
constexpr std::size_t kMostSteps = 4'000'000;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Neighbour {
  int node;
  Rate out;  // to the neighbour
  Rate in;   // from it
};

struct Run {
  std::size_t begin = 0;  // positions in the row
  std::size_t end = 0;
  Rate in = 0;
  Rate out = 0;
  double us = 0;
};

// Hosts are the first nodes, the switches between them the others.
class Row {
 public:
  Row(const topology::Topology& topology, const topology::Cluster& cluster, const std::vector<topology::Link>& links)
      : cluster_(cluster) {
    std::vector<int> node_of(at(topology.nodes()), -1);
    for (std::size_t host = 0; host < cluster.nodes.size(); ++host)
      for (const topology::Node node : cluster.nodes[host]) node_of[at(node)] = static_cast<int>(host);
    for (Rank rank = 0; rank < topology.ranks; ++rank)
      for (const auto& [src, dst] : cluster.attachments[at(rank)].up) node_of[at(src)] = cluster.host_of[at(rank)];
    int nodes = static_cast<int>(cluster.hosts.size());
    std::map<std::pair<int, int>, std::pair<Rate, Rate>> rates;  // the lesser node first; from it, to it
    for (const topology::Link& link : links) {
      for (const topology::Node node : {link.src, link.dst})
        if (node_of[at(node)] < 0) node_of[at(node)] = nodes++;
      const int src = node_of[at(link.src)];
      const int dst = node_of[at(link.dst)];
      if (src == dst) continue;
      auto& [from, to] = rates[std::minmax(src, dst)];
      (src < dst ? from : to) += static_cast<Rate>(std::ceil(link.gbytes_per_s * kRatePerGByte));
    }
    next_.resize(at(nodes));
    for (const auto& [ends, rate] : rates) {
      next_[at(ends.first)].push_back({ends.second, rate.first, rate.second});
      next_[at(ends.second)].push_back({ends.first, rate.second, rate.first});
    }
    pairs_ = rates.size();
    line_up();
  }

  // The rank of the first host inside, and the number of hosts.
  std::pair<Rank, std::size_t> hosts_of(const Run& run) const {
    int first = static_cast<int>(next_.size());
    std::size_t hosts = 0;
    for (std::size_t position = run.begin; position < run.end; ++position) {
      first = std::min(first, row_[position]);
      hosts += is_host(row_[position]) ? 1 : 0;
    }
    return {cluster_.hosts[at(first)].front(), hosts};
  }

  Run best(Collective collective, int root_host, double bytes) const {
    Run best;
    const double all = cluster_.ranks();
    const std::size_t step = row_.size() * pairs_ / kMostSteps + 1;
    std::vector<std::size_t> begin_of(next_.size(), row_.size());  // of the last run that had the node
    for (std::size_t begin = 0; begin < row_.size(); begin += step) {
      Run run{begin, begin, 0, 0, 0};
      std::size_t hosts = 0;
      double ranks = 0;
      bool has_root = false;
      for (; run.end < row_.size(); ++run.end) {
        const int node = row_[run.end];
        begin_of[at(node)] = begin;
        for (const Neighbour& next : next_[at(node)]) {
          const bool inside = begin_of[at(next.node)] == begin;
          run.out += inside ? -next.in : next.out;
          run.in += inside ? -next.out : next.in;
        }
        if (is_host(node)) {
          ++hosts;
          ranks += static_cast<double>(cluster_.hosts[at(node)].size());
          has_root = has_root || node == root_host;
        }
        if (hosts < 2) continue;
        if (hosts + 2 > cluster_.hosts.size()) break;
        const Demand wanted = demand(collective, ranks, all, has_root);
        run.us = std::max(us(wanted.in * bytes, run.in), us(wanted.out * bytes, run.out));
        if (run.us > best.us) best = {begin, run.end + 1, run.in, run.out, run.us};
      }
    }
    return best;
  }

 private:
  bool is_host(int node) const { return at(node) < cluster_.hosts.size(); }

  static double us(double bytes, Rate rate) {
    return rate > 0 ? bytes / (static_cast<double>(rate) / kRatePerGByte * kBytesPerUs) : 0;
  }

  // By node: whether it stays when nodes with one neighbour are taken away until there is none, as rings do.
  std::vector<bool> in_rings() const {
    std::vector<std::size_t> neighbours;
    std::vector<int> ends;
    for (std::size_t node = 0; node < next_.size(); ++node) {
      neighbours.push_back(next_[node].size());
      if (neighbours.back() <= 1) ends.push_back(static_cast<int>(node));
    }
    std::vector<bool> stays(next_.size(), true);
    while (!ends.empty()) {
      const int end = ends.back();
      ends.pop_back();
      stays[at(end)] = false;
      for (const Neighbour& next : next_[at(end)])
        if (stays[at(next.node)] && --neighbours[at(next.node)] == 1) ends.push_back(next.node);
    }
    return stays;
  }

  // Begins at a node far from the first host: on a line, at its end.
  void line_up() {
    const std::vector<bool> rings = in_rings();
    for (std::vector<Neighbour>& next : next_)
      std::stable_sort(next.begin(), next.end(), [&](const Neighbour& a, const Neighbour& b) {
        return std::pair(rings[at(a.node)], next_[at(a.node)].size()) <
               std::pair(rings[at(b.node)], next_[at(b.node)].size());
      });
    std::vector<int> near_first{0};
    std::vector<bool> seen(next_.size(), false);
    seen[0] = true;
    for (std::size_t i = 0; i < near_first.size(); ++i)
      for (const Neighbour& next : next_[at(near_first[i])])
        if (!seen[at(next.node)]) {
          seen[at(next.node)] = true;
          near_first.push_back(next.node);
        }
    seen.assign(next_.size(), false);
    for (std::vector<int> stack{near_first.back()}; !stack.empty();) {
      const int node = stack.back();
      stack.pop_back();
      if (seen[at(node)]) continue;
      seen[at(node)] = true;
      row_.push_back(node);
      for (auto next = next_[at(node)].rbegin(); next != next_[at(node)].rend(); ++next) stack.push_back(next->node);
    }
  }

  const topology::Cluster& cluster_;
  std::vector<std::vector<Neighbour>> next_;
  std::size_t pairs_ = 0;  // of neighbours
  std::vector<int> row_;
};

}  // namespace

std::vector<Bound> bounds_of_rows(const topology::Topology& topology, const topology::Cluster& cluster,
                                  const std::vector<topology::Link>& links, Collective collective, Rank root,
                                  double bytes) {
  if (cluster.has_one_leaf() || cluster.hosts.size() < 4) return {};
  const Row row(topology, cluster, links);
  const Run run = row.best(collective, info(collective).rooted ? cluster.host_of[at(root)] : -1, bytes);
  if (!(run.us > 0)) return {};
  const auto [first, hosts] = row.hosts_of(run);
  return {{run.us, fmt::format("{} neighbouring hosts, with that of rank {}: the links between them and the others "
                               "carry {:.5g} GB/s in, {:.5g} out",
                               hosts, first, static_cast<double>(run.in) / kRatePerGByte,
                               static_cast<double>(run.out) / kRatePerGByte)}};
}

}  // namespace sccl::compose
