#include "compose/bounds/bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "compose/bounds/divided_bound.h"
#include "compose/bounds/latency_bound.h"
#include "compose/bounds/network_bound.h"
#include "compose/bounds/parts_bound.h"
#include "compose/bounds/row_bound.h"
#include "compose/bounds/ways_bound.h"
#include "compose/latency/late_data.h"
#include "compose/latency/quickest_flow.h"

namespace sccl::compose {
namespace {

constexpr double kBytesPerUs = 1e3;  // at one GB/s
constexpr int kMostPartRanks = 16;
constexpr int kMostPartSwitches = 3;
constexpr std::size_t kMostOnTheWay = 400;  // nodes
constexpr std::size_t kAllOnTheWay = 80;    // of more nodes only some devices are looked at
constexpr std::size_t kSomeOnTheWay = 8;
constexpr int kMostKinds = 8;
constexpr double kRounded = 1e-9;  // what is rounded where rates are added and taken away again; also in GB/s

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Bandwidth into and out of a set of nodes, in GB/s.
struct Capacity {
  double in = 0;
  double out = 0;
};

class Bounds {
 public:
  Bounds(const topology::Topology& topology, const topology::Cluster& cluster, Collective collective, Rank root,
         double bytes)
      : topology_(topology), cluster_(cluster), collective_(collective), root_(root), bytes_(bytes) {
    collect_links();
  }

  std::vector<Bound> find() {
    if (topology_.ranks > 1) {
      with_nics_ = hosts_with_nics();
      late_ = late_data(cluster_, links_, with_nics_, collective_, root_);
      look_at_ways();
      around_ranks();
      around_hosts();
      around_racks();
      within_hosts();
      on_the_way();
      for (const Bound& one : bounds_with_latency(topology_, cluster_, links_, collective_, root_, bytes_)) keep(one);
      for (const Bound& one : bounds_of_parts(topology_, cluster_, collective_, root_, bytes_, late_)) keep(one);
      for (const Bound& one : bounds_of_network(topology_, cluster_, collective_, root_, bytes_)) keep(one);
      for (const Bound& one : bounds_of_rows(topology_, cluster_, links_, collective_, root_, bytes_)) keep(one);
      latency();
    }
    std::stable_sort(found_.begin(), found_.end(), [](const Bound& a, const Bound& b) { return a.us > b.us; });
    return std::move(found_);
  }

 private:
  bool rooted() const { return info(collective_).rooted; }

  // Links to switches that lead nowhere else carry nothing.
  void collect_links() {
    std::vector<std::set<topology::Node>> next(at(topology_.nodes()));
    for (const topology::Link& link : topology_.links) {
      next[at(link.src)].insert(link.dst);
      next[at(link.dst)].insert(link.src);
    }
    std::vector<topology::Node> ends;
    const auto is_end = [&](topology::Node node) { return node >= topology_.ranks && next[at(node)].size() == 1; };
    for (topology::Node node = topology_.ranks; node < topology_.nodes(); ++node)
      if (is_end(node)) ends.push_back(node);
    while (!ends.empty()) {
      const topology::Node end = ends.back();
      ends.pop_back();
      if (next[at(end)].empty()) continue;
      const topology::Node other = *next[at(end)].begin();
      next[at(end)].clear();
      next[at(other)].erase(end);
      if (is_end(other)) ends.push_back(other);
    }
    of_node_.resize(at(topology_.nodes()));
    for (const topology::Link& link : topology_.links) {
      if (!next[at(link.src)].contains(link.dst)) continue;
      links_.push_back(link);
      of_node_[at(link.src)].out += link.gbytes_per_s;
      of_node_[at(link.dst)].in += link.gbytes_per_s;
    }
  }

