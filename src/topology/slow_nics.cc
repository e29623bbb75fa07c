#include "topology/slow_nics.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "topology/dead_links.h"
#include "topology/groups.h"

namespace sccl::topology {
namespace {

using Edge = std::pair<Node, Node>;

constexpr double kMuchFaster = 4;
constexpr int kNone = -1;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// All links between two nodes.
struct Joint {
  Node a = 0;
  Node b = 0;
  double gbytes_per_s = 0;  // of the slower direction
  bool is_net = true;
};

std::vector<Joint> joints_of(const Topology& topology) {
  struct Sum {
    double rate = 0;
    bool is_net = true;
  };
  std::map<Edge, Sum> sums;
  for (const Link& link : topology.links) {
    Sum& sum = sums[{link.src, link.dst}];
    sum.rate += link.gbytes_per_s;
    sum.is_net = sum.is_net && link.link_class == LinkClass::net;
  }
  std::vector<Joint> joints;
  for (const auto& [ends, sum] : sums) {
    const auto& [src, dst] = ends;
    const auto back = sums.find({dst, src});
    if (back == sums.end() || src > dst) continue;  // nothing leaves a host one way only
    joints.push_back({src, dst, std::min(sum.rate, back->second.rate), sum.is_net && back->second.is_net});
  }
  return joints;
}

// Hosts and networks, both by a node of theirs.
class Parts {
 public:
  // A switch between a single host and other switches is this host's NIC (symmetry/cluster.h); where no network joins
  // all hosts then, it is a switch of the network.
  Parts(const Topology& topology, const std::vector<Joint>& joints) : joints_(joints), host_(at(topology.nodes())) {
    Groups groups(topology.nodes());
    for (const Link& link : topology.links)
      if (link.link_class != LinkClass::net) groups.join(link.src, link.dst);
    std::set<int> hosts;
    for (Rank rank = 0; rank < topology.ranks; ++rank) hosts.insert(groups.of(rank));
    for (Node node = 0; node < topology.nodes(); ++node)
      host_[at(node)] = hosts.contains(groups.of(node)) ? groups.of(node) : kNone;
    const std::vector<int> without_nics = host_;
    take_nics();
    if (find_networks(hosts.size())) return;
    host_ = without_nics;
    find_networks(hosts.size());
  }

  int host(Node node) const { return host_[at(node)]; }  // kNone: a switch of a network
  int network(Node node) const { return network_[at(node)]; }
  bool joins_all(Node node) const { return network(node) != kNone && joins_all_.contains(network(node)); }

  // The host of a link between a host and a network.
  int host_at_exit(const Joint& joint) const {
    if (!joint.is_net || (host(joint.a) == kNone) == (host(joint.b) == kNone)) return kNone;
    return std::max(host(joint.a), host(joint.b));
  }
  int network_at_exit(const Joint& joint) const { return std::max(network(joint.a), network(joint.b)); }

 private:
  void take_nics() {
    constexpr int kSeveral = -2;
    std::vector<int> served(host_.size(), kNone);
    std::vector<bool> leads_on(host_.size(), false);
    for (const Joint& joint : joints_)
      for (const auto& [node, other] : {std::pair(joint.a, joint.b), std::pair(joint.b, joint.a)}) {
        int& one = served[at(node)];
        if (host(other) == kNone)
          leads_on[at(node)] = true;
        else
          one = one == kNone || one == host(other) ? host(other) : kSeveral;
      }
    for (std::size_t node = 0; node < host_.size(); ++node)
      if (host_[node] == kNone && served[node] >= 0 && leads_on[node]) host_[node] = served[node];
  }

  // Whether one joins all hosts.
  bool find_networks(std::size_t hosts) {
    const int nodes = static_cast<int>(host_.size());
    Groups groups(nodes);
    for (const Joint& joint : joints_)
      if (host(joint.a) == kNone && host(joint.b) == kNone) groups.join(joint.a, joint.b);
    network_.assign(host_.size(), kNone);
    for (Node node = 0; node < nodes; ++node)
      if (host(node) == kNone) network_[at(node)] = groups.of(node);
    std::map<int, std::set<int>> joined;
    for (const Joint& joint : joints_)
      if (const int host = host_at_exit(joint); host != kNone) joined[network_at_exit(joint)].insert(host);
    for (const auto& [network, of_network] : joined)
      if (of_network.size() == hosts) joins_all_.insert(network);
    return !joins_all_.empty();
  }

