#include "compose/proof/verify.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "compose/proof/networks.h"
#include "compose/proof/order.h"
#include "schedule/proof/verify.h"
#include "topology/graph/routes.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

template <typename... Args>
[[noreturn]] void refuse(const Composite& composite, fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::invalid_argument, "composite '{}': {}", composite.name,
       fmt::format(format, std::forward<Args>(args)...));
}

// Whether the lists together name each of 0..count-1 exactly once.
bool parts(const std::vector<std::vector<int>>& lists, int count) {
  std::vector<bool> named(at(count), false);
  int total = 0;
  for (const std::vector<int>& list : lists)
    for (const int one : list) {
      if (one < 0 || one >= count || named[at(one)]) return false;
      named[at(one)] = true;
      ++total;
    }
  return total == count;
}

void check_hosts(const Composite& composite, const topology::Cluster& cluster) {
  std::vector<std::vector<int>> ranks;
  for (const Host& host : composite.hosts) ranks.push_back(host.ranks);
  if (!parts(ranks, composite.ranks()))
    refuse(composite, "its hosts do not hold each of the {} ranks once", composite.ranks());
  if (ranks != cluster.hosts) refuse(composite, "its hosts are not those of topology '{}'", composite.topology->name);
  for (std::size_t index = 0; index < composite.hosts.size(); ++index) {
    const Host& host = composite.hosts[index];
    if (host.kind < 0 || host.kind >= static_cast<int>(composite.kinds.size()))
      refuse(composite, "host {} is of kind {}, which is none", index, host.kind);
    const topology::Topology& links = cluster.kinds[at(cluster.kind_of[index])];
    const HostKind& kind = *composite.kinds[at(host.kind)];
    if (kind.in.ranks != links.ranks)
      refuse(composite, "host {} has {} devices and kind {} has {}", index, links.ranks, host.kind, kind.in.ranks);
    if (host.ports.empty() || (!host.all_own() && host.near.size() != host.ranks.size()))
      refuse(composite, "host {} has no port, or does not say which are near each of its ranks", index);
    if (composite.rails_of_pairs && (host.rails.size() != host.ranks.size() || host.pace < 1 || host.pace > kMostPace))
      refuse(composite, "host {} names rails of {} of its {} ranks, and a pace of {}", index, host.rails.size(),
             host.ranks.size(), host.pace);
    const auto check_port = [&](int port) {
      if (port < 0 || port >= static_cast<int>(host.ranks.size()))
        refuse(composite, "port {} of host {} is not one of its {} devices", port, index, host.ranks.size());
      if (composite.hosts.size() > 1 && !cluster.attachments[at(host.ranks[at(port)])].attached())
        refuse(composite, "rank {} is a port of host {} and reaches no network", host.ranks[at(port)], index);
    };
    for (const int port : host.ports) check_port(port);
    for (const auto* lists : {&kind.in_entries, &kind.out_entries})
      for (const std::vector<int>& devices : *lists)
        for (const int device : devices) check_port(device);
    for (std::size_t local = 0; local < host.ranks.size(); ++local)
      if (host.all_own())
        check_port(static_cast<int>(local));
      else
        for (const int port : host.near[local]) check_port(port);
  }
}

// A link of which a host has fewer lanes than a schedule takes it to have. Mostly the schedule was made for just these
// links: then they need not be looked up.
std::optional<topology::Edge> lacking(const topology::Topology& links, const schedule::Schedule& schedule) {
  const auto same = [](const topology::Link& a, const topology::Link& b) {
    return a.src == b.src && a.dst == b.dst && a.lanes == b.lanes;
  };
  if (std::ranges::equal(links.links, schedule.topology.links, same)) return std::nullopt;
  const std::map<topology::Edge, int> there = topology::edge_lanes(links);
  for (const auto& [edge, lanes] : topology::edge_lanes(schedule.topology))
    if (const auto found = there.find(edge); found == there.end() || found->second < lanes) return edge;
  return std::nullopt;
}

