#include "compose/bounds/divided_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
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
  double inner_gbytes_per_s = 0;  // from part to part, and to switches of the host
  double out_gbytes_per_s = 0;    // of the ways to the network
  double in_gbytes_per_s = 0;
  double most_gbytes_per_s = 0;  // of one part's ways, in and out
};

// What limits the passes over the network.
enum class Limit : std::uint8_t { out, in, others };

// In all parts of all hosts.
struct Sum {
  int parts = 0;
  double gbytes_per_s = 0;
};

class HostDivisions {
 public:
  // `links`: of this host, from it to the network, and back. Devices come first among `nodes`.
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

  std::vector<Division> all(const HostRates& whole) {
    const double both = whole.in_gbytes_per_s + whole.out_gbytes_per_s;
    std::vector<Division> result{{1, 0, whole.out_gbytes_per_s, whole.in_gbytes_per_s, both},
                                 joined_from(std::numeric_limits<double>::infinity())};
    for (const double rate : rates_) result.push_back(joined_from(rate));
    return result;
  }

 private:
  bool is_here(int node) const { return at(node) < leader_.size(); }
  bool inside(const topology::Link& link) const { return is_here(link.src) && is_here(link.dst); }

  int find(int node) const {
    while (leader_[at(node)] != node) node = leader_[at(node)];
    return node;
  }

  // The parts that links of at least this rate join. Switches that are joined to no device are in no part.
  Division joined_from(double rate) {
    std::iota(leader_.begin(), leader_.end(), 0);
    for (const topology::Link& link : links_)
      if (inside(link) && link.gbytes_per_s >= rate) leader_[at(find(link.src))] = find(link.dst);
    std::map<int, double> ways;  // of each part, in and out
    for (std::size_t device = 0; device < devices_; ++device) ways.emplace(find(static_cast<int>(device)), 0);
    Division result{static_cast<int>(ways.size()), 0, 0, 0, 0};
    for (const topology::Link& link : links_) {
      const auto from = is_here(link.src) ? ways.find(find(link.src)) : ways.end();
      const auto to = is_here(link.dst) ? ways.find(find(link.dst)) : ways.end();
      if (inside(link)) {
        if (from != ways.end() && from != to) result.inner_gbytes_per_s += link.gbytes_per_s;
      } else if (from != ways.end()) {
        result.out_gbytes_per_s += link.gbytes_per_s;
        from->second += link.gbytes_per_s;
      } else if (is_here(link.dst)) {  // a switch that is in no part passes on to parts what comes to it
        result.in_gbytes_per_s += link.gbytes_per_s;
        if (to != ways.end()) to->second += link.gbytes_per_s;
      }
    }
    for (const auto& [part, gbytes_per_s] : ways)
      result.most_gbytes_per_s = std::max(result.most_gbytes_per_s, gbytes_per_s);
    return result;
  }

  std::size_t devices_;
  std::vector<topology::Link> links_;
  std::vector<int> leader_;  // of the part of each node
  std::set<double> rates_;
};

// The divisions of all hosts for which what crosses between parts, less `least` GB/s for each part, is least.
Sum best_divisions(const std::vector<std::vector<Division>>& divisions, Limit limit, double least) {
  const auto rate = [&](const Division& one) {
    const double ways = limit == Limit::out  ? one.out_gbytes_per_s
                        : limit == Limit::in ? one.in_gbytes_per_s
                                             : one.out_gbytes_per_s + one.in_gbytes_per_s;
    return one.inner_gbytes_per_s + ways;
  };
  const auto cost = [&](const Division& one) { return rate(one) - least * one.parts; };
  const auto without = [&](const Division& one) { return cost(one) - one.most_gbytes_per_s; };
  const auto best = [](const std::vector<Division>& choices, const auto& cost_of) -> const Division& {
    return *std::min_element(choices.begin(), choices.end(),
                             [&](const auto& a, const auto& b) { return cost_of(a) < cost_of(b); });
  };
  Sum sum;
  // Of one host a part is left out: where that gains most.
  double most = 0;
  Sum gained;
  for (const std::vector<Division>& choices : divisions) {
    const Division& usual = best(choices, cost);
    sum.parts += usual.parts;
    sum.gbytes_per_s += rate(usual);
    if (limit != Limit::others) continue;
    const Division& other = best(choices, without);
    if (const double gain = cost(usual) - without(other); gain > most) {
      most = gain;
      gained = {other.parts - usual.parts, rate(other) - other.most_gbytes_per_s - rate(usual)};
    }
  }
  return {sum.parts + gained.parts, sum.gbytes_per_s + gained.gbytes_per_s};
}

