#include "compose/latency/late_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace sccl::compose {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();
constexpr double kBytesPerUs = 1e3;  // at one GB/s

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// What bounds of one host may count: the links of its kind are known by the kind's number, all others are here.
class Forms {
 public:
  Forms(const topology::Cluster& cluster, const std::vector<topology::Link>& links, const std::vector<int>& side)
      : cluster_(cluster), place_(side.size(), kNowhere), rates_(side.size()) {
    for (const auto& nodes : cluster.nodes)
      for (std::size_t i = 0; i < nodes.size(); ++i) place_[at(nodes[i])] = static_cast<int>(i);
    for (const topology::Link& link : links) {
      rates_[at(link.src)].first += link.gbytes_per_s;
      rates_[at(link.dst)].second += link.gbytes_per_s;
    }
    forms_.resize(cluster.hosts.size());
    for (const topology::Link& link : links)
      for (const topology::Node node : {link.src, link.dst})
        if (const int host = side[at(node)]; host >= 0) add(forms_[at(host)], link, side, host);
    for (std::size_t host = 0; host < forms_.size(); ++host) std::ranges::sort(forms_[host]);
  }

  // By host, how many have its links.
  std::vector<int> alike(int without) const {
    std::map<std::pair<int, Form>, int> counts;
    for (std::size_t host = 0; host < forms_.size(); ++host)
      if (static_cast<int>(host) != without) ++counts[{cluster_.kind_of[host], forms_[host]}];
    std::vector<int> result;
    for (std::size_t host = 0; host < forms_.size(); ++host)
      result.push_back(static_cast<int>(host) == without ? 1 : counts.at({cluster_.kind_of[host], forms_[host]}));
    return result;
  }

 private:
  static constexpr int kNowhere = -1;
  static constexpr int kBeyond = -2;
  // From, to, rate, latency, and what all links of a node beyond the border carry out and in.
  using Entry = std::tuple<int, int, double, double, double, double>;
  using Form = std::vector<Entry>;

  // A NIC that is no node of the kind is told by nothing but its links.
  void add(Form& form, const topology::Link& link, const std::vector<int>& side, int host) const {
    const auto name = [&](topology::Node node) { return side[at(node)] == host ? place_[at(node)] : kBeyond; };
    const int from = name(link.src);
    const int to = name(link.dst);
    if (from >= 0 && to >= 0) return;
    const auto [out, in] = from == kBeyond ? rates_[at(link.src)]
                           : to == kBeyond ? rates_[at(link.dst)]
                                           : std::pair(0.0, 0.0);
    form.emplace_back(from, to, link.gbytes_per_s, link.alpha_us, out, in);
  }

  const topology::Cluster& cluster_;
  std::vector<int> place_;                        // by node: in the nodes of its host
  std::vector<std::pair<double, double>> rates_;  // by node: of all its links, out and in
  std::vector<Form> forms_;                       // by host
};

bool joins_two_hosts(const topology::Link& link, const std::vector<int>& side) {
  const int from = side[at(link.src)];
  const int to = side[at(link.dst)];
  return from >= 0 && to >= 0 && from != to;
}

// GB/s over the border of the root's host, in the direction of the data.
double leaving(const std::vector<topology::Link>& links, const std::vector<int>& side, int root_host, bool sums) {
  double rate = 0;
  for (const topology::Link& link : links) {
    const int from = side[at(sums ? link.dst : link.src)];
    const int to = side[at(sums ? link.src : link.dst)];
    if (from == root_host && to != root_host) rate += link.gbytes_per_s;
  }
  return rate;
}

}  // namespace

std::vector<WayToNetwork> ways_to_network(const topology::Cluster& cluster, const std::vector<topology::Link>& links,
                                          const std::vector<int>& side) {
  std::vector<WayToNetwork> node(side.size(), {kFar, kFar});
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) node[at(rank)] = {0, 0};
  const auto lower = [](double& known, double us) { return us < known ? (known = us, true) : false; };
  for (bool nearer = true; nearer;) {
    nearer = false;
    for (const topology::Link& link : links) {
      if (side[at(link.src)] < 0 || side[at(link.src)] != side[at(link.dst)]) continue;
      nearer = lower(node[at(link.dst)].out_us, node[at(link.src)].out_us + link.alpha_us) || nearer;
      nearer = lower(node[at(link.src)].in_us, node[at(link.dst)].in_us + link.alpha_us) || nearer;
    }
  }
  std::vector<WayToNetwork> result(cluster.hosts.size(), {kFar, kFar});
  for (const topology::Link& link : links) {
    const int from = side[at(link.src)];
    const int to = side[at(link.dst)];
    if (from == to) continue;
    if (from >= 0) lower(result[at(from)].out_us, node[at(link.src)].out_us + link.alpha_us);
    // A link from one host to another one counts once.
    if (to >= 0) lower(result[at(to)].in_us, node[at(link.dst)].in_us + (from < 0 ? link.alpha_us : 0));
  }
  return result;
}

double LateData::time_us(double us, double bytes) const {
  if (us <= 0) return us;
  const double later = bytes > early_bytes ? us * (1 - early_bytes / bytes) + relayed_us : 0;
  return std::max(us + direct_us, later);
}

std::vector<LateData> late_data(const topology::Cluster& cluster, const std::vector<topology::Link>& links,
                                const std::vector<int>& side, Collective collective, Rank root) {
  std::vector<LateData> result(cluster.hosts.size());
  const bool sums = collective == Collective::reduce;
  if ((!sums && collective != Collective::broadcast) || result.size() < 2) return result;
  const int root_host = cluster.host_of[at(root)];
  const std::vector<WayToNetwork> ways = ways_to_network(cluster, links, side);
  const auto out_us = [&](std::size_t host) { return sums ? ways[host].in_us : ways[host].out_us; };
  const auto in_us = [&](std::size_t host) { return sums ? ways[host].out_us : ways[host].in_us; };
  double between_us = kFar;
  for (std::size_t host = 0; host < result.size(); ++host)
    if (static_cast<int>(host) != root_host) between_us = std::min(between_us, in_us(host) + out_us(host));
  const bool joined = std::ranges::any_of(links, [&](const auto& link) { return joins_two_hosts(link, side); });
  if (joined || !std::isfinite(between_us)) between_us = 0;
  const double early = leaving(links, side, root_host, sums) * kBytesPerUs * between_us;
  const std::vector<int> alike = Forms(cluster, links, side).alike(root_host);
  for (std::size_t host = 0; host < result.size(); ++host) {
    const double direct_us = out_us(at(root_host)) + in_us(host);
    if (static_cast<int>(host) == root_host || !std::isfinite(direct_us)) continue;
    result[host] = {direct_us, direct_us + between_us, early / alike[host], between_us};
  }
  return result;
}

}  // namespace sccl::compose
