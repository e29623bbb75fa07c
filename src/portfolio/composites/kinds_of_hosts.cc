// What is known of a cluster's hosts before any collective is planned: their NICs, kinds and ports, and their racks.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "compose/network/handed_over.h"
#include "portfolio/composites/composites.h"
#include "portfolio/host/near_ports.h"
#include "portfolio/links/shares.h"
#include "schedule/simulation/cost.h"

namespace sccl::portfolio {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Kinds of hosts whose levels take tens of milliseconds each to find, or milliseconds.
constexpr std::ptrdiff_t kMostKindsOfPorts = 4;
constexpr std::ptrdiff_t kMostKindsOfFewPorts = 8;
constexpr int kFewPorts = 8;
constexpr int kMostPairsInFull = 3000;  // of devices: five kinds of hosts of 24 of them
constexpr double kLessBusy = 0.9;
constexpr std::size_t kMostLeafSwitches = 1024;  // between which ways are looked at
constexpr std::size_t kMostKindsOfPairs = 64;
constexpr double kMostWaysOfPairs = 2.2e6;  // 64 kinds of 8 devices with a NIC each; hosts of 72 took minutes

std::ptrdiff_t most_kinds_of_ports(const topology::Topology& links) {
  return links.ranks <= kFewPorts ? kMostKindsOfFewPorts : kMostKindsOfPorts;
}

// Hosts with NICs of about one rate.
struct Class {
  double rate = 0;
  int hosts = 0;
  int turns = 0;  // in which they are leaves
};

// Of all turns together.
class Leaves {
 public:
  Leaves(std::vector<Class> classes, int hosts, int turns)
      : classes_(std::move(classes)), hosts_(hosts), turns_(turns) {
    // Whoever takes longest is a leaf in one more turn; those with slower NICs are leaves no less often.
    std::vector<Class> best = classes_;
    least_us_ = longest().first;
    for (;;) {
      const std::size_t slowest = longest().second;
      if (slowest + 1 >= classes_.size() || classes_[slowest].turns == turns_) break;
      const int more = ++classes_[slowest].turns;
      for (std::size_t slower = 0; slower < slowest; ++slower)
        classes_[slower].turns = std::max(classes_[slower].turns, more);
      if (const double us = longest().first; us < least_us_) {
        least_us_ = us;
        best = classes_;
      }
    }
    classes_ = std::move(best);
  }

  double us() const { return least_us_; }

  // By turn.
  std::vector<int> counts() const {
    std::vector<int> result(at(turns_), 0);
    for (const Class& one : classes_)
      for (int turn = 0; turn < one.turns; ++turn) result[at(in_order(turn))] += one.hosts;
    return result;
  }

 private:
  // Evenly over powers of two.
  int in_order(int turn) const { return 5 * turn % turns_; }

  // A leaf passes all data once in each direction. What leaves do not pass the others do.
  std::pair<double, std::size_t> longest() const {
    std::vector<double> others;
    for (const int count : counts()) others.push_back(2 + (count - 2.0) / (hosts_ - count));
    std::pair<double, std::size_t> result{0, 0};
    for (std::size_t index = 0; index < classes_.size(); ++index) {
      double load = classes_[index].turns;
      for (int turn = classes_[index].turns; turn < turns_; ++turn) load += others[at(in_order(turn))];
      result = std::max(result, {load / turns_ / classes_[index].rate, index});
    }
    return result;
  }

  std::vector<Class> classes_;  // slowest first
  int hosts_;
  int turns_;
  double least_us_ = 0;
};

}  // namespace