// The host that is divided where all others are one part.
struct OneHost {
  std::size_t host = 0;
  int parts = 1;
  double gbytes_per_s = 0;  // that pass from part to part, to the others and back
};

OneHost one_divided(const std::vector<std::vector<Division>>& divisions, const std::vector<HostRates>& hosts) {
  OneHost best;
  double least = std::numeric_limits<double>::infinity();  // GB/s for each pass
  for (std::size_t host = 0; host < divisions.size(); ++host)
    for (const Division& one : divisions[host]) {
      const double rate = one.inner_gbytes_per_s + std::min(one.out_gbytes_per_s, hosts[host].out_gbytes_per_s) +
                          std::min(one.in_gbytes_per_s, hosts[host].in_gbytes_per_s);
      if (!(rate > 0) || rate / one.parts >= least * (1 - 1e-9)) continue;
      least = rate / one.parts;
      best = {host, one.parts, rate};
    }
  return best;
}

}  // namespace

std::vector<Bound> bounds_of_divided_hosts(const topology::Cluster& cluster, const std::vector<topology::Link>& links,
                                           const std::vector<HostRates>& hosts, Collective collective, double bytes) {
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
  for (const topology::Link& link : links) {
    const int from = host_of[at(link.src)];
    const int to = host_of[at(link.dst)];
    if (from >= 0) of_host[at(from)].push_back(link);
    if (to >= 0 && to != from) of_host[at(to)].push_back(link);
  }
  std::vector<std::vector<Division>> divisions;
  for (std::size_t host = 0; host < cluster.hosts.size(); ++host)
    divisions.push_back(
        HostDivisions(cluster.nodes[host], cluster.hosts[host].size(), std::move(of_host[host])).all(hosts[host]));
  double least = std::numeric_limits<double>::infinity();  // GB/s for each pass
  int parts = 0;
  for (const Limit limit : {Limit::out, Limit::in, Limit::others})
    for (int step = 0; step < kMostSteps; ++step) {
      // At first: hosts as a whole.
      const double guess = std::isfinite(least) ? least : 0;
      const Sum sum = best_divisions(divisions, limit, guess);
      if (sum.parts < 2 || !(sum.gbytes_per_s > 0)) break;
      const double ratio = sum.gbytes_per_s / (sum.parts - 1);
      if (ratio >= least * (1 - 1e-9)) break;
      least = ratio;
      parts = sum.parts;
    }
  const double passes = both ? 2 : 1;
  std::vector<Bound> result;
  double whole = 0;
  for (const HostRates& one : hosts) whole += one.out_gbytes_per_s;
  const double all_but_one = static_cast<double>(hosts.size()) - 1;
  if (parts > 1 && least < whole / all_but_one * (1 - 1e-9))  // hosts as a whole are another bound
    result.push_back({passes * bytes / (least * kBytesPerUs),
                      fmt::format("{:.0f} times the buffer crosses between {} parts of {} hosts, of which {:.5g} GB/s "
                                  "can pass together",
                                  passes * (parts - 1), parts, divisions.size(), least * (parts - 1))});
  if (const OneHost one = one_divided(divisions, hosts); one.parts > 1)
    result.push_back({passes * one.parts * bytes / (one.gbytes_per_s * kBytesPerUs),
                      fmt::format("{:.0f} times the buffer crosses between {} parts of the host of rank {} and all "
                                  "others, of which {:.5g} GB/s can pass together",
                                  passes * one.parts, one.parts, cluster.hosts[one.host].front(), one.gbytes_per_s)});
  return result;
}

}  // namespace sccl::compose