// Hosts of one kind have the same links, and the kind's schedules were verified on these links.
void check_links_of_kinds(const Composite& composite, const topology::Cluster& cluster) {
  std::vector<int> cluster_kind(composite.kinds.size(), -1);
  for (std::size_t index = 0; index < composite.hosts.size(); ++index) {
    const int number = composite.hosts[index].kind;
    int& known = cluster_kind[at(number)];
    if (known >= 0 && known != cluster.kind_of[index])
      refuse(composite, "host {} has other links than the hosts of kind {} before it", index, number);
    if (known >= 0) continue;
    known = cluster.kind_of[index];
    const topology::Topology& links = cluster.kinds[at(known)];
    const HostKind& kind = *composite.kinds[at(number)];
    std::vector<const schedule::Schedule*> schedules{&kind.in, &kind.out, &kind.between};
    if (kind.has_entries()) schedules.insert(schedules.end(), {&kind.home->in, &kind.home->out});
    for (const schedule::Schedule* schedule : schedules)
      if (const auto edge = lacking(links, *schedule))
        refuse(composite, "kind {} uses link {}->{}, which host {} lacks", number, edge->first, edge->second, index);
  }
}

enum class OwnerMay : std::uint8_t { receive, send };

void check_collective(const Composite& composite, std::size_t kind, const schedule::Schedule& schedule,
                      Collective wanted) {
  if (schedule.collective != wanted)
    refuse(composite, "kind {} has a schedule of {} where it needs one of {}", kind, info(schedule.collective).name,
           info(wanted).name);
}

void check_schedule(const Composite& composite, std::size_t kind, const schedule::Schedule& schedule,
                    Collective wanted) {
  check_collective(composite, kind, schedule, wanted);
  schedule::verify(schedule);
}

// Proves a schedule with entries by the flat verifier: the network is replaced by links that copy a chunk from its
// owner to the entries before the first step, or add the entries' sums to the owner's after the last step.
void check_with_entries(const Composite& composite, std::size_t kind, const schedule::Schedule& schedule,
                        Collective wanted, const std::vector<std::vector<int>>& entries) {
  check_collective(composite, kind, schedule, wanted);
  if (entries.size() != at(schedule.chunks))
    refuse(composite, "kind {}: {} has {} chunks and entries of {}", kind, schedule.name, schedule.chunks,
           entries.size());
  if (schedule.ranks < 1 || schedule.chunks != schedule::chunk_count(wanted, schedule.ranks, schedule.chunks_per_rank))
    refuse(composite, "kind {}: {} has {} chunks in {} of {} devices", kind, schedule.name, schedule.chunks,
           schedule.chunks_per_rank, schedule.ranks);
  const auto within = [](int number, int count) { return number >= 0 && number < count; };
  const bool sums = wanted == Collective::reducescatter;
  topology::Topology links = schedule.topology;
  std::vector<schedule::Send> sends;
  for (schedule::Send send : schedule.sends) {
    if (!within(send.chunk, schedule.chunks) || !within(send.src, schedule.ranks) ||
        !within(send.dst, schedule.ranks) || !within(send.step, schedule.steps))
      refuse(composite, "kind {}: {} sends chunk {} from {} to {} in step {} of {}", kind, schedule.name, send.chunk,
             send.src, send.dst, send.step, schedule.steps);
    const std::vector<int>& own = entries[at(send.chunk)];
    if (std::find(own.begin(), own.end(), sums ? send.src : send.dst) != own.end())
      refuse(composite, "kind {}: entry {} of chunk {} of {} {} it", kind, sums ? send.src : send.dst, send.chunk,
             schedule.name, sums ? "sends" : "receives");
    if (!sums) ++send.step;
    sends.push_back(send);
  }
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk) {
    std::vector<bool> named(at(schedule.ranks), false);
    const int owner = chunk % schedule.ranks;
    for (const int device : entries[at(chunk)]) {
      if (device < 0 || device >= schedule.ranks || device == owner || named[at(device)])
        refuse(composite, "kind {}: device {} is no further entry of chunk {} of {}", kind, device, chunk,
               schedule.name);
      named[at(device)] = true;
      links.links.push_back({sums ? device : owner, sums ? owner : device, 1, 1, 1, topology::LinkClass::shm});
      if (sums)
        sends.push_back({chunk, device, owner, schedule.steps, SendKind::reduce});
      else
        sends.push_back({chunk, owner, device, 0, SendKind::copy});
    }
  }
  schedule::verify(
      schedule::make_schedule(schedule.name, wanted, 0, links, schedule.chunks_per_rank, std::move(sends)));
}

