#include "compose/bounds/divided_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace sccl::compose {
namespace {

constexpr double kBytesPerUs = 1e3;  // at one GB/s
constexpr int kMostSteps = 50;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// One way to divide a host.
struct Division {
  int parts = 1;
  double gbytes_per_s = 0;  // out of all of them
};

class HostDivisions {
 public:
  // `links`: of this host, and from it to the network. Devices come first among `nodes`.
  HostDivisions(const std::vector<topology::Node>& nodes, std::size_t devices, std::vector<topology::Link> links)
      : devices_(devices), links_(std::move(links)), leader_(nodes.size()) {
    const auto place = [&](topology::Node node) {
      return static_cast<int>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
    };
    for (topology::Link& link : links_) {
      link.src = place(link.src);
      link.dst = place(link.dst);
      if (inside(link)) rates_.insert(link.gbytes_per_s);
    }
  }

  std::vector<Division> all(double whole_gbytes_per_s) {
    std::vector<Division> result{{1, whole_gbytes_per_s}, joined_from(std::numeric_limits<double>::infinity())};
    for (const double rate : rates_) result.push_back(joined_from(rate));
    return result;
  }

 private:
  bool inside(const topology::Link& link) const { return at(link.dst) < leader_.size(); }

  int find(int node) const {
    while (leader_[at(node)] != node) node = leader_[at(node)];
    return node;
  }

  // The parts that links of at least this rate join. Switches that are joined to no device are in no part.
  Division joined_from(double rate) {
    std::iota(leader_.begin(), leader_.end(), 0);
    for (const topology::Link& link : links_)
      if (inside(link) && link.gbytes_per_s >= rate) leader_[at(find(link.src))] = find(link.dst);
    std::set<int> parts;
    for (std::size_t device = 0; device < devices_; ++device) parts.insert(find(static_cast<int>(device)));
    Division result{static_cast<int>(parts.size()), 0};
    for (const topology::Link& link : links_) {
      const int from = find(link.src);
      if (parts.contains(from) && !(inside(link) && find(link.dst) == from)) result.gbytes_per_s += link.gbytes_per_s;
    }
    return result;
  }

  std::size_t devices_;
  std::vector<topology::Link> links_;
  std::vector<int> leader_;  // of the part of each node
  std::set<double> rates_;
};

}  // namespace

std::vector<Bound> bounds_of_divided_hosts(const topology::Cluster& cluster, const std::vector<topology::Link>& links,
                                           const std::vector<double>& host_gbytes_per_s, Collective collective,
                                           double bytes) {
  const bool both = collective == Collective::allreduce;
  if ((!both && collective != Collective::broadcast && collective != Collective::reduce) || cluster.hosts.size() < 2)
    return {};
  topology::Node most = 0;
  for (const topology::Link& link : links) most = std::max({most, link.src, link.dst});
  std::vector<int> host_of(at(most) + 1, -1);
  for (std::size_t host = 0; host < cluster.nodes.size(); ++host)
    for (const topology::Node node : cluster.nodes[host])
      if (node <= most) host_of[at(node)] = static_cast<int>(host);
  std::vector<std::vector<topology::Link>> of_host(cluster.hosts.size());
  for (const topology::Link& link : links)
    if (const int host = host_of[at(link.src)]; host >= 0) of_host[at(host)].push_back(link);
  std::vector<std::vector<Division>> divisions;
  for (std::size_t host = 0; host < cluster.hosts.size(); ++host)
    divisions.push_back(HostDivisions(cluster.nodes[host], cluster.hosts[host].size(), std::move(of_host[host]))
                            .all(host_gbytes_per_s[host]));
  double least = std::numeric_limits<double>::infinity();  // GB/s for each pass
  int parts = 0;
  for (int step = 0; step < kMostSteps; ++step) {
    Division sum{0, 0};
    for (const std::vector<Division>& choices : divisions) {
      const auto cost = [&](const Division& one) {
        return step == 0 ? one.parts : one.gbytes_per_s - least * one.parts;  // at first: hosts as a whole
      };
      const Division& best = *std::min_element(choices.begin(), choices.end(),
                                               [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
      sum.parts += best.parts;
      sum.gbytes_per_s += best.gbytes_per_s;
    }
    if (sum.parts < 2 || !(sum.gbytes_per_s > 0)) break;
    const double ratio = sum.gbytes_per_s / (sum.parts - 1);
    if (ratio >= least * (1 - 1e-9)) break;
    least = ratio;
    parts = sum.parts;
  }
  if (parts <= static_cast<int>(divisions.size())) return {};  // hosts as a whole are another bound
  const double passes = both ? 2 : 1;
  return {{passes * bytes / (least * kBytesPerUs),
           fmt::format("{:.0f} times the buffer crosses between {} parts of {} hosts, which send {:.5g} GB/s together",
                       passes * (parts - 1), parts, divisions.size(), least * (parts - 1))}};
}

}  // namespace sccl::compose
