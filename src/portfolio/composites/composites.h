// The composites that could serve a collective on a cluster, each with its cost in closed form.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compose/cost/cost.h"
#include "compose/form/composite.h"
#include "compose/lowering/host_share.h"
#include "compose/proof/verify.h"
#include "portfolio/composites/framings.h"
#include "portfolio/composites/outer_trees.h"
#include "portfolio/flat/flat_form.h"
#include "portfolio/flat/ordered_share.h"
#include "portfolio/host/host_level.h"
#include "portfolio/host/root_forest.h"
#include "portfolio/links/rails.h"

namespace sccl::portfolio {

struct CompositeCandidate {
  // named "levels/SHAPE+HOST": the shape of the tiers and the hosts' planner; or "even-trees/TREESxFRAMES"
  compose::Verified composite;
  compose::Cost cost;
  Steps steps = Steps::of_frames;  // of a flat form

  // Of the hosts that it was planned for; null: of all ranks as one host.
  std::shared_ptr<const compose::HostShares> shares = nullptr;
  // On many ranks: its order by time, where one host's is that of all; null: none.
  std::shared_ptr<const OrderedShare> by_time = nullptr;

  std::string name() const;
  // What programs are made of: with the order by time that it has on many ranks.
  compose::Verified to_run() const { return by_time ? by_time->composite() : composite; }
};

// Plans for one cluster. Work that does not depend on the collective is done once.
class CompositePlanner {
 public:
  // Throws invalid_argument that names the host when a host has no NIC or the network does not connect the hosts.
  explicit CompositePlanner(const topology::Topology& topology);
  CompositePlanner(const CompositePlanner&) = delete;
  CompositePlanner& operator=(const CompositePlanner&) = delete;
  ~CompositePlanner();

  // Plans for islands of hosts (topology/symmetry/islands.h), as if each were a host: long data that every rank gets or
  // gives, passed on from island to island in ways that hardly ever lead from one to another of the same host.
  // `islands` is without the links between them, `whole` with them.
  CompositePlanner(const topology::Topology& islands, std::shared_ptr<const topology::Topology> whole,
                   const topology::Cluster& hosts);

  // Whether there are several hosts, so that composites exist.
  bool has_levels() const { return cluster_->hosts.size() > 1; }

  // Verified; a pure function of the arguments. Empty if there is one host. Linear in ranks for each of about a dozen
  // candidates.
  std::vector<CompositeCandidate> candidates(Collective collective, Rank root);

  compose::CostModel& costs() const;
  const std::shared_ptr<const compose::HostShares>& shares() const { return shares_; }

  const std::shared_ptr<const topology::Topology>& topology() const { return topology_; }
  const topology::Cluster& cluster() const { return *cluster_; }