  // By rank: what its links carry if each neighbouring switch is put on the better side of the border. Where no other
  // rank has that switch, the borders of all ranks enclose disjoint sets: `disjoint`.
  std::vector<Capacity> around_rank_and_switches(bool disjoint) const {
    std::map<std::pair<topology::Node, topology::Node>, double> rates;  // from, to
    std::map<topology::Node, std::set<topology::Node>> ranks_at;
    for (const topology::Link& link : links_) {
      rates[{link.src, link.dst}] += link.gbytes_per_s;
      if (link.src < topology_.ranks) ranks_at[link.dst].insert(link.src);
      if (link.dst < topology_.ranks) ranks_at[link.src].insert(link.dst);
    }
    const auto rate = [&](topology::Node from, topology::Node to) {
      const auto found = rates.find({from, to});
      return found == rates.end() ? 0 : found->second;
    };
    std::vector<Capacity> result(at(topology_.ranks));
    for (const auto& [ends, gbytes_per_s] : rates) {
      const auto [from, to] = ends;
      const double own = gbytes_per_s;  // clang 14 lets no lambda take a part of a pair
      const auto beyond = [&](topology::Node node, double others) {
        const bool may_join = node >= topology_.ranks && (!disjoint || ranks_at[node].size() == 1);
        return may_join ? std::min(own, others) : own;
      };
      if (from < topology_.ranks) result[at(from)].out += beyond(to, of_node_[at(to)].out - rate(to, from));
      if (to < topology_.ranks) result[at(to)].in += beyond(from, of_node_[at(from)].in - rate(to, from));
    }
    return result;
  }

  double us(const Demand& demand, const Capacity& capacity) const {
    return compose::us(demand, bytes_, capacity.in, capacity.out);
  }

  // Sums must pass between any k parts k - 1 times in each direction, so together the parts send twice that many
  // copies.
  void partition(const char* what, int parts, double out_gbytes_per_s) {
    const bool both = collective_ == Collective::allreduce;
    const bool one = collective_ == Collective::broadcast || collective_ == Collective::reduce;
    if ((!both && !one) || parts < 2 || out_gbytes_per_s <= 0) return;
    const double crossings = (both ? 2.0 : 1.0) * (parts - 1);
    found_.push_back({crossings * bytes_ / (out_gbytes_per_s * kBytesPerUs),
                      fmt::format("{:.0f} times the buffer crosses between the {} {}, which send {:.5g} GB/s together",
                                  crossings, parts, what, out_gbytes_per_s)});
  }

  void take(Bound& best, double time_us, const std::string& why) {
    if (time_us > best.us) best = {time_us, why};
  }

  void keep(const Bound& bound) {
    if (bound.us > 0) found_.push_back(bound);
  }

  void around_ranks() {
    Bound best;
    std::vector<double> of_hosts(cluster_.hosts.size());
    const std::vector<Capacity> disjoint = around_rank_and_switches(true);
    for (Rank rank = 0; rank < topology_.ranks; ++rank)
      of_hosts[at(cluster_.host_of[at(rank)])] += disjoint[at(rank)].out;
    double all = 0;
    for (std::size_t host = 0; host < of_hosts.size(); ++host)
      all += std::min(of_hosts[host], ways_.hosts[host].out_gbytes_per_s);
    const std::vector<Capacity> capacities = around_rank_and_switches(false);
    for (Rank rank = 0; rank < topology_.ranks; ++rank) {
      const Capacity& links = capacities[at(rank)];
      const double time = late_[at(cluster_.host_of[at(rank)])].time_us(
          us(demand(collective_, 1, topology_.ranks, rooted() && rank == root_), links), bytes_);
      if (time > best.us)
        best = {time, fmt::format("rank {}: its links carry {:.5g} GB/s in, {:.5g} out", rank, links.in, links.out)};
    }
    keep(best);
    partition("ranks", topology_.ranks, all);
  }

  void look_at_ways() {
    hosts_.resize(cluster_.hosts.size());
    if (hosts_.size() > 1) hosts_ = host_capacities();
    for (const Capacity& host : hosts_) host_rates_.push_back({host.out, host.in});
    ways_ = rates_of_ways(cluster_, links_, host_rates_);
    for (const Bound& one : bounds_of_ways(cluster_, ways_, collective_, root_, bytes_)) keep(one);
  }

  // Four borders of a host: between its devices and everything that is no path between devices, around what links of
  // the host alone join, outside its NICs, and outside its own leaf switches.
  std::vector<Capacity> host_capacities() const {
    std::vector<int> side(at(topology_.nodes()), -1);
    for (std::size_t host = 0; host < cluster_.nodes.size(); ++host)
      for (const topology::Node node : cluster_.nodes[host]) side[at(node)] = static_cast<int>(host);
    std::vector<Capacity> result = across(links_, side, cluster_.hosts.size());
    const auto take = [&] { take_less(result, across(links_, side, result.size())); };
    side = joined_on_hosts();
    take();
    side = with_nics_;
    take();
    std::map<topology::Node, std::set<int>> hosts_at;
    for (Rank rank = 0; rank < topology_.ranks; ++rank)
      if (const topology::Attachment& way = cluster_.attachments[at(rank)]; way.attached())
        hosts_at[way.leaf].insert(cluster_.host_of[at(rank)]);
    for (const auto& [leaf, hosts] : hosts_at)
      if (hosts.size() == 1) side[at(leaf)] = *hosts.begin();
    if (cluster_.hosts.size() > 1) take();
    return result;
  }

