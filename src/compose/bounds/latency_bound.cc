#include "compose/bounds/latency_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "compose/bounds/parts_bound.h"

namespace sccl::compose {
namespace {

constexpr double kBytesPerUs = 1e3;  // at one GB/s
constexpr double kFar = std::numeric_limits<double>::infinity();
constexpr std::size_t kParts = 32;  // of a host's devices: from the nearest to the farthest
constexpr std::size_t kMostDevices = 64;
constexpr int kHalvings = 60;
constexpr double kAtOnce[] = {0};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Of each part of a host's devices the least latency between its devices and a border.
using Profile = std::array<double, kParts>;

Profile nearer(const Profile& a, const Profile& b) {
  Profile result;
  std::transform(a.begin(), a.end(), b.begin(), result.begin(), [](double x, double y) { return std::min(x, y); });
  return result;
}

Profile profile_of(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  Profile result;
  for (std::size_t part = 0; part < kParts; ++part) result[part] = us[part * us.size() / kParts];
  return result;
}

// A link over the border of a host.
struct Crossing {
  int inside = 0;   // its node on the host's side, as a place in the list of the host's nodes
  int outside = 0;  // its other node in the topology
  double gbytes_per_s = 0;
  double alpha_us = 0;
};

enum class Way : std::uint8_t { in, out };

// The links of a host in numbers of its own, so that equal hosts are found.
struct Links {
  int devices = 0;
  std::vector<std::tuple<int, int, double>> inner;
  std::vector<int> borders;  // nodes

  auto operator<=>(const Links&) const = default;
};

// Latencies between a host's nodes.
class Inside {
 public:
  explicit Inside(const Links& host) : devices_(at(host.devices)) {
    std::size_t nodes = devices_;
    for (const auto& [src, dst, us] : host.inner) nodes = std::max({nodes, at(src) + 1, at(dst) + 1});
    for (const int node : host.borders) nodes = std::max(nodes, at(node) + 1);
    sends_.assign(nodes, std::vector<double>(nodes, kFar));
    for (std::size_t from = 0; from < nodes; ++from) search(from, host);
    between_ = sends_;
    for (std::size_t by = 0; by < devices_; ++by)
      for (std::size_t a = 0; a < devices_; ++a)
        for (std::size_t b = 0; b < devices_; ++b)
          between_[a][b] = std::min(between_[a][b], between_[a][by] + between_[by][b]);
  }

  // Between the node and the devices, of which the first or last one is reached over switches alone. At most `most_us`
  // between that one and the others.
  Profile profile(int node, Way way, double most_us) const {
    Profile result;
    result.fill(kFar);
    for (std::size_t port = 0; port < devices_; ++port) {
      const double to_port = nearest(node, port, way);
      if (!std::isfinite(to_port)) continue;
      std::vector<double> us;
      for (std::size_t device = 0; device < devices_; ++device)
        us.push_back(to_port + std::min(most_us, way == Way::in ? between_[port][device] : between_[device][port]));
      result = nearer(result, profile_of(std::move(us)));
    }
    return result;
  }

  // The same of what comes to the node, less the latency to the nearest device.
  Profile profile_behind(int node, double most_us) const {
    Profile result = profile(node, Way::in, most_us);
    const double nearest_us = nearest(node, Way::in);
    if (std::isfinite(nearest_us))
      for (double& us : result) us -= nearest_us;
    return result;
  }

  // From the node to the nearest device, or back.
  double nearest(int node, Way way) const {
    double least = kFar;
    for (std::size_t port = 0; port < devices_; ++port) least = std::min(least, nearest(node, port, way));
    return least;
  }

 private:
  double nearest(int node, std::size_t port, Way way) const {
    return way == Way::in ? sends_[at(node)][port] : sends_[port][at(node)];
  }

  // Devices pass on what has come to them: no way leads over them.
  void search(std::size_t from, const Links& host) {
    std::vector<double>& us = sends_[from];
    us[from] = 0;
    for (bool nearer = true; nearer;) {
      nearer = false;
      for (const auto& [src, dst, alpha_us] : host.inner) {
        if (at(src) < devices_ && at(src) != from) continue;
        if (us[at(src)] + alpha_us >= us[at(dst)]) continue;
        us[at(dst)] = us[at(src)] + alpha_us;
        nearer = true;
      }
    }
  }

