// Equal hosts, and devices of a host that may be exchanged, are counted and not listed: sixteen hosts with four free
// devices each have billions of sets of eight devices, and a few hundred classes.
#include "portfolio/allocations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "topology/cluster.h"
#include "topology/formats/json.h"
#include "topology/presets.h"
#include "topology/symmetry/canonical.h"
#include "topology/symmetry/labelled_graph.h"
#include "treegen/packing/pack.h"

namespace sccl::portfolio {
namespace {

using topology::Cluster;
using topology::Link;
using topology::Node;
using topology::Topology;

constexpr std::size_t kMostPartsOfAHost = 1 << 14;
constexpr std::size_t kMostCombinations = 20000;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

double choose(std::size_t of, std::size_t count) {
  return std::round(std::exp(std::lgamma(static_cast<double>(of) + 1) - std::lgamma(static_cast<double>(count) + 1) -
                             std::lgamma(static_cast<double>(of - count) + 1)));
}

// Devices of one host with their links and their ways to the network's leaf switches.
Topology with_ways(const Topology& machine, const Cluster& cluster, int host, std::span<const Rank> devices) {
  std::map<Node, Node> number;
  for (const Rank device : devices) number.emplace(device, static_cast<Node>(number.size()));
  std::set<Node> switches;
  for (const Node node : cluster.nodes[at(host)])
    if (node >= machine.ranks) switches.insert(node);
  for (const Rank device : devices)
    for (const auto* way : {&cluster.attachments[at(device)].up, &cluster.attachments[at(device)].down})
      for (const auto& [src, dst] : *way)
        for (const Node node : {src, dst})
          if (node >= machine.ranks) switches.insert(node);
  for (const Node node : switches) number.emplace(node, static_cast<Node>(number.size()));
  Topology part;
  part.ranks = static_cast<int>(devices.size());
  part.switches = static_cast<int>(switches.size());
  topology::copy_links(machine, number, part);
  return part;
}

// Sets of a host's free devices that are alike.
struct Part {
  std::vector<int> places;  // one of them: places among the host's free devices
  double ways = 0;
};

// Groups of places that may be exchanged for one another.
std::vector<std::vector<int>> twins(const Topology& part) {
  const topology::LabelledGraph graph(part, topology::Figures::compared);
  std::vector<std::vector<int>> groups;
  for (Rank place = 0; place < part.ranks; ++place) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const std::vector<int>& known) {
      return graph.are_twins(known.front(), place);
    });
    if (group == groups.end())
      groups.push_back({place});
    else
      group->push_back(place);
  }
  return groups;
}

class PartsOfHost {
 public:
  PartsOfHost(const Topology& machine, const Cluster& cluster, int host, std::span<const Rank> free, int most)
      : machine_(machine), cluster_(cluster), host_(host), free_(free), most_(most) {}

  // But the empty one.
  std::vector<Part> list() {
    groups_ = twins(with_ways(machine_, cluster_, host_, free_));
    double parts = 1;
    for (const std::vector<int>& group : groups_) parts *= static_cast<double>(group.size() + 1);
    if (parts > static_cast<double>(kMostPartsOfAHost))
      fail(ErrorCode::invalid_argument,
           "the {} free devices of the host of device {} can be divided in {:.0f} ways, {} at most are compared: name "
           "fewer free devices",
           free_.size(), free_.front(), parts, kMostPartsOfAHost);
    take(0, {}, 1);
    std::vector<Part> result;
    for (auto& [key, part] : by_form_) result.push_back(std::move(part));
    return result;
  }

 private:
  void take(std::size_t group, std::vector<int> places, double ways) {
    if (places.size() > at(most_)) return;
    if (group == groups_.size()) return add(std::move(places), ways);
    for (std::size_t count = 0; count <= groups_[group].size(); ++count) {
      if (count > 0) places.push_back(groups_[group][count - 1]);
      take(group + 1, places, ways * choose(groups_[group].size(), count));
    }
  }

  void add(std::vector<int> places, double ways) {
    if (places.empty()) return;
    std::sort(places.begin(), places.end());
    std::vector<Rank> devices;
    for (const int place : places) devices.push_back(free_[at(place)]);
    const auto form =
        topology::canonical_form(with_ways(machine_, cluster_, host_, devices), topology::Figures::compared);
    const auto [known, inserted] = by_form_.try_emplace({places.size(), form.text}, Part{places, 0});
    if (!inserted) known->second.places = std::min(known->second.places, places);
    known->second.ways += ways;
  }

  const Topology& machine_;
  const Cluster& cluster_;
  int host_;
  std::span<const Rank> free_;
  int most_;
  std::vector<std::vector<int>> groups_;
  std::map<std::pair<std::size_t, std::string>, Part> by_form_;
};

// Hosts of one rack with alike free devices.
struct HostGroup {
  std::vector<std::vector<Rank>> free;  // by host
  std::shared_ptr<const std::vector<Part>> parts;
};