// In shapes that turn round to each root all hosts pass about twice the data, however fast their NICs are.
void CompositePlanner::plan_leaves() {
  constexpr double kAlike = 1.01;
  constexpr double kClearlyLess = 0.97;
  constexpr double kNearlyLeast = 1.02;
  const auto hosts = static_cast<int>(hosts_.size());
  const auto rate = [&](int host) { return host_gbytes_per_s_[at(host)]; };
  leaves_last_ = host_order_;
  std::ranges::stable_sort(leaves_last_, std::greater<>(), rate);
  std::vector<Class> classes;
  for (int place = hosts - 1; place >= 0; --place) {
    const double one = rate(leaves_last_[at(place)]);
    if (classes.empty() || one > kAlike * classes.back().rate) classes.push_back({one});
    ++classes.back().hosts;
  }
  if (classes.size() < 2 || classes.front().rate <= 0) return leaves_last_.clear();
  std::vector<Leaves> all;
  for (const int turns : {1, 2, 4, 8}) all.emplace_back(classes, hosts, turns);
  const double least_us = std::ranges::min(all, {}, &Leaves::us).us();
  const double all_alike_us = 2 * (1 - 1.0 / hosts) / classes.front().rate;
  if (least_us > kClearlyLess * all_alike_us) return leaves_last_.clear();
  leaves_ = std::ranges::find_if(all, [&](const Leaves& one) { return one.us() <= kNearlyLeast * least_us; })->counts();
  // Those that are never leaves in the order of the network.
  const int never = hosts - std::ranges::max(leaves_);
  std::vector<bool> turns(at(hosts), false);
  for (int place = 0; place < never; ++place) turns[at(leaves_last_[at(place)])] = true;
  std::ranges::copy_if(host_order_, leaves_last_.begin(), [&](int host) { return turns[at(host)]; });
}

compose::Tier CompositePlanner::tier_with_leaves(compose::Shape shape) const {
  compose::Tier tier{{leaves_last_}, shape, {}, leaves_};
  const auto hosts = static_cast<int>(hosts_.size());
  for (const int count : leaves_)
    tier.shapes[hosts].push_back(compose::with_leaves(compose::trees(shape, hosts - count).front(), count));
  return tier;
}

void CompositePlanner::plan_hosts() {
  const std::vector<PortsOfHost> all = all_ports();
  std::vector<PortsOfHost> ports = all;
  keep_off_slow_links(ports);
  hosts_ = hosts_with(ports);
  if (turns_are_rails_) all_nics_ = hosts_with(all);
  for (const PortsOfHost& one : ports)
    host_gbytes_per_s_.push_back(std::accumulate(one.gbytes_per_s.begin(), one.gbytes_per_s.end(), 0.0));
  plan_pairs();
  outer_ = std::make_unique<OuterPlanner>(costs(), hosts_);
  plan_racks();
  plan_leaves();
  plain_ = levels_;
}

// Hosts with other ports than those that were planned before are of the same kinds: what only passes from device to
// device is the same with any ports.
std::vector<compose::Host> CompositePlanner::hosts_with(const std::vector<PortsOfHost>& ports) {
  std::vector<compose::Host> hosts;
  for (std::size_t index = 0; index < cluster_->hosts.size(); ++index) {
    compose::Host host;
    host.ranks = cluster_->hosts[index];
    host.ports = ports[index].ports;
    const std::vector<double>& shares = ports[index].gbytes_per_s;
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    const bool equal = *least > 0 && *most < 1.01 * *least;
    const int links = cluster_->kind_of[index];
    host.kind =
        hosts_.empty() ? kind_of(links, equal ? std::vector<double>{} : compose::shares(host)) : hosts_[index].kind;
    if (!equal) host.near = ports_near(host, links, shares);
    hosts.push_back(std::move(host));
  }
  return hosts;
}