  std::size_t devices_;
  std::vector<std::vector<double>> sends_;    // by node: over switches alone
  std::vector<std::vector<double>> between_;  // the same, of devices over other devices too
};

// What links carry that have equal latencies.
struct Rate {
  double gbytes_per_s = 0;
  const Profile* near = nullptr;
  double way_us = 0;
};

// The least time in which the links carry so many bytes, each in the time that the latencies leave, by the mean over
// parts of devices. `others`: of the devices at the other end, too.
double least_us(const std::vector<Rate>& rates, std::span<const double> others, double bytes) {
  const double parts = static_cast<double>(kParts * others.size());
  double all = 0;
  double farthest = 0;
  for (const Rate& one : rates) {
    all += one.gbytes_per_s;
    farthest = std::max(farthest, one.way_us + one.near->back());
  }
  const auto carried = [&](double us) {
    double sum = 0;
    for (const Rate& one : rates)
      for (const double near : *one.near)
        for (const double other : others)
          sum += one.gbytes_per_s * std::max(0.0, us - one.way_us - near - other) / parts;
    return sum * kBytesPerUs;
  };
  double low = 0;
  double high = bytes / (all * kBytesPerUs) + farthest + others.back();
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (carried(middle) < bytes ? low : high) = middle;
  }
  return low;
}

class LatencyBounds {
 public:
  LatencyBounds(const topology::Topology& topology, const topology::Cluster& cluster,
                const std::vector<topology::Link>& links, Collective collective, Rank root, double bytes)
      : topology_(topology),
        cluster_(cluster),
        links_(links),
        collective_(collective),
        root_host_(info(collective).rooted ? cluster.host_of[at(root)] : -1),
        bytes_(bytes),
        side_(at(topology.nodes()), -1) {}

  std::vector<Bound> find() {
    for (std::size_t host = 0; host < cluster_.nodes.size(); ++host) take(host, cluster_.nodes[host]);
    look();
    for (std::size_t host = 0; host < cluster_.nodes.size(); ++host)
      for (const Rank rank : cluster_.hosts[host])
        for (const auto& [src, dst] : cluster_.attachments[at(rank)].up) take(host, {src});
    look();
    std::map<topology::Node, std::size_t> host_at;  // hosts_.size(): several
    for (Rank rank = 0; rank < topology_.ranks; ++rank)
      if (const topology::Attachment& way = cluster_.attachments[at(rank)]; way.attached()) {
        const auto host = at(cluster_.host_of[at(rank)]);
        const auto [known, first] = host_at.emplace(way.leaf, host);
        if (!first && known->second != host) known->second = cluster_.hosts.size();
      }
    for (const auto& [leaf, host] : host_at)
      if (host < cluster_.hosts.size()) take(host, {leaf});
    look();
    std::vector<Bound> result;
    for (const Bound& one : {best_host_, best_sum_})
      if (one.us > 0) result.push_back(one);
    return result;
  }

 private:
  struct Host {
    std::vector<topology::Node> nodes;  // devices first
    std::array<std::vector<Crossing>, 2> crossings;
    const Inside* inside = nullptr;
    std::array<double, 2> nearest_us{kFar, kFar};  // from a device over the border, and back
    std::vector<Rate> out;
    double out_gbytes_per_s = 0;
  };

  bool copies() const {
    return collective_ == Collective::allgather || collective_ == Collective::allreduce ||
           collective_ == Collective::broadcast;
  }
  bool sums() const { return info(collective_).reduces; }

  // Puts nodes within a host's border.
  void take(std::size_t host, const std::vector<topology::Node>& nodes) {
    hosts_.resize(cluster_.nodes.size());
    for (const topology::Node node : nodes) {
      if (side_[at(node)] >= 0) continue;
      side_[at(node)] = static_cast<int>(host);
      hosts_[host].nodes.push_back(node);
    }
  }

