// Which kinds of hosts get levels with entries (portfolio/host/entries.h), and for which collectives.
#include <algorithm>
#include <optional>
#include <utility>

#include "portfolio/composites/composites.h"
#include "portfolio/host/entries.h"
#include "schedule/simulation/cost.h"

namespace sccl::portfolio {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kSlow = 0.98;                    // a network brings a host less than this part of what its NICs do
constexpr std::size_t kMostKindsWithEntries = 4;  // whose levels take tens of milliseconds each to find

}  // namespace

// Kinds of hosts where every device has a NIC as good as the others', those with the slowest links first: no more than
// there is time for.
std::vector<std::size_t> CompositePlanner::kinds_for_entries() const {
  std::vector<std::pair<double, std::size_t>> slowest;
  for (std::size_t kind = 0; kind < levels_.size(); ++kind) {
    const bool even = std::all_of(hosts_.begin(), hosts_.end(), [&](const compose::Host& host) {
      return static_cast<std::size_t>(host.kind) != kind || (host.all_own() && host.ports.size() == host.ranks.size());
    });
    const schedule::Schedule& copies = levels_[kind].front().kind->out;
    if (even && copies.ranks > 1) slowest.emplace_back(-schedule::busiest_us_per_byte(copies) / copies.ranks, kind);
  }
  std::sort(slowest.begin(), slowest.end());
  slowest.resize(std::min(slowest.size(), kMostKindsWithEntries));
  std::vector<std::size_t> kinds;
  for (const auto& [busy, kind] : slowest) kinds.push_back(kind);
  return kinds;
}

// Data comes as fast as the host with the slowest NICs gets it. Where the network is slower, each entry costs as much
// as there, so that fewer pay for long data. Kinds of hosts that entries do not help keep their least busy level.
std::size_t CompositePlanner::level_with_entries(Collective collective, double gbytes_per_s) {
  const std::vector<std::size_t> kinds = kinds_for_entries();
  const Halves halves = collective == Collective::allreduce ? Halves::together : Halves::apart;
  // Chunks that take deep trees wait for one another, which a simulation shows.
  const Packings packings = simulated() ? Packings::no : Packings::yes;
  const bool own_data = collective != Collective::broadcast;
  std::vector<std::optional<HostLevel>> found(levels_.size());
  for (const std::size_t kind : kinds) {
    const topology::Topology& links = cluster_->kinds[at(kinds_[kind].first)];
    const double home = own_data ? static_cast<double>(links.ranks) / topology_->ranks : 0;
    found[kind] =
        portfolio::level_with_entries(links, plain_[kind], gbytes_per_s / links.ranks, home, halves, packings);
  }
  if (std::none_of(found.begin(), found.end(), [](const auto& one) { return one.has_value(); })) return kNoLevel;
  const std::size_t place = level_choices_++;
  for (std::size_t kind = 0; kind < levels_.size(); ++kind) {
    levels_[kind].resize(place, HostLevel(levels_[kind].back()));
    levels_[kind].push_back(found[kind] ? *std::move(found[kind]) : plain_[kind].front());
  }
  return place;
}

std::size_t CompositePlanner::level_where_slow(Collective collective) {
  const double least = *std::min_element(host_gbytes_per_s_.begin(), host_gbytes_per_s_.end());
  const double into = outer_->gbytes_per_s_into_host(collective, topology_->ranks / static_cast<int>(hosts_.size()));
  return into < kSlow * least ? level_with_entries(collective, into) : kNoLevel;
}

// Only those that serve the collective: each takes milliseconds to find, and many planners are asked for one
// collective.
void CompositePlanner::add_levels_with_entries(Collective collective) {
  // Of many hosts sums and copies hardly overlap: levels where each of them is even may be better than both together.
  if (collective == Collective::allreduce && !simulated()) add_levels_with_entries(Collective::allgather);
  const bool blocks = collective == Collective::allgather || collective == Collective::reducescatter;
  const bool one_root = collective == Collective::broadcast || collective == Collective::reduce;
  if (!blocks && !one_root && collective != Collective::allreduce) return;
  const Collective copies = blocks ? Collective::allgather : one_root ? Collective::broadcast : Collective::allreduce;
  if (!with_entries_.insert(copies).second || kinds_for_entries().empty()) return;
  const double least = *std::min_element(host_gbytes_per_s_.begin(), host_gbytes_per_s_.end());
  const std::size_t level = level_with_entries(copies, least);
  if (one_root) {
    level_without_ = level;
  } else {
    (blocks ? levels_with_own_data_ : levels_for_both_ways_) = {level, level_where_slow(copies)};
  }
}

}  // namespace sccl::portfolio