 private:
  struct Forest;
  struct Variant;
  struct Workshop;
  static constexpr std::size_t kNoLevel = static_cast<std::size_t>(-1);
  static constexpr std::size_t kMostKindsOfNics = 8;  // of hosts, with unequal NICs
  void plan_hosts();
  bool of_islands() const { return whole_ != nullptr; }
  bool is_worthwhile_here(compose::Shape shape, Collective collective, bool racks) const;
  void order_islands();
  void add_by_time(std::vector<Variant>& variants, const Variant& of_shape) const;
  std::vector<PortsOfHost> all_ports() const;
  void plan_pairs();
  std::vector<compose::Host> hosts_with(const std::vector<PortsOfHost>& ports);
  void keep_off_slow_links(std::vector<PortsOfHost>& ports);
  // What brings data to a host with entries: as much as the weakest host gets, or what its own NICs bring.
  enum class Nics : std::uint8_t { alike, own };
  std::vector<bool> kinds_of_ports_only() const;
  std::vector<std::size_t> kinds_for_entries(Nics nics) const;
  double gbytes_per_s_of_kind(std::size_t kind) const;
  void add_levels_with_entries(Collective collective);
  std::size_t level_with_entries(Collective collective, Nics nics, double gbytes_per_s);
  std::size_t level_of_own_nics(Collective collective);
  std::size_t level_where_slow(Collective collective);
  bool has_own_data(std::size_t level) const { return std::ranges::count(levels_with_own_data_, level) > 0; }
  bool is_for_both_ways(std::size_t level) const { return std::ranges::count(levels_for_both_ways_, level) > 0; }
  bool has_no_own_data(std::size_t level) const { return std::ranges::count(levels_without_, level) > 0; }
  bool is_for_own_nics(std::size_t level) const {
    return level == levels_with_own_data_.back() || level == levels_for_both_ways_.back() ||
           level == levels_without_.back();
  }
  std::size_t level_of_roots() const;
  bool serves(std::size_t level, Collective collective) const;
  bool may_return(Rank root) const;
  std::vector<double> nic_rates(std::size_t host) const;
  std::vector<double> exit_rates(Rank root) const;
  std::vector<topology::Node> last_nodes_on_the_way_out(std::size_t host) const;
  bool shares_ways_out(std::size_t host) const;
  std::vector<Forest> forests_at(Rank root, Collective collective) const;
  std::vector<Framing> frames_for(const Variant& variant) const;
  bool simulated() const;
  void add_root_forest(compose::Composite& composite, const std::vector<RootTree>& trees) const;
  std::vector<CompositeCandidate> made(const Variant& variant, Workshop& shop) const;
  void make(std::vector<CompositeCandidate>& result, const std::vector<Variant>& variants);
  std::vector<Variant> packed(std::span<const CompositeCandidate> others, Collective collective, Rank root,
                              const std::vector<std::shared_ptr<const schedule::Schedule>>& at_root,
                              const std::vector<Forest>& forests);
  const OuterTrees* outer_trees(std::span<const CompositeCandidate> others, const compose::Composite& one);
  void add_forests(std::vector<Variant>& variants, const Variant& of_hosts, const std::vector<Forest>& forests) const;
  void add_framed(std::vector<Variant>& variants, const Variant& of_hosts,
                  const std::vector<std::shared_ptr<const schedule::Schedule>>& at_root,
                  const std::vector<Forest>& forests) const;
  std::vector<compose::Tier> tiers(compose::Shape shape, bool racks, bool one_by_one) const;
  compose::Tier tier_of_rack_trees(int root_host) const;
  bool sends_one_by_one(const Variant& variant, const compose::Composite& composite) const;
  const HostLevel& naming(std::size_t level) const;
  compose::Composite base(Collective collective, Rank root, std::size_t level) const;
  Effort effort_for_next_kind() const;
  int kind_of(int links, std::vector<double> parts);
  std::vector<std::vector<int>> ports_near(const compose::Host& host, int links, const std::vector<double>& nics);
  void plan_racks();
  std::vector<int> root_hosts(compose::Shape shape, bool racks) const;
  void plan_leaves();
  compose::Tier tier_with_leaves(compose::Shape shape) const;

  std::shared_ptr<const topology::Topology> topology_;
  std::shared_ptr<const topology::Cluster> cluster_;
  std::shared_ptr<const topology::Topology> whole_;  // of islands: compose::Composite::whole
  std::vector<int> host_of_;                         // by island
  std::vector<int> island_;                          // by island: how many of the same host come before it
  std::shared_ptr<const compose::HostShares> shares_;
  std::vector<std::unique_ptr<Workshop>> workshops_;  // one for each thread that makes composites; the first always
  std::unique_ptr<OuterPlanner> outer_;
  std::vector<std::pair<int, std::vector<double>>> kinds_;  // see kind_of()
  using NearPorts = std::pair<std::pair<int, std::vector<double>>, std::vector<std::vector<int>>>;
  std::vector<NearPorts> near_;                 // by links and NICs: compose::Host::near
  std::vector<std::vector<HostLevel>> levels_;  // by kind: least busy, then fewest steps
  std::vector<std::vector<HostLevel>> plain_;   // the same without entries
  std::set<Collective> with_entries_;           // one of each direction whose levels with entries were looked for
  std::size_t level_choices_ = 1;
  std::size_t naming_kind_ = 0;  // one with the most levels, so that no two have the same name
  // Of levels_: with entries, where some of the data is a host's own, in one direction (AllGather) and in both
  // (AllReduce), and where none is (Broadcast). The second ones are made for what a slow network brings, the last ones
  // for the NICs that each host has.
  std::array<std::size_t, 3> levels_with_own_data_{kNoLevel, kNoLevel, kNoLevel};
  std::array<std::size_t, 3> levels_for_both_ways_{kNoLevel, kNoLevel, kNoLevel};
  std::array<std::size_t, 2> levels_without_{kNoLevel, kNoLevel};
  std::vector<compose::Host> hosts_;
  bool turns_are_rails_ = false;           // compose::Composite
  std::vector<compose::Host> all_nics_;    // hosts_ with NICs on all rails, where turns are rails
  std::vector<compose::Host> pairs_;       // of compose::Composite::rails_of_pairs, where these can help
  bool shares_rails_ = true;               // all hosts have a network in common: else no composite of hosts exists
  std::vector<int> host_order_;            // in which shapes take hosts
  std::vector<double> host_gbytes_per_s_;  // total of a host's NICs
  // Of an AllReduce, where hosts with few NICs should pass less than others: compose::Tier::leaves, and a group that
  // ends with these hosts. Else empty.
  std::vector<int> leaves_, leaves_last_;
  std::vector<double> rack_gbytes_per_s_;  // from a rack's leaf switches to others
};

}  // namespace sccl::portfolio