  // The bounds for the present borders.
  void look() {
    place_.assign(at(topology_.nodes()), -1);
    for (const Host& host : hosts_)
      for (std::size_t i = 0; i < host.nodes.size(); ++i) place_[at(host.nodes[i])] = static_cast<int>(i);
    std::vector<Links> forms(hosts_.size());
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      forms[host].devices = static_cast<int>(cluster_.hosts[host].size());
      for (auto& crossings : hosts_[host].crossings) crossings.clear();
    }
    for (const topology::Link& link : links_) {
      const int from = side_[at(link.src)];
      const int to = side_[at(link.dst)];
      const int src = place_[at(link.src)];
      const int dst = place_[at(link.dst)];
      if (from == to) {
        if (from >= 0) forms[at(from)].inner.emplace_back(src, dst, link.alpha_us);
        continue;
      }
      if (!(link.gbytes_per_s > 0)) continue;
      if (from >= 0) add(forms[at(from)], from, Way::out, {src, link.dst, link.gbytes_per_s, link.alpha_us});
      if (to >= 0) add(forms[at(to)], to, Way::in, {dst, link.src, link.gbytes_per_s, link.alpha_us});
    }
    for (std::size_t host = 0; host < hosts_.size(); ++host) find_inside(hosts_[host], std::move(forms[host]));
    find_latencies();
    for (const Way way : {Way::in, Way::out}) around_hosts(way);
    if (collective_ == Collective::allreduce) sum_of_hosts();
  }

  void add(Links& form, int host, Way way, const Crossing& one) {
    hosts_[at(host)].crossings[at(static_cast<int>(way))].push_back(one);
    form.borders.push_back(one.inside);
  }

  void find_inside(Host& host, Links form) {
    std::sort(form.inner.begin(), form.inner.end());
    std::sort(form.borders.begin(), form.borders.end());
    form.borders.erase(std::unique(form.borders.begin(), form.borders.end()), form.borders.end());
    auto known = insides_.find(form);
    if (known == insides_.end()) {
      Inside inside(form);
      known = insides_.emplace(std::move(form), std::move(inside)).first;
    }
    host.inside = &known->second;
    for (const Way way : {Way::in, Way::out}) {
      double& least = host.nearest_us[at(static_cast<int>(way))];
      least = kFar;
      for (const Crossing& one : host.crossings[at(static_cast<int>(way))])
        least = std::min(least, one.alpha_us + host.inside->nearest(one.inside, way));
    }
  }