void check_owners(const Composite& composite, std::size_t kind, const schedule::Schedule& schedule, OwnerMay may) {
  for (const schedule::Send& send : schedule.sends) {
    const Rank owner = send.chunk % schedule.ranks;
    if ((may == OwnerMay::receive ? send.src : send.dst) == owner)
      refuse(composite, "kind {}: device {} {} its own chunk {} of {}", kind, owner,
             may == OwnerMay::receive ? "sends" : "receives", send.chunk, schedule.name);
  }
}

// The flat verifier accepts a reduction into nothing, and a copy onto a value that is no longer needed. Other levels
// may have put a value there.
void check_sends(const Composite& composite, const schedule::Schedule& schedule, SendKind wanted) {
  for (const schedule::Send& send : schedule.sends)
    if (send.kind != wanted)
      refuse(composite, "{} on a host {} chunk {} from device {} to {}", info(schedule.collective).call_name,
             wanted == SendKind::copy ? "adds" : "copies", send.chunk, send.src, send.dst);
}

void check_turns(const Composite& composite, std::size_t kind, const std::vector<std::vector<ChunkId>>& turns,
                 const schedule::Schedule& schedule) {
  if (turns.size() != at(schedule.ranks))
    refuse(composite, "kind {} has {} devices and turns of {}", kind, schedule.ranks, turns.size());
  for (std::size_t port = 0; port < turns.size(); ++port) {
    if (turns[port].empty()) refuse(composite, "kind {}: port {} has no chunk to take in turn", kind, port);
    for (const ChunkId chunk : turns[port])
      if (chunk < 0 || chunk >= schedule.chunks || chunk % schedule.ranks != static_cast<int>(port))
        refuse(composite, "kind {}: the map gives chunk {} of {} to port {}, which does not own it", kind, chunk,
               schedule.name, port);
  }
}

void check_plain_kind(const Composite& composite, std::size_t index, const HostKind& kind) {
  if (kind.has_entries() || !kind.in_entries.empty() || !kind.out_entries.empty())
    refuse(composite, "kind {} has entries where none can be", index);
  check_schedule(composite, index, kind.in, Collective::reducescatter);
  check_schedule(composite, index, kind.out, Collective::allgather);
}

void check_kind(const Composite& composite, std::size_t index, const HostKind& kind) {
  check_schedule(composite, index, kind.between, Collective::alltoall);
  check_sends(composite, kind.between, SendKind::copy);
  std::vector<const HostKind*> all{&kind};
  if (kind.has_entries()) {
    check_with_entries(composite, index, kind.in, Collective::reducescatter, kind.in_entries);
    check_with_entries(composite, index, kind.out, Collective::allgather, kind.out_entries);
    check_plain_kind(composite, index, *kind.home);
    if (kind.home->in.ranks != kind.in.ranks)
      refuse(composite, "kind {} has {} devices, and {} at home", index, kind.in.ranks, kind.home->in.ranks);
    all.push_back(kind.home.get());
  } else {
    check_plain_kind(composite, index, kind);
  }
  for (const HostKind* one : all) {
    check_sends(composite, one->in, SendKind::reduce);
    check_sends(composite, one->out, SendKind::copy);
    check_owners(composite, index, one->in, OwnerMay::receive);
    check_owners(composite, index, one->out, OwnerMay::send);
    check_turns(composite, index, one->in_turns, one->in);
    check_turns(composite, index, one->out_turns, one->out);
  }
}

void check_ways_back(const Composite& composite) {
  if (composite.tiers.size() != 1 || composite.hosts.size() < 2)
    refuse(composite, "data returns to the root's host over one tier of several hosts, not over {} of {}",
           composite.tiers.size(), composite.hosts.size());
}

