// Composites whose root's host passes data on by trees over its devices, of which some get data back.
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "compose/network/handed_over.h"
#include "portfolio/composites/chunking.h"
#include "portfolio/composites/composites.h"
#include "portfolio/composites/framings.h"
#include "portfolio/composites/variant.h"
#include "portfolio/host/root_forest.h"
#include "portfolio/links/shares.h"

namespace sccl::portfolio {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Data returns late, and the NICs that bring it have no time to catch up where they have no slack. With less of it more
// steps between frames pay.
constexpr double kSlackRate = 0.8;         // of a NIC
constexpr double kSlackRateOfMany = 0.85;  // the same with more ranks
constexpr double kNearlyRate = 0.97;       // of what the root sends without slack

// At how many devices a chunk enters a host, on average.
double entries_of(const compose::HostKind& kind) {
  if (kind.out_entries.empty()) return 1;
  double sum = 0;
  for (const auto& devices : kind.out_entries) sum += 1 + static_cast<double>(devices.size());
  return sum / static_cast<double>(kind.out_entries.size());
}

}  // namespace

// Whether data may come back to the root's host from other hosts, by another NIC than the one by which it leaves.
bool CompositePlanner::may_return(Rank root) const {
  const compose::Host& host = hosts_[at(cluster_->host_of[at(root)])];
  return std::set<int>(host.ports.begin(), host.ports.end()).size() > 1;
}

// By device of a host: the rate of its NIC, or 0.
std::vector<double> CompositePlanner::nic_rates(std::size_t host) const {
  std::vector<double> rates = compose::shares(hosts_[host]);
  for (double& rate : rates) rate *= host_gbytes_per_s_[host];
  return rates;
}

// The same of the root's host. Where the way to the root's NIC begins with a link to other devices, the others at that
// NIC send what leaves by it, since the root has enough to do with sending all data once. So it is in an island, of
// which all devices may share a NIC. Whole hosts have more NICs than the root can use.
std::vector<double> CompositePlanner::exit_rates(Rank root) const {
  const auto host = at(cluster_->host_of[at(root)]);
  std::vector<double> rates = nic_rates(host);
  const topology::Attachment& way = cluster_->attachments[at(root)];
  if (!way.attached()) return rates;
  const topology::Node local = cluster_->local_of[at(root)];
  if (!of_islands() && last_nodes_on_the_way_out(host)[at(local)] == local) return rates;
  std::vector<std::size_t> others;
  for (const Rank rank : cluster_->hosts[host]) {
    const topology::Attachment& one = cluster_->attachments[at(rank)];
    if (rank != root && one.attached() && one.up.back() == way.up.back())
      others.push_back(at(cluster_->local_of[at(rank)]));
  }
  double& of_root = rates[at(cluster_->local_of[at(root)])];
  for (const std::size_t other : others) rates[other] += of_root / static_cast<double>(others.size());
  if (!others.empty()) of_root = 0;
  return rates;
}

// By device of a host: the last node of the host on its way to its NIC. Two devices below one switch with a NIC reach
// it over the links that join them. Where all are below one switch, each is as if it had a NIC of its own: data that
// returns by the only NIC is late, and trees that count on it take up to a quarter longer than they promise.
std::vector<topology::Node> CompositePlanner::last_nodes_on_the_way_out(std::size_t host) const {
  const std::vector<topology::Node>& nodes = cluster_->nodes[host];
  std::vector<topology::Node> result;
  for (const Rank rank : cluster_->hosts[host]) {
    topology::Node last = cluster_->local_of[at(rank)];
    for (const auto& [src, dst] : cluster_->attachments[at(rank)].up) {
      const auto found = std::ranges::find(nodes, dst);
      if (found == nodes.end()) break;
      last = static_cast<topology::Node>(found - nodes.begin());
    }
    result.push_back(last);
  }
  if (std::ranges::count(result, result.front()) == std::ssize(result)) std::iota(result.begin(), result.end(), 0);
  return result;
}

// Whether a way to a NIC passes a link to other devices.
bool CompositePlanner::shares_ways_out(std::size_t host) const {
  const std::vector<topology::Node> last_nodes = last_nodes_on_the_way_out(host);
  for (std::size_t device = 0; device < last_nodes.size(); ++device)
    if (at(last_nodes[device]) != device) return true;
  return false;
}

