// Devices of a host that may be exchanged, and hosts of a rack that give alike parts, are counted and not listed:
// sixteen hosts with four free devices each have billions of sets of eight devices, and a few hundred classes.
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
#include "topology/formats/json.h"
#include "topology/presets.h"
#include "topology/symmetry/canonical.h"
#include "topology/symmetry/cluster.h"
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
  int form = 0;  // the same for alike parts of any hosts
};

// Numbers for what is alike.
class Forms {
 public:
  int number(std::size_t devices, const std::string& form) {
    return numbers_.try_emplace({devices, form}, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<std::pair<std::size_t, std::string>, int> numbers_;
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
  PartsOfHost(const Topology& machine, const Cluster& cluster, int host, std::span<const Rank> free, int most,
              Forms& forms)
      : machine_(machine), cluster_(cluster), host_(host), free_(free), most_(most), forms_(forms) {}

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
    for (auto& [form, part] : by_form_) result.push_back(std::move(part));
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
    const auto links =
        topology::canonical_form(with_ways(machine_, cluster_, host_, devices), topology::Figures::compared);
    const int form = forms_.number(places.size(), links.text);
    const auto [known, inserted] = by_form_.try_emplace(form, Part{places, 0, form});
    if (!inserted) known->second.places = std::min(known->second.places, places);
    known->second.ways += ways;
  }

  const Topology& machine_;
  const Cluster& cluster_;
  int host_;
  std::span<const Rank> free_;
  int most_;
  Forms& forms_;
  std::vector<std::vector<int>> groups_;
  std::map<int, Part> by_form_;
};

struct FreeHost {
  int rack = 0;
  std::vector<Rank> free;
  std::shared_ptr<const std::vector<Part>> parts;  // shared by hosts whose free devices are alike, device by device
};

// Rack by rack.
std::vector<FreeHost> free_hosts(const Topology& machine, const Cluster& cluster, std::span<const int> free,
                                 int count) {
  std::vector<FreeHost> hosts(cluster.hosts.size());
  for (const int device : free) hosts[at(cluster.host_of[at(device)])].free.push_back(device);
  for (std::size_t rack = 0; rack < cluster.racks.size(); ++rack)
    for (const int host : cluster.racks[rack]) hosts[at(host)].rack = static_cast<int>(rack);
  std::map<std::string, std::shared_ptr<const std::vector<Part>>> known;
  Forms forms;
  for (int host = 0; host < static_cast<int>(hosts.size()); ++host) {
    std::vector<Rank>& here = hosts[at(host)].free;
    if (here.empty()) continue;
    std::sort(here.begin(), here.end());
    auto& parts = known[topology::to_json(with_ways(machine, cluster, host, here)).dump()];
    if (!parts)
      parts = std::make_shared<const std::vector<Part>>(PartsOfHost(machine, cluster, host, here, count, forms).list());
    hosts[at(host)].parts = parts;
  }
  std::erase_if(hosts, [](const FreeHost& host) { return host.free.empty(); });
  std::stable_sort(hosts.begin(), hosts.end(), [](const FreeHost& a, const FreeHost& b) { return a.rack < b.rack; });
  return hosts;
}

// Every choice of parts of hosts that has `count` devices together, host by host. What was chosen so far is told apart
// by the forms that each rack has given, in ascending order; which of a rack's hosts gave them only counts.
class Combinations {
 public:
  Combinations(const std::vector<FreeHost>& hosts, int count) : count_(count) {
    reached_[{}] = {{}, 1, 0, 0};
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      if (host > 0 && hosts[host].rack != hosts[host - 1].rack) next_rack();
      take_from(hosts[host]);
    }
  }

  std::vector<Allocation> all() const {
    std::vector<Allocation> found;
    for (const auto& [forms, allocation] : reached_)
      if (static_cast<int>(allocation.devices.size()) == count_) found.push_back(allocation);
    return found;
  }

 private:
  // Forms of racks one after the other, each rack's with kRackEnd behind them.
  using Given = std::vector<int>;
  static constexpr int kRackEnd = -1;

  void next_rack() {
    std::map<Given, Allocation> ended;
    for (auto& [forms, allocation] : reached_) {
      Given given = forms;
      given.push_back(kRackEnd);
      ended.emplace(std::move(given), std::move(allocation));
    }
    reached_ = std::move(ended);
  }

  void take_from(const FreeHost& host) {
    std::map<Given, Allocation> more = reached_;
    for (const auto& [forms, allocation] : reached_)
      for (const Part& part : *host.parts)
        if (allocation.devices.size() + part.places.size() <= at(count_)) add(more, forms, allocation, host, part);
    reached_ = std::move(more);
  }

  static void add(std::map<Given, Allocation>& to, Given forms, const Allocation& before, const FreeHost& host,
                  const Part& part) {
    const auto rack = std::find(forms.rbegin(), forms.rend(), kRackEnd).base();
    forms.insert(std::upper_bound(rack, forms.end(), part.form), part.form);
    Allocation with = before;
    for (const int place : part.places) with.devices.push_back(host.free[at(place)]);
    std::sort(with.devices.begin(), with.devices.end());
    with.ways *= part.ways;
    ++with.hosts;
    const auto [known, inserted] = to.try_emplace(std::move(forms), with);
    if (to.size() > kMostCombinations)
      fail(ErrorCode::invalid_argument,
           "the free devices can be chosen in more than {} ways that differ: name fewer free devices",
           kMostCombinations);
    if (inserted) return;
    known->second.ways += with.ways;
    known->second.devices = std::min(known->second.devices, with.devices);
  }

  int count_;
  std::map<Given, Allocation> reached_;
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
  const std::vector<FreeHost> hosts = free_hosts(machine.topology, cluster, free, count);
  // Racks may be alike.
  std::map<std::string, Allocation> by_form;
  for (const Allocation& one : Combinations(hosts, count).all()) {
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