// Hosts with their rails and paces. None where the turns of the ports are rails of all hosts anyway, or where hosts are
// of so many kinds that to look at all pairs of these would take long.
void CompositePlanner::plan_pairs() {
  const std::vector<compose::Host>& hosts = turns_are_rails_ ? all_nics_ : hosts_;
  if (!rails_differ(*cluster_, hosts)) return;
  std::vector<double> rates;  // in which a host hands over a part of its blocks
  for (const compose::Host& host : hosts) {
    const double busy = schedule::busiest_us_per_byte(levels_[at(host.kind)].front().kind->between);
    const auto others = static_cast<double>(topology_->ranks) - static_cast<double>(host.ranks.size());
    rates.push_back(busy > 0 ? 1 / (busy * others) : 0);
  }
  const double fastest = *std::ranges::max_element(rates);
  const bool one_network = cluster_->has_one_network();
  std::set<std::tuple<std::vector<int>, std::vector<std::vector<int>>, std::vector<int>, int>> kinds;
  std::vector<compose::Host> result = hosts;
  double devices = 0;  // of one host of each kind, together
  double ports = 0;
  for (std::size_t index = 0; index < hosts.size(); ++index) {
    compose::Host& host = result[index];
    for (const Rank rank : host.ranks)
      host.rails.push_back(one_network ? cluster_->attachments[at(rank)].leaf : cluster_->network_of[at(rank)]);
    if (rates[index] > 0)
      host.pace = std::max(1, static_cast<int>(std::lround(compose::kMostPace * rates[index] / fastest)));
    if (!kinds.emplace(host.ports, host.near, host.rails, host.pace).second) continue;
    devices += static_cast<double>(host.ranks.size());
    ports = std::max(ports, static_cast<double>(host.ports.size()));
    if (kinds.size() > kMostKindsOfPairs || devices * devices * ports > kMostWaysOfPairs) return;
  }
  pairs_ = std::move(result);
}

// What leaves the busiest link clearly less busy where each host passes all data to the next one: other ports, and
// another order of the hosts. Where there are several networks, data must keep to rails, however busy they are.
void CompositePlanner::keep_off_slow_links(std::vector<PortsOfHost>& ports) {
  host_order_.resize(ports.size());
  std::iota(host_order_.begin(), host_order_.end(), 0);
  std::set<topology::Node> leaves;
  for (const topology::Attachment& one : cluster_->attachments)
    if (one.attached()) leaves.insert(one.leaf);
  const bool several_networks = !cluster_->has_one_network();
  if (several_networks) {
    auto on_rails = ports_on_rails(*cluster_, ports);
    turns_are_rails_ = on_rails.has_value();
    shares_rails_ = on_rails.has_value();
    if (!on_rails) return;
    ports = *std::move(on_rails);
  }
  if (leaves.size() < 2 || leaves.size() > kMostLeafSwitches) return;
  const schedule::EdgeIndex& edges = costs().edges();
  const auto us_per_byte = [&](const topology::Edge& edge) {
    const double rate = edges[edges.find(edge)].gbytes_per_s;
    return rate > 0 ? 1 / (rate * 1e3) : 0;
  };
  const auto busiest = [&](const std::vector<PortsOfHost>& some, const std::vector<int>& order) {
    return busiest_of_ring(*cluster_, costs().ways(), some, order, us_per_byte);
  };
  double least = busiest(ports, host_order_);
  if (auto on_rails = ports_on_rails(*cluster_, ports); on_rails && !several_networks) {
    const double busy = busiest(*on_rails, host_order_);
    turns_are_rails_ = busy < kLessBusy * least;
    if (turns_are_rails_) {
      ports = *std::move(on_rails);
      least = busy;
    }
  }
  std::vector<int> order = order_along_network(*topology_, *cluster_);
  if (busiest(ports, order) < kLessBusy * least) host_order_ = std::move(order);
}

// Every device with a NIC, in proportion to its part of the NIC.
std::vector<PortsOfHost> CompositePlanner::all_ports() const {
  std::map<topology::Edge, int> users;
  for (const topology::Attachment& one : cluster_->attachments)
    for (const auto& edge : one.up) ++users[edge];
  const schedule::EdgeIndex& edges = costs().edges();
  std::vector<PortsOfHost> result;
  for (const std::vector<Rank>& ranks : cluster_->hosts) {
    PortsOfHost& one = result.emplace_back();
    for (const Rank rank : ranks) {
      const topology::Attachment& way = cluster_->attachments[at(rank)];
      double share = way.attached() ? 1e30 : 0;
      for (const auto& edge : way.up) {
        const double rate = edges[edges.find(edge)].gbytes_per_s;
        share = std::min(share, (rate > 0 ? rate : 1) / users[edge]);
      }
      one.gbytes_per_s.push_back(share);
    }
    one.ports = in_proportion(one.gbytes_per_s);
  }
  return result;
}