// By chunk, then device: whether the device has the chunk, or still has its own contribution, while other hosts pass
// the chunk.
std::vector<bool> possible_exits(const RootHost& at_root) {
  const schedule::Schedule& schedule = at_root.schedule;
  const bool sums = schedule.collective == Collective::reduce;
  std::vector<bool> possible(at(schedule.chunks) * at(schedule.ranks), false);
  const auto place = [&](ChunkId chunk, int device) { return at(chunk) * at(schedule.ranks) + at(device); };
  for (ChunkId chunk = 0; chunk < schedule.chunks; ++chunk) possible[place(chunk, schedule.root)] = true;
  for (const schedule::Send& send : schedule.sends)
    if ((send.step < at_root.split) != sums) possible[place(send.chunk, sums ? send.src : send.dst)] = true;
  return possible;
}

void check_exits_and_returns(const Composite& composite, const topology::Cluster& cluster, const RootHost& at_root) {
  const schedule::Schedule& schedule = at_root.schedule;
  for (const auto* lists : {&at_root.exits, &at_root.returns})
    if (!lists->empty() && lists->size() != at(schedule.chunks))
      refuse(composite, "the root's host has {} chunks, and exits or returns of {}", schedule.chunks, lists->size());
  const std::vector<Rank>& ranks = cluster.hosts[at(cluster.host_of[at(composite.root)])];
  const auto reaches_others = [&](int device) { return cluster.attachments[at(ranks[at(device)])].attached(); };
  std::vector<bool> whole(at(schedule.chunks), true);  // chunks of which nothing returns
  for (std::size_t chunk = 0; chunk < at_root.returns.size(); ++chunk) {
    whole[chunk] = at_root.returns[chunk].empty();
    std::vector<bool> named(at(schedule.ranks), false);
    for (const int device : at_root.returns[chunk]) {
      if (device < 0 || device >= schedule.ranks || device == schedule.root || named[at(device)])
        refuse(composite, "chunk {} of the root's host cannot return to device {}", chunk, device);
      if (!reaches_others(device))
        refuse(composite, "chunk {} returns to device {}, which reaches no network", chunk, device);
      named[at(device)] = true;
    }
  }
  const std::vector<bool> possible = possible_exits(at_root);
  for (std::size_t chunk = 0; chunk < at_root.exits.size(); ++chunk)
    for (const int device : at_root.exits[chunk])
      if (device < 0 || device >= schedule.ranks || !possible[chunk * at(schedule.ranks) + at(device)])
        refuse(composite, "chunk {} cannot leave the root's host at device {}", chunk, device);
      else if (!reaches_others(device))
        refuse(composite, "chunk {} leaves the root's host at device {}, which reaches no network", chunk, device);
  const bool sums = schedule.collective == Collective::reduce;
  for (const schedule::Send& send : schedule.sends) {
    const bool returned = (send.step < at_root.split) == sums;
    if (returned && whole[at(send.chunk)])
      refuse(composite, "chunk {} of the root's host, which does not return, passes as if it did", send.chunk);
  }
  for (std::size_t chunk = 0; chunk < whole.size(); ++chunk)
    if (!whole[chunk] && (at_root.exits.empty() || at_root.exits[chunk].empty()))
      refuse(composite, "chunk {} returns to the root's host, and no device is named where it leaves", chunk);
}

// The schedule with links from the root to the returns in the place of the other hosts.
schedule::Schedule with_returns(const RootHost& at_root) {
  const schedule::Schedule& schedule = at_root.schedule;
  const bool sums = schedule.collective == Collective::reduce;
  topology::Topology links = schedule.topology;
  std::vector<schedule::Send> sends = schedule.sends;
  for (schedule::Send& send : sends)
    if (send.step >= at_root.split) ++send.step;
  for (std::size_t chunk = 0; chunk < at_root.returns.size(); ++chunk)
    for (const int device : at_root.returns[chunk]) {
      const Rank src = sums ? device : schedule.root;
      const Rank dst = sums ? schedule.root : device;
      links.links.push_back({src, dst, 1, 1, 1, topology::LinkClass::shm});
      sends.push_back({static_cast<ChunkId>(chunk), src, dst, at_root.split, sums ? SendKind::reduce : SendKind::copy});
    }
  return schedule::make_schedule(schedule.name, schedule.collective, schedule.root, links, schedule.chunks_per_rank,
                                 std::move(sends));
}