  // Over the border of any other host, as far as to the nearest device, or from there.
  void find_latencies() {
    for (const Way way : {Way::in, Way::out}) {
      auto& [least, host_of_least, second] = nearest_[at(static_cast<int>(way))];
      least = second = kFar;
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        const double us = hosts_[host].nearest_us[at(static_cast<int>(way))];
        if (us < least) {
          second = std::exchange(least, us);
          host_of_least = host;
        } else {
          second = std::min(second, us);
        }
      }
    }
    between_us_ = kFar;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      const auto& [in_us, out_us] = hosts_[host].nearest_us;
      between_us_ = std::min(between_us_, in_us + out_us);  // out of a host and back to the same one
      for (const Crossing& one : hosts_[host].crossings[at(static_cast<int>(Way::out))])
        between_us_ = std::min(between_us_, hosts_[host].inside->nearest(one.inside, Way::out) + one.alpha_us +
                                                beyond_us(host, one, Way::out));
    }
  }

  // From the outer end of a link to the nearest device of another host, or from there.
  double beyond_us(std::size_t host, const Crossing& one, Way way) const {
    const Way other = way == Way::in ? Way::out : Way::in;
    const auto& [least, host_of_least, second] = nearest_[at(static_cast<int>(other))];
    const double elsewhere = host == host_of_least ? second : least;
    const int there = side_[at(one.outside)];
    if (there < 0) return elsewhere;
    return std::min(elsewhere, hosts_[at(there)].inside->nearest(place_[at(one.outside)], other));
  }

  const Profile& profile(const Inside& inside, int node, Way way, double most_us) {
    const auto [known, inserted] = profiles_.try_emplace({&inside, node, way, most_us});
    if (inserted) known->second = inside.profile(node, way, most_us);
    return known->second;
  }

  // Empty if some of the links lead nowhere.
  std::vector<Rate> rates(std::size_t host, Way way, double most_us) {
    std::map<std::pair<const Profile*, double>, double> sums;
    for (const Crossing& one : hosts_[host].crossings[at(static_cast<int>(way))]) {
      const Profile& near = profile(*hosts_[host].inside, one.inside, way, most_us);
      const double way_us = one.alpha_us + beyond_us(host, one, way);
      if (!std::isfinite(near.back()) || !std::isfinite(way_us)) return {};
      sums[{&near, way_us}] += one.gbytes_per_s;
    }
    std::vector<Rate> result;
    for (const auto& [key, gbytes_per_s] : sums) result.push_back({gbytes_per_s, key.first, key.second});
    return result;
  }

  void around_hosts(Way way) {
    if (way == Way::in ? !copies() : !sums()) return;
    std::map<std::vector<std::tuple<double, const Profile*, double>>, bool> seen;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      const std::size_t devices = cluster_.hosts[host].size();
      if (devices > kMostDevices) continue;
      const Demand wanted =
          demand(collective_, static_cast<double>(devices), topology_.ranks, root_host_ == static_cast<int>(host));
      const double bytes = (way == Way::in ? wanted.in : wanted.out) * bytes_;
      const std::vector<Rate> links = bytes > 0 ? rates(host, way, kFar) : std::vector<Rate>{};
      std::vector<std::tuple<double, const Profile*, double>> key{{bytes, nullptr, 0}};
      double gbytes_per_s = 0;
      for (const Rate& one : links) {
        key.emplace_back(one.gbytes_per_s, one.near, one.way_us);
        gbytes_per_s += one.gbytes_per_s;
      }
      if (links.empty() || !seen.emplace(std::move(key), true).second) continue;
      const double us = least_us(links, kAtOnce, bytes);
      if (us <= best_host_.us) continue;
      best_host_ = {us, fmt::format("the NICs of the host of rank {}, {:.5g} GB/s {}, with latencies between them and "
                                    "all devices",
                                    cluster_.hosts[host].front(), gbytes_per_s, way == Way::in ? "in" : "out")};
    }
  }

  // Each host with the border that lets least out.
  void sum_of_hosts() {
    std::vector<Rate> links;
    // The way of a link counts what leads to the first device of its target.
    Profile others;
    others.fill(kFar);
    std::set<std::pair<const Inside*, int>> behind;
    double gbytes_per_s = 0;
    for (std::size_t index = 0; index < hosts_.size(); ++index) {
      Host& host = hosts_[index];
      if (cluster_.hosts[index].size() > kMostDevices) return;
      for (const Crossing& one : host.crossings[at(static_cast<int>(Way::in))])
        if (behind.emplace(host.inside, one.inside).second)
          others = nearer(others, host.inside->profile_behind(one.inside, between_us_));
      double out = 0;
      for (const Crossing& one : host.crossings[at(static_cast<int>(Way::out))]) out += one.gbytes_per_s;
      if (host.out.empty() || out < host.out_gbytes_per_s) {
        host.out = rates(index, Way::out, between_us_);
        host.out_gbytes_per_s = out;
      }
      if (host.out.empty()) return;
      gbytes_per_s += host.out_gbytes_per_s;
      links.insert(links.end(), host.out.begin(), host.out.end());
    }
    if (!std::isfinite(others.back())) return;
    std::map<std::pair<const Profile*, double>, double> sums;
    for (const Rate& one : links) sums[{one.near, one.way_us}] += one.gbytes_per_s;
    links.clear();
    for (const auto& [key, rate] : sums) links.push_back({rate, key.first, key.second});
    const double crossings = 2.0 * (static_cast<double>(hosts_.size()) - 1);
    const double us = least_us(links, others, crossings * bytes_);
    if (us > best_sum_.us)
      best_sum_ = {us, fmt::format("{:.0f} times the buffer crosses between the {} hosts, which send {:.5g} GB/s "
                                   "together, with latencies between NICs and all devices",
                                   crossings, hosts_.size(), gbytes_per_s)};
  }

  const topology::Topology& topology_;
  const topology::Cluster& cluster_;
  const std::vector<topology::Link>& links_;
  Collective collective_;
  int root_host_;
  double bytes_;
  std::vector<int> side_;   // by node: the host within whose border it is, or -1
  std::vector<int> place_;  // by node: in Host::nodes
  std::vector<Host> hosts_;
  std::map<Links, Inside> insides_;
  std::map<std::tuple<const Inside*, int, Way, double>, Profile> profiles_;
  std::array<std::tuple<double, std::size_t, double>, 2> nearest_;  // over a border: the least, where, the second
  double between_us_ = 0;  // the least latency from a device to one of another host, or out of a host and back
  Bound best_host_, best_sum_;
};

}  // namespace

std::vector<Bound> bounds_with_latency(const topology::Topology& topology, const topology::Cluster& cluster,
                                       const std::vector<topology::Link>& links, Collective collective, Rank root,
                                       double bytes) {
  const bool known = collective != Collective::alltoall && collective != Collective::gather &&
                     collective != Collective::scatter && collective != Collective::sendrecv;
  if (!known || cluster.hosts.size() < 2) return {};
  return LatencyBounds(topology, cluster, links, collective, root, bytes).find();
}

}  // namespace sccl::compose