// Trees over a host take the longer to find the more pairs of devices it has. The first kinds are planned in full.
Effort CompositePlanner::effort_for_next_kind() const {
  int planned = 0;
  for (const auto& [kind, parts] : kinds_) planned += cluster_->kinds[at(kind)].ranks * cluster_->kinds[at(kind)].ranks;
  return planned < std::max(kMostPairsInFull, topology_->ranks) ? Effort::full : Effort::little;
}

// By links and by the parts of the data that come and go at each device; empty: all alike.
int CompositePlanner::kind_of(int links, std::vector<double> parts) {
  const auto known = std::ranges::find(kinds_, std::pair(links, parts));
  if (known != kinds_.end()) return static_cast<int>(known - kinds_.begin());
  const auto of_ports = std::ranges::count_if(kinds_, [](const auto& one) { return !one.second.empty(); });
  if (!parts.empty() && of_ports >= most_kinds_of_ports(cluster_->kinds[at(links)])) return kind_of(links, {});
  levels_.push_back(host_levels(cluster_->kinds[at(links)], parts, effort_for_next_kind()));
  kinds_.emplace_back(links, std::move(parts));
  if (levels_.back().size() > levels_[naming_kind_].size()) naming_kind_ = levels_.size() - 1;
  level_choices_ = std::max(level_choices_, levels_.back().size());
  return static_cast<int>(levels_.size()) - 1;
}

// Found once for hosts with equal links and NICs; hosts of further kinds have none.
std::vector<std::vector<int>> CompositePlanner::ports_near(const compose::Host& host, int links,
                                                           const std::vector<double>& nics) {
  const auto known = std::ranges::find(near_, std::pair(links, nics), &NearPorts::first);
  if (known != near_.end()) return known->second;
  std::vector<std::vector<int>> found(host.ranks.size());
  if (std::ssize(near_) < most_kinds_of_ports(cluster_->kinds[at(links)])) {
    const auto others = static_cast<double>(topology_->ranks) - static_cast<double>(host.ranks.size());
    found = near_ports(cluster_->kinds[at(links)], levels_[at(host.kind)].front().kind->between, nics, others);
    near_.emplace_back(std::pair(links, nics), found);
  }
  return found;
}

void CompositePlanner::plan_racks() {
  std::map<topology::Node, std::size_t> rack_of_leaf;
  std::set<std::pair<topology::Node, topology::Node>> to_hosts;
  for (std::size_t rack = 0; rack < cluster_->racks.size(); ++rack)
    for (const int host : cluster_->racks[rack])
      for (const Rank rank : hosts_[at(host)].ranks) {
        const topology::Attachment& way = cluster_->attachments[at(rank)];
        if (way.attached()) rack_of_leaf.emplace(way.leaf, rack);
        to_hosts.insert(way.down.begin(), way.down.end());
      }
  rack_gbytes_per_s_.assign(cluster_->racks.size(), 0);
  const schedule::EdgeIndex& edges = costs().edges();
  for (schedule::EdgeId edge = 0; edge < edges.size(); ++edge) {
    const auto [src, dst] = edges[edge].ends;
    const auto from = rack_of_leaf.find(src);
    if (from == rack_of_leaf.end() || to_hosts.contains({src, dst})) continue;
    const auto to = rack_of_leaf.find(dst);
    if (to == rack_of_leaf.end() || to->second != from->second)
      rack_gbytes_per_s_[from->second] += edges[edge].gbytes_per_s;
  }
}

}  // namespace sccl::portfolio