void check_at_root(const Composite& composite, const topology::Cluster& cluster) {
  const bool rooted = composite.collective == Collective::broadcast || composite.collective == Collective::reduce;
  const schedule::Schedule& schedule = composite.at_root->schedule;
  if (!rooted || schedule.collective != composite.collective)
    refuse(composite, "{} on the root's host serves no {}", info(schedule.collective).name,
           info(composite.collective).name);
  const int host = cluster.host_of[at(composite.root)];
  const topology::Topology& links = cluster.kinds[at(cluster.kind_of[at(host)])];
  if (schedule.root != cluster.local_of[at(composite.root)] || schedule.ranks != links.ranks)
    refuse(composite, "the schedule on the root's host is for root {} of {} devices", schedule.root, schedule.ranks);
  if (const auto edge = lacking(links, schedule))
    refuse(composite, "the root's host lacks link {}->{}", edge->first, edge->second);
  const auto within = [](int number, int count) { return number >= 0 && number < count; };
  for (const schedule::Send& send : schedule.sends)
    if (!within(send.chunk, schedule.chunks) || !within(send.src, schedule.ranks) ||
        !within(send.dst, schedule.ranks) || !within(send.step, schedule.steps))
      refuse(composite, "the root's host sends chunk {} from {} to {} in step {}", send.chunk, send.src, send.dst,
             send.step);
  if (composite.at_root->split < 0 || composite.at_root->split > schedule.steps)
    refuse(composite, "the root's host divides {} steps at {}", schedule.steps, composite.at_root->split);
  check_exits_and_returns(composite, cluster, *composite.at_root);
  schedule::verify(with_returns(*composite.at_root));
  check_sends(composite, schedule, composite.collective == Collective::reduce ? SendKind::reduce : SendKind::copy);
  for (const schedule::Send& send : schedule.sends)
    if ((composite.collective == Collective::reduce ? send.src : send.dst) == schedule.root)
      refuse(composite, "the root passes on its own chunk {}", send.chunk);
}

void check_root_turns(const Composite& composite) {
  if (composite.root_turns.empty()) refuse(composite, "the root's host has no chunk to take in turn");
  if (composite.at_root->has_returns()) check_ways_back(composite);
  for (const ChunkId chunk : composite.root_turns)
    if (chunk < 0 || chunk >= composite.at_root->schedule.chunks)
      refuse(composite, "the map gives the root's host chunk {}", chunk);
}

void check_tree(const Composite& composite, std::size_t tier, const Tree& tree, int members) {
  if (tree.size() != members || tree.step.size() != tree.parent.size() || members < 1 || tree.parent[0] != -1 ||
      tree.step[0] != -1)
    refuse(composite, "tier {}: a tree of {} positions serves groups of {}", tier, tree.size(), members);
  for (int position = 1; position < members; ++position) {
    const int parent = tree.parent[at(position)];
    if (parent < 0 || parent >= members || tree.step[at(position)] <= tree.step[at(parent)])
      refuse(composite, "tier {}: position {} of {} hears from {} in step {}, which comes too early", tier, position,
             members, parent, tree.step[at(position)]);
  }
  if (tree.turns < 1) refuse(composite, "tier {}: {} steps of a tree stand for one", tier, tree.turns);
  Tree indexed = tree;
  index_children(indexed);
  if (indexed != tree)
    refuse(composite, "tier {}: the children of a tree of {} are not those its parents name", tier, members);
}

void check_trees_of_roots(const Composite& composite, std::size_t index) {
  const Tier& tier = composite.tiers[index];
  if (tier.of_roots.empty()) return;
  if (composite.tiers.size() != 1 || tier.groups.size() != 1)
    refuse(composite, "tier {} of {} has {} groups, and trees of roots, which serve one", index, composite.tiers.size(),
           tier.groups.size());
  const std::vector<int>& members = tier.groups.front();
  if (tier.of_roots.size() != members.size())
    refuse(composite, "tier {} has trees of {} roots for {} members", index, tier.of_roots.size(), members.size());
  for (std::size_t root = 0; root < members.size(); ++root) {
    if (tier.of_roots[root].empty()) refuse(composite, "tier {} has no tree of root {}", index, members[root]);
    for (const Tree& tree : tier.of_roots[root]) check_tree(composite, index, tree, static_cast<int>(members.size()));
  }
}