std::vector<HostGroup> group_hosts(const Topology& machine, const Cluster& cluster, std::span<const int> free,
                                   int count) {
  std::vector<std::vector<Rank>> free_of(cluster.hosts.size());
  for (const int device : free) free_of[at(cluster.host_of[at(device)])].push_back(device);
  std::vector<int> rack_of(cluster.hosts.size(), 0);
  for (std::size_t rack = 0; rack < cluster.racks.size(); ++rack)
    for (const int host : cluster.racks[rack]) rack_of[at(host)] = static_cast<int>(rack);
  std::map<std::string, std::shared_ptr<const std::vector<Part>>> known;
  std::map<std::pair<int, std::string>, std::size_t> place;
  std::vector<HostGroup> groups;
  for (int host = 0; host < static_cast<int>(free_of.size()); ++host) {
    std::vector<Rank>& here = free_of[at(host)];
    if (here.empty()) continue;
    std::sort(here.begin(), here.end());
    // Equal for hosts whose free devices are alike, device by device.
    const std::string text = topology::to_json(with_ways(machine, cluster, host, here)).dump();
    auto& parts = known[text];
    if (!parts)
      parts = std::make_shared<const std::vector<Part>>(PartsOfHost(machine, cluster, host, here, count).list());
    const auto [found, inserted] = place.try_emplace({rack_of[at(host)], text}, groups.size());
    if (inserted) groups.push_back({{}, parts});
    groups[found->second].free.push_back(std::move(here));
  }
  return groups;
}

// Every choice of parts of hosts that has `count` devices together.
class Combinations {
 public:
  Combinations(const std::vector<HostGroup>& groups, int count) : groups_(groups) { extend({0, 0, 0, count, 1}); }

  const std::vector<Allocation>& all() const { return all_; }

 private:
  struct State {
    std::size_t group, part, hosts_used;  // of the group
    int missing;
    double ways;
  };

  void extend(const State& state) {
    if (state.missing == 0) return add(state.ways);
    if (state.group == groups_.size()) return;
    const HostGroup& group = groups_[state.group];
    if (state.part == group.parts->size()) return extend({state.group + 1, 0, 0, state.missing, state.ways});
    const Part& part = (*group.parts)[state.part];
    const std::size_t before = chosen_.size();
    State next = state;
    ++next.part;
    for (std::size_t times = 0;; ++times) {
      extend(next);
      if (next.hosts_used == group.free.size() || next.missing < static_cast<int>(part.places.size())) break;
      for (const int place : part.places) chosen_.push_back(group.free[next.hosts_used][at(place)]);
      // Which of the hosts that are left take this part, in no order among its takers.
      next.ways *=
          part.ways * static_cast<double>(group.free.size() - next.hosts_used) / static_cast<double>(times + 1);
      ++next.hosts_used;
      ++hosts_;
      next.missing -= static_cast<int>(part.places.size());
    }
    hosts_ -= static_cast<int>(next.hosts_used - state.hosts_used);
    chosen_.resize(before);
  }

  void add(double ways) {
    if (all_.size() == kMostCombinations)
      fail(ErrorCode::invalid_argument,
           "the free devices can be chosen in more than {} ways that differ: name fewer free devices",
           kMostCombinations);
    Allocation allocation{chosen_, ways, hosts_, 0};
    std::sort(allocation.devices.begin(), allocation.devices.end());
    all_.push_back(std::move(allocation));
  }

  const std::vector<HostGroup>& groups_;
  std::vector<int> chosen_;
  int hosts_ = 0;
  std::vector<Allocation> all_;
};

double rate_of(const Topology& links, Collective collective) {
  double slowest_lane = std::numeric_limits<double>::infinity();
  for (const Link& link : links.links) slowest_lane = std::min(slowest_lane, link.gbytes_per_s / link.lanes);
  try {
    treegen::PackOptions options;
    options.capacity_unit = treegen::CapacityUnit::gbytes_per_s;
    return treegen::to_double(treegen::pack(links, collective, 0, options).rate) * slowest_lane;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    return 0;  // some device reaches no other
  }
}

void check_question(const topology::Machine& machine, std::span<const int> free, int count, Collective collective) {
  std::set<int> seen;
  for (const int device : free) {
    if (device < 0 || device >= machine.topology.ranks)
      fail(ErrorCode::invalid_argument, "device {} does not exist: '{}' has devices 0 to {}", device,
           machine.topology.name, machine.topology.ranks - 1);
    if (!seen.insert(device).second)
      fail(ErrorCode::invalid_argument, "device {} is named twice among the free ones: name it once", device);
  }
  if (count < 2) fail(ErrorCode::invalid_argument, "{} devices need no links: ask for at least 2", count);
  if (static_cast<std::size_t>(count) > free.size())
    fail(ErrorCode::invalid_argument, "{} devices are asked for and {} are free: ask for fewer", count, free.size());
  treegen::require_packed(collective);
}

}  // namespace

std::vector<Allocation> rank_allocations(const topology::Machine& machine, std::span<const int> free, int count,
                                         Collective collective) {
  check_question(machine, free, count, collective);
  const Cluster cluster = topology::cluster_of(machine.topology);
  const std::vector<HostGroup> groups = group_hosts(machine.topology, cluster, free, count);
  // Hosts of different groups may have alike parts, and racks may be alike.
  std::map<std::string, Allocation> by_form;
  const Combinations combinations(groups, count);
  for (const Allocation& one : combinations.all()) {
    const Topology links = topology::part_of(machine, one.devices).topology;
    const auto form = topology::canonical_form(links, topology::Figures::compared);
    const auto [known, inserted] = by_form.try_emplace(form.text, one);
    if (inserted) continue;
    known->second.ways += one.ways;
    known->second.devices = std::min(known->second.devices, one.devices);
  }
  std::vector<Allocation> result;
  for (auto& [form, allocation] : by_form) {
    allocation.gbytes_per_s = rate_of(topology::part_of(machine, allocation.devices).topology, collective);
    result.push_back(std::move(allocation));
  }
  std::sort(result.begin(), result.end(), [](const Allocation& a, const Allocation& b) {
    return std::tuple(-a.gbytes_per_s, a.hosts, a.devices) < std::tuple(-b.gbytes_per_s, b.hosts, b.devices);
  });
  return result;
}

}  // namespace sccl::portfolio