  // By node: the host whose devices reach it over other links than those of class net, or -1.
  std::vector<int> joined_on_hosts() const {
    std::vector<int> side(at(topology_.nodes()), -1);
    for (Rank rank = 0; rank < topology_.ranks; ++rank) side[at(rank)] = cluster_.host_of[at(rank)];
    spread(side);
    return side;
  }

  // To all nodes to which links of other classes than net lead.
  void spread(std::vector<int>& side) const {
    for (bool more = true; more;) {
      more = false;
      for (const topology::Link& link : links_) {
        if (link.link_class == topology::LinkClass::net || side[at(link.src)] < 0 || side[at(link.dst)] >= 0) continue;
        side[at(link.dst)] = side[at(link.src)];
        more = true;
      }
    }
  }

  // By node: the host whose devices, switches and NICs it is among, or -1.
  std::vector<int> hosts_with_nics() const {
    std::vector<int> side(at(topology_.nodes()), -1);
    for (std::size_t host = 0; host < cluster_.nodes.size(); ++host)
      for (const topology::Node node : cluster_.nodes[host]) side[at(node)] = static_cast<int>(host);
    for (Rank rank = 0; rank < topology_.ranks; ++rank)
      for (const auto& [src, dst] : cluster_.attachments[at(rank)].up) side[at(src)] = cluster_.host_of[at(rank)];
    spread(side);  // NICs that are on no rank's shortest way
    return side;
  }

  // `side` is by node: the host or rack, one of `parts`, within whose border the node is, or -1.
  static std::vector<Capacity> across(const std::vector<topology::Link>& links, const std::vector<int>& side,
                                      std::size_t parts) {
    std::vector<Capacity> sums(parts);
    for (const topology::Link& link : links) {
      const int from = side[at(link.src)];
      const int to = side[at(link.dst)];
      if (from == to) continue;
      if (from >= 0) sums[at(from)].out += link.gbytes_per_s;
      if (to >= 0) sums[at(to)].in += link.gbytes_per_s;
    }
    return sums;
  }

  // Of two borders of each part that enclose no node of another part: in each direction what the tighter one lets pass.
  static void take_less(std::vector<Capacity>& capacities, const std::vector<Capacity>& others) {
    for (std::size_t part = 0; part < capacities.size(); ++part)
      capacities[part] = {std::min(capacities[part].in, others[part].in),
                          std::min(capacities[part].out, others[part].out)};
  }

  void around_hosts() {
    if (cluster_.hosts.size() < 2) return;
    Bound best;
    double all = 0;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      all += hosts_[host].out;
      const bool has_root = rooted() && cluster_.host_of[at(root_)] == static_cast<int>(host);
      const double time =
          us(demand(collective_, static_cast<double>(cluster_.hosts[host].size()), topology_.ranks, has_root),
             hosts_[host]);
      if (time > best.us)
        best = {time, fmt::format("the NICs of the host of rank {}: {:.5g} GB/s in, {:.5g} out",
                                  cluster_.hosts[host].front(), hosts_[host].in, hosts_[host].out)};
    }
    keep(best);
    partition("hosts", static_cast<int>(hosts_.size()), all);
    for (const Bound& one : bounds_of_divided_hosts(cluster_, links_, host_rates_, collective_, bytes_)) keep(one);
  }

