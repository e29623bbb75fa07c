// Which kinds of hosts get levels with entries (portfolio/host/entries.h), and for which collectives.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "compose/network/handed_over.h"
#include "portfolio/composites/composites.h"
#include "portfolio/flat/candidate.h"
#include "portfolio/host/entries.h"
#include "schedule/simulation/cost.h"

namespace sccl::portfolio {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kSlow = 0.98;                    // a network brings a host less than this part of what its NICs do
constexpr double kAlike = 1.25;                   // hosts whose NICs differ by less: a device left out changes little
constexpr std::size_t kMostKindsWithEntries = 4;  // whose levels take tens of milliseconds each to find
constexpr int kMostDevices = 24;  // of a host: with 32 of them a level takes half a second, with 72 a minute

}  // namespace

// By kind: whether every device of its hosts is a port, in proportion to its NIC.
std::vector<bool> CompositePlanner::kinds_of_ports_only() const {
  std::vector<bool> result(levels_.size(), true);
  for (const compose::Host& host : hosts_) {
    const std::vector<double> shares = compose::shares(host);
    const std::vector<double>& parts = kinds_[at(host.kind)].second;
    const bool fit = parts.empty() ? host.all_own() && host.ports.size() == host.ranks.size() : shares == parts;
    if (!fit || *std::ranges::min_element(shares) <= 0) result[at(host.kind)] = false;
  }
  return result;
}

// Kinds of hosts where every device has a NIC, those with the slowest links first: no more than there is time for.
std::vector<std::size_t> CompositePlanner::kinds_for_entries(Nics nics) const {
  std::vector<std::pair<double, std::size_t>> slowest;
  const std::vector<bool> ports_only = kinds_of_ports_only();
  for (std::size_t kind = 0; kind < levels_.size(); ++kind) {
    const bool alike = kinds_[kind].second.empty();
    const schedule::Schedule& copies = levels_[kind].front().kind->out;
    if (ports_only[kind] && (alike || nics == Nics::own) && copies.ranks > 1 && copies.ranks <= kMostDevices)
      slowest.emplace_back(-schedule::busiest_us_per_byte(copies) / copies.ranks, kind);
  }
  std::sort(slowest.begin(), slowest.end());
  slowest.resize(std::min(slowest.size(), nics == Nics::own ? kMostKindsOfNics : kMostKindsWithEntries));
  std::vector<std::size_t> kinds;
  for (const auto& [busy, kind] : slowest) kinds.push_back(kind);
  return kinds;
}

// Kinds of hosts that entries do not help keep their least busy level.
std::size_t CompositePlanner::level_with_entries(Collective collective, Nics nics, double gbytes_per_s) {
  const std::vector<std::size_t> kinds = kinds_for_entries(nics);
  const Halves halves = collective == Collective::allreduce ? Halves::together : Halves::apart;
  const bool own_data = collective != Collective::broadcast;
  std::vector<std::optional<HostLevel>> found(levels_.size());
  for (const std::size_t kind : kinds) {
    const topology::Topology& links = cluster_->kinds[at(kinds_[kind].first)];
    const double home = own_data ? static_cast<double>(links.ranks) / topology_->ranks : 0;
    std::vector<double> rates = kinds_[kind].second;
    // Chunks that take deep trees wait for one another, which a simulation shows. Only they make use of unequal NICs.
    const Packings packings = simulated() && rates.empty() ? Packings::no : Packings::yes;
    if (rates.empty()) rates.assign(at(links.ranks), 1.0 / links.ranks);
    for (double& rate : rates) rate *= nics == Nics::own ? gbytes_per_s_of_kind(kind) : gbytes_per_s;
    found[kind] = portfolio::level_with_entries(links, plain_[kind], rates, home, halves, packings);
    if (found[kind] && nics == Nics::own) found[kind]->name += "-by-nics";
  }
  if (std::none_of(found.begin(), found.end(), [](const auto& one) { return one.has_value(); })) return kNoLevel;
  const std::size_t place = level_choices_++;
  for (std::size_t kind = 0; kind < levels_.size(); ++kind) {
    levels_[kind].resize(place, HostLevel(levels_[kind].back()));
    levels_[kind].push_back(found[kind] ? *std::move(found[kind]) : plain_[kind].front());
  }
  return place;
}

// What the NICs of its weakest host bring.
double CompositePlanner::gbytes_per_s_of_kind(std::size_t kind) const {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t host = 0; host < hosts_.size(); ++host)
    if (at(hosts_[host].kind) == kind) least = std::min(least, host_gbytes_per_s_[host]);
  return least;
}

// Data comes as fast as the host with the slowest NICs gets it. Where the network is slower, each entry costs as much
// as there, so that fewer pay for long data.
std::size_t CompositePlanner::level_where_slow(Collective collective) {
  const double least = *std::min_element(host_gbytes_per_s_.begin(), host_gbytes_per_s_.end());
  const double into = outer_->gbytes_per_s_into_host(collective, topology_->ranks / static_cast<int>(hosts_.size()));
  return into < kSlow * least ? level_with_entries(collective, Nics::alike, into) : kNoLevel;
}

// Hosts with better NICs than the weakest host, or with NICs of unequal rates, can afford more entries than that host.
std::size_t CompositePlanner::level_of_own_nics(Collective collective) {
  const auto [least, most] = std::minmax_element(host_gbytes_per_s_.begin(), host_gbytes_per_s_.end());
  const bool unequal = std::ranges::any_of(kinds_, [](const auto& kind) { return !kind.second.empty(); });
  return unequal || *most > kAlike * *least ? level_with_entries(collective, Nics::own, 0) : kNoLevel;
}

// Only those that serve the collective: each takes milliseconds to find, and many planners are asked for one
// collective.
void CompositePlanner::add_levels_with_entries(Collective collective) {
  // Of many hosts sums and copies hardly overlap: levels where each of them is even may be better than both together.
  if (collective == Collective::allreduce && !simulated()) add_levels_with_entries(Collective::allgather);
  const bool blocks = collective == Collective::allgather || collective == Collective::reducescatter;
  const bool one_root = passes_whole(collective);
  if (!blocks && !one_root && collective != Collective::allreduce) return;
  const Collective copies = blocks ? Collective::allgather : one_root ? Collective::broadcast : Collective::allreduce;
  if (!with_entries_.insert(copies).second || kinds_for_entries(Nics::own).empty()) return;
  const double least = *std::min_element(host_gbytes_per_s_.begin(), host_gbytes_per_s_.end());
  const std::size_t of_own = level_of_own_nics(copies);
  if (one_root) {
    levels_without_ = {level_with_entries(copies, Nics::alike, least), of_own};
  } else {
    const std::size_t level = level_with_entries(copies, Nics::alike, least);
    (blocks ? levels_with_own_data_ : levels_for_both_ways_) = {level, level_where_slow(copies), of_own};
  }
}

}  // namespace sccl::portfolio