// Of many hosts one forest is tried. Best are trees that leave by NICs as often as chunks enter the next host; then
// those that leave NICs some slack, since data that returns is late and must catch up; where that costs more than a
// little, those that use all NICs. These promise what no links keep that data passes on its way to several NICs.
std::vector<CompositePlanner::Forest> CompositePlanner::forests_at(Rank root, Collective collective) const {
  const auto host = at(cluster_->host_of[at(root)]);
  const topology::Topology& links = cluster_->kinds[at(cluster_->kind_of[host])];
  const std::vector<double> rates = exit_rates(root);
  const std::vector<topology::Node> last_nodes = last_nodes_on_the_way_out(host);
  const auto plan = [&](std::string_view name, double part, double entries, std::span<const Framing> frames) {
    std::vector<double> nics = rates;
    for (double& rate : nics) rate *= part;
    return Forest{name, root_trees(links, nics, last_nodes, entries, collective, cluster_->local_of[at(root)]), frames,
                  entries > 1 || !simulated() ? level_of_roots() : kNoLevel};
  };
  std::vector<Forest> result;
  if (simulated()) {
    result.push_back(plan("forest-", 1, 1, kForestFrames));
    result.push_back(plan("slack-forest-", kSlackRate, 1, kSlackFrames));
  } else {
    result.push_back(plan("forest-", 1, 1, kManyForestFrames));
    const double enough = kNearlyRate * result.front().rate();
    const auto prefer = [&](Forest other, double least) {
      const bool better = !other.trees.empty() && other.rate() >= least;
      if (better) result.front() = std::move(other);
      return better;
    };
    const bool by_entries =
        level_of_roots() != kNoLevel &&
        prefer(plan("exits-forest-", 1, entries_of(*levels_[at(hosts_[host].kind)][level_of_roots()].kind),
                    kManyForestFrames),
               shares_ways_out(host) ? 0 : enough);
    if (!by_entries) prefer(plan("slack-forest-", kSlackRateOfMany, 1, kManyForestFrames), enough);
  }
  std::erase_if(result, [](const Forest& forest) { return forest.trees.empty(); });
  return result;
}

// Of the levels with entries for Broadcast and Reduce, the one that forests are made for if there are many hosts.
std::size_t CompositePlanner::level_of_roots() const {
  const auto [of_weakest, of_own_nics] = levels_without_;
  return of_own_nics != kNoLevel ? of_own_nics : of_weakest;
}

// A chunk for each of the many ways over the root's host.
void CompositePlanner::add_root_forest(compose::Composite& composite, const std::vector<RootTree>& trees) const {
  const int of_frame = composite.chunks_per_rank / composite.frames;
  const auto root_host = at(cluster_->host_of[at(composite.root)]);
  const compose::Host& next = composite.hosts[root_host == 0 ? 1 : 0];
  const compose::HostKind& kind = *composite.kinds[at(next.kind)];
  const bool sums = composite.collective == Collective::reduce;
  const int ports = most_ports(composite);
  const compose::Routes routes(composite);
  std::vector<Leaving> leaving;
  for (int i = 0; i < composite.chunks_per_rank; ++i) {
    const int chunk = i % of_frame;
    const int frame = i / of_frame;
    Leaving& one = leaving.emplace_back();
    routes.for_each_child(chunk * composite.frames + frame, static_cast<int>(root_host),
                          [&](int host, compose::Step) { one.host = host; });
    const int port = next.ports[at(i) % next.ports.size()];
    one.entries.push_back(port);
    const auto& turns = (sums ? kind.in_turns : kind.out_turns)[at(port)];
    const auto& more = sums ? kind.in_entries : kind.out_entries;
    if (more.empty()) continue;
    const std::vector<int>& others =
        more[at(turns[at(chunk / ports + frame * ((of_frame + ports - 1) / ports)) % turns.size()])];
    one.entries.insert(one.entries.end(), others.begin(), others.end());
  }
  const topology::Topology& links = cluster_->kinds[at(cluster_->kind_of[root_host])];
  const auto exits = shares_ways_out(root_host) ? ExitsOfTree::packed : ExitsOfTree::all;
  composite.at_root = root_forest(links, trees, exits, exit_rates(composite.root), composite.collective,
                                  cluster_->local_of[at(composite.root)], leaving, !simulated());
  composite.root_turns.resize(leaving.size());
  std::iota(composite.root_turns.begin(), composite.root_turns.end(), 0);
}

// What the root's host does goes by trees over its devices, of which some get data back.
void CompositePlanner::add_forests(std::vector<Variant>& variants, const Variant& of_hosts,
                                   const std::vector<Forest>& forests) const {
  if (of_hosts.level != 0 && !has_no_own_data(of_hosts.level)) return;
  for (const Forest& forest : forests) {
    if (forest.level != kNoLevel && forest.level != of_hosts.level) continue;
    for (const Framing& frames : forest.frames) {
      Variant variant = of_hosts;
      variant.frames = frames;
      variant.forest = &forest;
      variants.push_back(variant);
    }
  }
}

}  // namespace sccl::portfolio