// Members before the leaves are turned round to the root, which is one of them.
void check_leaves(const Composite& composite, std::size_t index) {
  const Tier& tier = composite.tiers[index];
  if (tier.leaves.empty()) return;
  if (composite.collective != Collective::allreduce || composite.tiers.size() != 1 || tier.groups.size() != 1 ||
      !tier.of_roots.empty())
    refuse(composite, "tier {} of {} has leaves, which only one group of an AllReduce may have", index,
           composite.tiers.size());
  const std::vector<int>& members = tier.groups.front();
  if (tier.leaves.size() != tier.shapes.at(static_cast<int>(members.size())).size())
    refuse(composite, "tier {} does not say of each tree how many leaves it has", index);
  const auto [least, most] = std::ranges::minmax(tier.leaves);
  if (least < 0 || most >= static_cast<int>(members.size()))
    refuse(composite, "tier {}: {} to {} of {} members are leaves", index, least, most, members.size());
  std::vector<bool> is_leaf(members.size(), false);
  for (auto member = members.end() - most; member != members.end(); ++member) is_leaf[at(*member)] = true;
  for (const int root : composite.root_hosts.empty() ? std::vector<int>{0} : composite.root_hosts)
    if (is_leaf[at(root)]) refuse(composite, "tier {}: root host {} is a leaf", index, root);
}

void check_tiers(const Composite& composite) {
  int members = static_cast<int>(composite.hosts.size());
  for (std::size_t index = 0; index < composite.tiers.size(); ++index) {
    const Tier& tier = composite.tiers[index];
    if (!parts(tier.groups, members))
      refuse(composite, "tier {} does not hold each of its {} members in one group", index, members);
    for (const std::vector<int>& group : tier.groups) {
      const auto shapes = tier.shapes.find(static_cast<int>(group.size()));
      if (shapes == tier.shapes.end() || shapes->second.empty())
        refuse(composite, "tier {} has no tree for its group of {}", index, group.size());
    }
    for (const auto& [size, shapes] : tier.shapes)
      for (const Tree& tree : shapes) check_tree(composite, index, tree, size);
    check_trees_of_roots(composite, index);
    check_leaves(composite, index);
    members = static_cast<int>(tier.groups.size());
  }
  if (members != 1) refuse(composite, "the top tier leaves {} groups that nothing joins", members);
}

void check_ends(const Composite& composite) {
  const std::int64_t ranks = composite.ranks();
  const std::int64_t pieces = composite.chunks_per_rank;
  const bool by_owner =
      composite.collective == Collective::scatter || composite.collective == Collective::reducescatter;
  const bool by_pair = composite.collective == Collective::alltoall;
  const bool times_ranks =
      by_pair || composite.collective == Collective::allgather || composite.collective == Collective::gather;
  const bool unicast =
      by_pair || composite.collective == Collective::scatter || composite.collective == Collective::gather;
  if (composite.frames < 1 || pieces % composite.frames != 0 || (unicast && composite.frames != 1))
    refuse(composite, "{} chunks per rank in {} frames", pieces, composite.frames);
  if (composite.frame_steps < (composite.staggered ? 1 : 0) || composite.frame_steps > kMostFrameSteps)
    refuse(composite, "frames are {} steps apart", composite.frame_steps);
  const bool leads = composite.root_lead != 0;
  if (composite.root_lead < 0 || composite.root_lead > kMostFrameSteps ||
      (leads && composite.collective != Collective::broadcast))
    refuse(composite, "the root of {} has a lead of {} steps", info(composite.collective).call_name,
           composite.root_lead);
  constexpr std::int64_t kMostChunks = std::int64_t{1} << 30;
  if (pieces < 1 || (times_ranks ? pieces * ranks : pieces) > kMostChunks)
    refuse(composite, "{} chunks per rank of {} ranks are too many or none", pieces, ranks);
  if ((by_owner || by_pair) && pieces / composite.frames % ranks != 0)
    refuse(composite, "{} chunks per rank are no multiple of the {} ranks", pieces, ranks);
  if (composite.collective == Collective::sendrecv) refuse(composite, "point-to-point transfers are no composites");
  if (composite.root < 0 || composite.root >= composite.ranks())
    refuse(composite, "root {} is not one of the ranks 0..{}", composite.root, composite.ranks() - 1);
  for (const int host : composite.root_hosts)
    if (host < 0 || host >= static_cast<int>(composite.hosts.size()))
      refuse(composite, "root host {} is not one of 0..{}", host, composite.hosts.size() - 1);
  if (composite.pace_across < 0 || composite.pace_across > kMostPace)
    refuse(composite, "blocks change rails at a pace of {}", composite.pace_across);
  if (const std::string fault = composite.alike ? fault_of_alike(composite) : ""; !fault.empty())
    refuse(composite, "its hosts do not do alike: {}", fault);
  if (composite.rails_of_pairs && !unicast)
    refuse(composite, "{} has no blocks of pairs of hosts", info(composite.collective).call_name);
  if (composite.meeting == Meeting::butterfly && composite.collective != Collective::allreduce)
    refuse(composite, "{} does not meet as a butterfly: AllReduce does", info(composite.collective).call_name);
}