  const std::vector<Joint>& joints_;
  std::vector<int> host_;
  std::vector<int> network_;
  std::set<int> joins_all_;
};

// By node: GB/s of the fastest way over its host's switches to a network that joins all hosts; 0: there is none.
std::vector<double> fastest_ways(const Topology& topology, const std::vector<Joint>& joints, const Parts& parts) {
  std::vector<std::vector<std::pair<Node, double>>> next(at(topology.nodes()));
  for (const Joint& joint : joints) {
    next[at(joint.a)].emplace_back(joint.b, joint.gbytes_per_s);
    next[at(joint.b)].emplace_back(joint.a, joint.gbytes_per_s);
  }
  std::vector<double> fastest(next.size(), 0);
  std::priority_queue<std::pair<double, Node>> waiting;
  for (Node node = topology.ranks; node < topology.nodes(); ++node)
    if (parts.joins_all(node)) waiting.emplace(std::numeric_limits<double>::infinity(), node);
  while (!waiting.empty()) {
    const auto [rate, node] = waiting.top();
    waiting.pop();
    if (fastest[at(node)] > 0) continue;
    fastest[at(node)] = rate;
    if (node < topology.ranks) continue;  // ways do not lead over devices
    for (const auto& [other, of_link] : next[at(node)]) {
      const bool enters = parts.host(node) == kNone && parts.host(other) != kNone;
      if (enters || (parts.host(node) != kNone && parts.host(other) == parts.host(node)))
        waiting.emplace(std::min(rate, of_link), other);
    }
  }
  return fastest;
}

// By host: the rate below which a NIC is slow.
std::map<int, double> least_rates(const Topology& topology, const std::vector<Joint>& joints, const Parts& parts) {
  const std::vector<double> fastest = fastest_ways(topology, joints, parts);
  struct Host {
    double way = std::numeric_limits<double>::infinity();  // GB/s of the device with the slowest
    double kept = 0;                                       // GB/s of NICs that are not slow
    int devices = 0;
  };
  std::map<int, Host> hosts;
  for (Rank rank = 0; rank < topology.ranks; ++rank) {
    Host& host = hosts[parts.host(rank)];
    ++host.devices;
    if (fastest[at(rank)] > 0) host.way = std::min(host.way, fastest[at(rank)]);
  }
  for (const Joint& joint : joints)
    if (const int host = parts.host_at_exit(joint);
        host != kNone && joint.gbytes_per_s * kMuchFaster >= hosts.at(host).way)
      hosts.at(host).kept += joint.gbytes_per_s;
  std::map<int, double> least;
  for (const auto& [number, host] : hosts) least[number] = std::min(host.way / kMuchFaster, host.kept / host.devices);
  return least;
}

std::vector<Joint> slow_joints(const Topology& topology) {
  const std::vector<Joint> joints = joints_of(topology);
  const Parts parts(topology, joints);
  const std::map<int, double> least = least_rates(topology, joints, parts);
  struct Hosts {
    std::set<int> before;
    std::set<int> after;
  };
  std::map<int, Hosts> of_network;
  std::vector<Joint> slow;
  for (const Joint& joint : joints) {
    const int host = parts.host_at_exit(joint);
    if (host == kNone) continue;
    Hosts& hosts = of_network[parts.network_at_exit(joint)];
    hosts.before.insert(host);
    if (joint.gbytes_per_s < least.at(host))
      slow.push_back(joint);
    else
      hosts.after.insert(host);
  }
  std::erase_if(slow, [&](const Joint& joint) {
    const Hosts& hosts = of_network.at(parts.network_at_exit(joint));
    return !hosts.after.empty() && hosts.after != hosts.before;
  });
  return slow;
}

}  // namespace

int leave_out_slow_nics(Topology& topology) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const Link& link : topology.links) {
    if (link.link_class != LinkClass::net) continue;
    least = std::min(least, link.gbytes_per_s);
    most = std::max(most, link.gbytes_per_s);
  }
  if (least * kMuchFaster >= most) return 0;
  std::set<Edge> edges;
  const std::vector<Joint> slow = slow_joints(topology);
  for (const Joint& joint : slow) edges.insert({{joint.a, joint.b}, {joint.b, joint.a}});
  if (!edges.empty()) leave_out(topology, edges);
  return static_cast<int>(slow.size());
}

}  // namespace sccl::topology