  void around_racks() {
    if (cluster_.racks.size() < 2 || cluster_.racks.size() == cluster_.hosts.size()) return;
    // Two borders of a rack: outside its NICs, and outside its leaf switches. A switch of several racks is within the
    // border of one of them, and the others' links to it cross that border.
    std::vector<int> rack_of(cluster_.hosts.size());
    for (std::size_t rack = 0; rack < cluster_.racks.size(); ++rack)
      for (const int host : cluster_.racks[rack]) rack_of[at(host)] = static_cast<int>(rack);
    std::vector<int> side = with_nics_;
    for (int& of_node : side)
      if (of_node >= 0) of_node = rack_of[at(of_node)];
    std::vector<Capacity> capacities = across(links_, side, cluster_.racks.size());
    for (Rank rank = 0; rank < topology_.ranks; ++rank)
      if (const topology::Attachment& way = cluster_.attachments[at(rank)]; way.attached())
        side[at(way.leaf)] = side[at(rank)];
    take_less(capacities, across(links_, side, capacities.size()));
    Bound best;
    double all = 0;
    for (std::size_t rack = 0; rack < capacities.size(); ++rack) {
      double ranks = 0;
      bool has_root = false;
      for (const int host : cluster_.racks[rack]) {
        ranks += static_cast<double>(cluster_.hosts[at(host)].size());
        has_root = has_root || (rooted() && cluster_.host_of[at(root_)] == host);
      }
      all += capacities[rack].out;
      const double time = us(demand(collective_, ranks, topology_.ranks, has_root), capacities[rack]);
      if (time > best.us)
        best = {time, fmt::format("the links of rack {} to others: {:.5g} GB/s in, {:.5g} out", rack,
                                  capacities[rack].in, capacities[rack].out)};
    }
    keep(best);
    partition("racks", static_cast<int>(capacities.size()), all);
  }

  // One host of each kind, and the root's host: parts of its devices, with the switches on the side that gives the
  // better cut.
  void within_hosts() {
    std::set<std::pair<int, bool>> seen;
    Bound best;
    for (std::size_t host = 0; host < cluster_.hosts.size(); ++host) {
      const bool has_root = rooted() && cluster_.host_of[at(root_)] == static_cast<int>(host);
      if (seen.emplace(cluster_.kind_of[host], has_root).second) parts_of(host, has_root, best);
    }
    keep(best);
  }

  // By node of a host's kind. NICs may hang on devices or on switches.
  std::vector<Capacity> rates_to_outside(std::size_t host) const {
    std::map<topology::Node, std::size_t> number;
    for (std::size_t index = 0; index < cluster_.nodes[host].size(); ++index)
      number[cluster_.nodes[host][index]] = index;
    std::vector<Capacity> result(number.size());
    for (const topology::Link& link : links_) {
      const auto src = number.find(link.src);
      const auto dst = number.find(link.dst);
      if (src != number.end() && dst == number.end()) result[src->second].out += link.gbytes_per_s;
      if (src == number.end() && dst != number.end()) result[dst->second].in += link.gbytes_per_s;
    }
    return result;
  }

  // What enters and leaves sets of a host's nodes. From one set to the next in the order of their numbers two nodes
  // change sides on average, and only their links are looked at.
  class Cuts {
   public:
    Cuts(const topology::Topology& links, const std::vector<Capacity>& outside)
        : leaving_(at(links.nodes())), entering_(at(links.nodes())), outside_(outside) {
      for (const topology::Link& link : links.links) {
        leaving_[at(link.src)].emplace_back(link.dst, link.gbytes_per_s);
        entering_[at(link.dst)].emplace_back(link.src, link.gbytes_per_s);
      }
    }

    const Capacity& go_to(unsigned set) {
      for (unsigned changed = set_ ^ set; changed != 0; changed &= changed - 1) change_side(std::countr_zero(changed));
      return capacity_;
    }

    // Without what was rounded on the way to the set.
    Capacity exact() const {
      Capacity result;
      for (unsigned left = set_; left != 0; left &= left - 1) {
        const int node = std::countr_zero(left);
        for (const auto& [other, rate] : leaving_[at(node)]) result.out += inside(other) ? 0 : rate;
        for (const auto& [other, rate] : entering_[at(node)]) result.in += inside(other) ? 0 : rate;
        result.out += outside_[at(node)].out;
        result.in += outside_[at(node)].in;
      }
      return result;
    }

   private:
    // A link to a node inside no longer crosses when its other end enters the set.
    void change_side(int node) {
      const double sign = inside(node) ? -1 : 1;
      for (const auto& [other, rate] : leaving_[at(node)])
        (inside(other) ? capacity_.in : capacity_.out) += inside(other) ? -sign * rate : sign * rate;
      for (const auto& [other, rate] : entering_[at(node)])
        (inside(other) ? capacity_.out : capacity_.in) += inside(other) ? -sign * rate : sign * rate;
      capacity_.in += sign * outside_[at(node)].in;
      capacity_.out += sign * outside_[at(node)].out;
      set_ ^= 1u << node;
    }
    bool inside(int node) const { return (set_ >> node & 1) != 0; }