// The topology with all ranks on one host, whose links are all links.
topology::Cluster as_one_host(const topology::Topology& topology) {
  topology::Cluster cluster;
  std::vector<Rank> ranks(at(topology.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<topology::Node> nodes(at(topology.nodes()));
  std::iota(nodes.begin(), nodes.end(), 0);
  cluster.hosts = {ranks};
  cluster.host_of.assign(ranks.size(), 0);
  cluster.local_of = ranks;
  cluster.kinds = {topology};
  cluster.kind_of = {0};
  cluster.nodes = {std::move(nodes)};
  cluster.attachments.resize(ranks.size());  // a single host needs no network
  return cluster;
}

void check_order(const Composite& composite) {
  if (const std::string fault = fault_of_order(composite); !fault.empty()) refuse(composite, "{}", fault);
}

}  // namespace

Verified::Verified(const Verified& known, std::shared_ptr<const Order> order) {
  Composite composite = *known;
  composite.order = std::move(order);
  composite.name += "-by-time";
  check_order(composite);
  composite_ = std::make_shared<const Composite>(std::move(composite));
}

Verifier::Verifier(std::shared_ptr<const topology::Topology> topology)
    : topology_(std::move(topology)), cluster_(topology::cluster_of(*topology_)) {
  topology::validate(*topology_);
  topology::require_network(*topology_, cluster_);
}

const topology::Cluster& Verifier::hosts_of(const Composite& composite) {
  if (composite.hosts.size() != 1 || cluster_.hosts.size() == 1) return cluster_;
  if (!one_host_) one_host_ = std::make_shared<const topology::Cluster>(as_one_host(*topology_));
  return *one_host_;
}

void Verifier::verify(const Composite& composite) {
  if (composite.topology != topology_ || composite.hosts.empty())
    refuse(composite, "it has no hosts, or another topology than its verifier");
  check_ends(composite);
  for (std::size_t index = 0; index < composite.kinds.size(); ++index) {
    const auto& kind = composite.kinds[index];
    if (kind->has_entries() && composite.meeting == Meeting::butterfly)
      refuse(composite, "kind {} has entries, which a butterfly does not know", index);
    if (proved_.contains(kind)) continue;
    check_kind(composite, index, *kind);
    proved_.insert(kind);
  }
  const topology::Cluster& cluster = hosts_of(composite);
  check_hosts(composite, cluster);
  check_links_of_kinds(composite, cluster);
  check_tiers(composite);
  if (composite.at_root) {
    RootProof wanted{*composite.at_root, composite.collective, composite.root, &cluster};
    if (std::find(proved_roots_.begin(), proved_roots_.end(), wanted) == proved_roots_.end()) {
      check_at_root(composite, cluster);
      if (proved_roots_.size() == kMostProvedRoots) proved_roots_.pop_front();
      proved_roots_.push_back(std::move(wanted));
    }
    check_root_turns(composite);
  }
  if (const std::string fault = fault_between_networks(composite, cluster); !fault.empty())
    refuse(composite, "{}", fault);
  check_order(composite);
}

void verify(const Composite& composite) {
  if (composite.topology == nullptr) refuse(composite, "it has no topology");
  Verifier(composite.topology).verify(composite);
}

}  // namespace sccl::compose