    std::vector<std::vector<std::pair<int, double>>> leaving_, entering_;  // by node: other ends and rates
    const std::vector<Capacity>& outside_;
    unsigned set_ = 0;
    Capacity capacity_;
  };

  void parts_of(std::size_t host, bool has_root, Bound& best) {
    const topology::Topology& links = cluster_.kinds[at(cluster_.kind_of[host])];
    if (links.ranks > kMostPartRanks || links.switches > kMostPartSwitches || links.ranks < 3) return;
    const int nodes = links.nodes();
    const std::vector<Capacity> outside = rates_to_outside(host);
    Cuts cuts(links, outside);
    const unsigned sets = 1u << nodes;
    const unsigned rank_mask = (1u << links.ranks) - 1;
    for (unsigned set = 1; set < sets; ++set) {
      const Capacity& about = cuts.go_to(set);
      const int inside = std::popcount(set & rank_mask);
      if (inside < 2 || inside == links.ranks) continue;
      const bool root_inside = has_root && (set >> cluster_.local_of[at(root_)] & 1) != 0;
      const Demand wanted = demand(collective_, inside, topology_.ranks, root_inside);
      const bool crossed = about.in > kRounded && about.out > kRounded;
      if (crossed && late_[host].time_us(us(wanted, about), bytes_) <= best.us * (1 - kRounded)) continue;
      const Capacity capacity = cuts.exact();
      const double time = late_[host].time_us(us(wanted, capacity), bytes_);
      if (time <= best.us) continue;
      best = {time, fmt::format("{} devices of the host of rank {}: {:.5g} GB/s in, {:.5g} out", inside,
                                cluster_.hosts[host].front(), capacity.in, capacity.out)};
      part_.clear();
      for (int node = 0; node < nodes && !root_inside; ++node)
        if ((set >> node & 1) != 0) part_.push_back(cluster_.nodes[host][at(node)]);
    }
  }

  // Data from other hosts, or from the root, that comes to the farthest device of a host, of each kind one; the same
  // for the devices that links serve worst (within_hosts). Sums backwards.
  void on_the_way() {
    const bool rooted = collective_ == Collective::broadcast || collective_ == Collective::reduce;
    const bool sums = collective_ == Collective::reduce || collective_ == Collective::reducescatter;
    const bool known = rooted || sums || collective_ == Collective::allgather || collective_ == Collective::allreduce;
    if (!known) return;
    Bound best;
    const int root_host = rooted ? cluster_.host_of[at(root_)] : -1;
    const auto look = [&](const std::vector<topology::Node>& nodes, int inside, std::optional<topology::Node> source,
                          const LateData& late) {
      if (nodes.size() > kMostOnTheWay) return;
      const Reading reading = sums ? Reading::backwards : Reading::forwards;
      const QuickestFlow flow(topology_, nodes, reading);
      std::optional<QuickestFlow> relayed;
      if (late.between_us > 0 && bytes_ > late.early_bytes)
        relayed.emplace(topology_, nodes, reading, Delay{with_nics_, root_host, late.between_us});
      const Demand wanted = demand(collective_, inside, topology_.ranks, false);
      const double times = sums ? wanted.out : wanted.in;
      const std::size_t apart = nodes.size() > kAllOnTheWay ? nodes.size() / kSomeOnTheWay : 1;
      for (std::size_t i = 0; i < nodes.size(); i += apart) {
        const topology::Node rank = nodes[i];
        if (rank >= topology_.ranks || rank == source) continue;
        double us = flow.us(source, rank, times * bytes_);
        if (relayed) us = std::max(us, relayed->us(source, rank, times * (bytes_ - late.early_bytes)));
        if (us <= best.us || !std::isfinite(us)) continue;
        const std::string other = source ? fmt::format("rank {}", *source) : "the ranks elsewhere";
        best = {us, fmt::format("{:.4g} times the buffer, with all latencies, {} rank {} {} {}", times,
                                sums ? "from" : "to", rank, sums ? "to" : "from", other)};
      }
    };
    std::set<int> seen;
    for (int host = 0; host < static_cast<int>(cluster_.hosts.size()); ++host) {
      const int kind = cluster_.kind_of[at(host)];
      if (host != root_host && (kind >= kMostKinds || !seen.insert(kind).second)) continue;
      if (!rooted && cluster_.hosts.size() < 2) continue;
      std::vector<topology::Node> nodes = nodes_with_nics(host);
      if (rooted && host != root_host)
        for (const topology::Node node : nodes_with_nics(root_host))
          if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
      look(nodes, static_cast<int>(cluster_.hosts[at(host)].size()), rooted ? std::optional(root_) : std::nullopt,
           late_[at(host)]);
    }
    if (!part_.empty()) {
      const auto devices = std::count_if(part_.begin(), part_.end(), [&](auto node) { return node < topology_.ranks; });
      look(part_, static_cast<int>(devices), std::nullopt, {});
    }
    keep(best);
  }

  // A host's nodes, and the switches between its devices and its NICs.
  std::vector<topology::Node> nodes_with_nics(int host) const {
    std::set<topology::Node> nodes(cluster_.nodes[at(host)].begin(), cluster_.nodes[at(host)].end());
    for (const Rank rank : cluster_.hosts[at(host)])
      for (const auto& [src, dst] : cluster_.attachments[at(rank)].up) nodes.insert(src);
    return {nodes.begin(), nodes.end()};
  }

  // A message from the first host to the farthest host, over the fastest NICs of both.
  void latency() {
    if (cluster_.hosts.size() < 2) {
      double least = std::numeric_limits<double>::infinity();
      for (const topology::Link& link : topology_.links) least = std::min(least, link.alpha_us);
      if (std::isfinite(least)) keep({least, "the latency of one link"});
      return;
    }
    // Some of every host's data goes to every other host; of a rooted collective only between the root's and the
    // others.
    const std::vector<WayToNetwork> hosts = ways_to_network(cluster_, links_, with_nics_);
    const std::size_t first = rooted() ? at(cluster_.host_of[at(root_)]) : 0;
    const bool to_others = collective_ != Collective::reduce && collective_ != Collective::gather;
    const bool from_others = collective_ != Collective::broadcast && collective_ != Collective::scatter;
    double longest = 0;
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      if (host == first) continue;
      if (to_others) longest = std::max(longest, hosts[first].out_us + hosts[host].in_us);
      if (from_others) longest = std::max(longest, hosts[host].out_us + hosts[first].in_us);
    }
    if (std::isfinite(longest)) keep({longest, "the latency between two hosts"});
  }

  const topology::Topology& topology_;
  const topology::Cluster& cluster_;
  Collective collective_;
  Rank root_;
  double bytes_;
  std::vector<topology::Link> links_;
  std::vector<Capacity> of_node_;
  std::vector<Capacity> hosts_;        // between each of several hosts and the others
  std::vector<HostRates> host_rates_;  // the same
  WayRates ways_;
  std::vector<topology::Node> part_;  // the nodes of the best bound of parts of hosts, if the root is elsewhere
  std::vector<int> with_nics_;        // hosts_with_nics()
  std::vector<LateData> late_;        // by host
  std::vector<Bound> found_;
};

}  // namespace

double us(const Demand& demand, double bytes, double in_gbytes_per_s, double out_gbytes_per_s) {
  const auto time = [&](double wanted, double rate) {
    return wanted > 0 && rate > 0 ? wanted * bytes / (rate * kBytesPerUs) : 0.0;
  };
  return std::max(time(demand.in, in_gbytes_per_s), time(demand.out, out_gbytes_per_s));
}

Demand demand(Collective collective, double inside, double all, bool has_root) {
  const double others = all - inside;
  if (others <= 0) return {};
  switch (collective) {
    case Collective::allgather:
      return {others, inside};
    case Collective::reducescatter:
      return {inside / all, others / all};
    case Collective::allreduce:
      return {1, 1};
    case Collective::broadcast:
      return has_root ? Demand{0, 1} : Demand{1, 0};
    case Collective::reduce:
      return has_root ? Demand{1, 0} : Demand{0, 1};
    case Collective::alltoall:
      return {inside * others / all, inside * others / all};
    case Collective::gather:
      return has_root ? Demand{others, 0} : Demand{0, inside};
    case Collective::scatter:
      return has_root ? Demand{0, others / all} : Demand{inside / all, 0};
    default:
      return {};
  }
}

std::vector<Bound> bounds(const topology::Topology& topology, const topology::Cluster& cluster, Collective collective,
                          Rank root, double bytes) {
  return Bounds(topology, cluster, collective, root, bytes).find();
}

}  // namespace sccl::compose
