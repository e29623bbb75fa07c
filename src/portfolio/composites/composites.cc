#include "portfolio/composites/composites.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/os/in_parallel.h"
#include "compose/form/rack_trees.h"
#include "compose/network/handed_over.h"
#include "compose/proof/networks.h"
#include "portfolio/composites/chunking.h"
#include "portfolio/composites/even_tree_candidates.h"
#include "portfolio/composites/framings.h"
#include "portfolio/composites/shapes.h"
#include "portfolio/composites/variant.h"
#include "portfolio/flat/candidate.h"
#include "portfolio/host/root_forest.h"
#include "portfolio/links/islands_apart.h"
#include "portfolio/links/shares.h"
#include "treegen/schedules/to_schedule.h"

namespace sccl::portfolio {
namespace {

using compose::Meeting, compose::Shape;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr int kTimesFrames[] = {2, 4};             // of an order by time, for more data
constexpr int kManyFrames = 16;                    // use the turns of hosts evenly together, if not each by itself
constexpr int kShortRing = 4;                      // hosts
constexpr int kPacesAcross[] = {0, 2, 8, 16, 64};  // of compose::kMostPace
constexpr int kMostAlltoallRanks = 1 << 15;        // whose pairs are as many as the chunks that are counted

// What the root's host does beside a level of the others: by least busy links where these have entries.
const std::shared_ptr<const schedule::Schedule>& beside_level(
    const std::vector<std::shared_ptr<const schedule::Schedule>>& at_root, std::size_t level, bool with_entries) {
  return at_root[with_entries ? 0 : std::min(level, at_root.size() - 1)];
}

}  // namespace

std::string CompositeCandidate::name() const { return composite->name + (has_order(steps) ? "-by-time" : ""); }

CompositePlanner::CompositePlanner(const topology::Topology& topology)
    : topology_(std::make_shared<topology::Topology>(topology)),
      cluster_(std::make_shared<topology::Cluster>(topology::cluster_of(topology))) {
  topology::require_network(*topology_, *cluster_);
  workshops_.push_back(std::make_unique<Workshop>(topology_, cluster_));
  shares_ = std::make_shared<const compose::HostShares>(*topology_, *cluster_, costs().edges());
  if (has_levels()) plan_hosts();
}

CompositePlanner::CompositePlanner(const topology::Topology& islands, std::shared_ptr<const topology::Topology> whole,
                                   const topology::Cluster& hosts)
    : CompositePlanner(islands) {
  whole_ = std::move(whole);
  std::vector<int> seen(hosts.hosts.size(), 0);
  for (const auto& ranks : cluster_->hosts) {
    host_of_.push_back(hosts.host_of[at(ranks.front())]);
    island_.push_back(seen[at(host_of_.back())]++);
  }
  order_islands();
}

CompositePlanner::~CompositePlanner() = default;

compose::CostModel& CompositePlanner::costs() const { return workshops_.front()->costs; }

// The second islands of all hosts come after the first ones, and so on; of hosts of one rack that stand together. So
// few neighbours are of one host, and none in a ring of two hosts or more.
void CompositePlanner::order_islands() {
  std::vector<std::size_t> rack_of(cluster_->hosts.size());
  for (std::size_t rack = 0; rack < cluster_->racks.size(); ++rack)
    for (const int island : cluster_->racks[rack]) rack_of[at(island)] = rack;
  for (auto first = host_order_.begin(); first != host_order_.end();) {
    const auto end =
        std::find_if(first, host_order_.end(), [&](int island) { return rack_of[at(island)] != rack_of[at(*first)]; });
    std::stable_sort(first, end, [&](int a, int b) { return island_[at(a)] < island_[at(b)]; });
    first = end;
  }
}

// Few enough ranks for flat forms.
bool CompositePlanner::simulated() const { return topology_->ranks <= kMostFlatRanks; }

bool CompositePlanner::serves(std::size_t level, Collective collective) const {
  if (has_own_data(level))
    return collective == Collective::allgather || collective == Collective::reducescatter ||
           (collective == Collective::allreduce && !simulated());
  if (is_for_both_ways(level)) return collective == Collective::allreduce;
  if (has_no_own_data(level)) return passes_whole(collective);
  return true;
}

std::vector<Framing> CompositePlanner::frames_for(const Variant& variant) const {
  if (!simulated()) {
    const Shape shape = variant.outer == nullptr ? variant.shape : Shape::direct;
    std::vector<Framing> frames = frames_of_many(variant.collective, shape, static_cast<int>(hosts_.size()),
                                                 has_own_data(variant.level), naming(variant.level).kind->in.steps);
    if (variant.outer != nullptr && variant.collective == Collective::allreduce)
      frames.insert(frames.end(), std::begin(kMorePackedFrames), std::end(kMorePackedFrames));
    return frames;
  }
  if (passes_whole(variant.collective)) return as_list(kRootFrames);
  if (is_for_both_ways(variant.level)) return as_list(kFramesBothWays);
  if (has_own_data(variant.level)) return as_list(kOrderedFramesOfEntries);
  const bool joined_evenly = cluster_->has_one_leaf() && compose::equal_ports(hosts_);
  if (variant.collective != Collective::allreduce || joined_evenly) return as_list(kMoreFrames);
  const bool over_slow_links = variant.racks || variant.outer != nullptr;
  return as_list(over_slow_links ? std::span<const Framing>(kShortFramesOverSlowLinks) : kShortFrames);
}

std::vector<compose::Tier> CompositePlanner::tiers(Shape shape, bool racks, bool one_by_one) const {
  std::vector<compose::Tier> result;
  std::vector<int> all = host_order_;
  if (racks) {
    std::vector<int> place(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) place[at(all[i])] = static_cast<int>(i);
    std::vector<std::vector<int>> groups = cluster_->racks;
    for (std::vector<int>& group : groups) std::ranges::sort(group, {}, [&](int host) { return place[at(host)]; });
    all.resize(groups.size());
    std::iota(all.begin(), all.end(), 0);
    std::ranges::sort(all, {}, [&](int rack) { return place[at(groups[at(rack)].front())]; });
    result.push_back({std::move(groups), shape, {}});
  }
  result.push_back({{all}, shape, {}});
  for (compose::Tier& tier : result)
    for (const auto& group : tier.groups) {
      const int members = static_cast<int>(group.size());
      if (tier.shapes.contains(members)) continue;
      std::vector<compose::Tree>& shapes = tier.shapes[members] = compose::trees(shape, members);
      if (one_by_one) std::ranges::transform(shapes, shapes.begin(), compose::one_by_one);
    }
  return result;
}

// The root's host comes first, then the others of its rack.
compose::Tier CompositePlanner::tier_of_rack_trees(int root_host) const {
  compose::Tier tier = tiers(Shape::two_trees, true, false).front();
  std::vector<std::vector<int>>& racks = tier.groups;
  const auto has_root = [&](const std::vector<int>& rack) { return std::ranges::count(rack, root_host) > 0; };
  std::rotate(racks.begin(), std::ranges::find_if(racks, has_root), racks.end());
  std::vector<int>& first = racks.front();
  std::rotate(first.begin(), std::ranges::find(first, root_host), first.end());
  std::vector<int> order;
  std::vector<int> sizes;
  for (const std::vector<int>& rack : racks) {
    order.insert(order.end(), rack.begin(), rack.end());
    sizes.push_back(static_cast<int>(rack.size()));
  }
  tier.shapes = {{static_cast<int>(order.size()), compose::trees_of_racks(sizes)}};
  tier.groups = {std::move(order)};
  return tier;
}

// Where hosts pass data on in several steps, these would wait for those of the child before.
bool CompositePlanner::sends_one_by_one(const Variant& variant, const compose::Composite& composite) const {
  const bool to_several = variant.shape == Shape::direct ||
                          (variant.shape == Shape::quadrupling && variant.collective == Collective::reducescatter);
  return to_several && !passes_whole(variant.collective) && std::ranges::all_of(composite.kinds, [](const auto& kind) {
           return !kind->has_entries() && kind->in.steps <= 1 && kind->out.steps <= 1;
         });
}

compose::Composite CompositePlanner::base(Collective collective, Rank root, std::size_t level) const {
  compose::Composite composite;
  composite.collective = collective;
  composite.root = info(collective).rooted ? root : 0;
  composite.topology = topology_;
  composite.whole = whole_;
  composite.hosts = hosts_;
  composite.turns_are_rails = turns_are_rails_;
  for (const auto& choices : levels_) composite.kinds.push_back(choices[std::min(level, choices.size() - 1)].kind);
  return composite;
}

// Of the kinds of hosts, the one whose levels are told in names.
const HostLevel& CompositePlanner::naming(std::size_t level) const {
  const auto of = [&](std::size_t kind) -> const HostLevel& {
    return levels_[kind][std::min(level, levels_[kind].size() - 1)];
  };
  for (std::size_t kind = 0; kind < levels_.size(); ++kind)
    if (of(kind).kind->has_entries()) return of(kind);
  return of(naming_kind_);
}

// Of racks with different links the hosts of the better joined ones are roots, which pass more; of hosts with different
// NICs likewise.
std::vector<int> CompositePlanner::root_hosts(Shape shape, bool racks) const {
  std::vector<int> all(hosts_.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<double>& rates = racks ? rack_gbytes_per_s_ : host_gbytes_per_s_;
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  if (shape != Shape::direct || rates.size() < 3 || *least <= 0 || *most < 1.01 * *least) return all;
  const std::vector<double> shares = root_shares(rates);
  if (!racks) return in_proportion(shares);
  std::vector<double> of_hosts(hosts_.size());
  for (std::size_t rack = 0; rack < shares.size(); ++rack)
    for (const int host : cluster_->racks[rack])
      of_hosts[at(host)] = shares[rack] / static_cast<double>(cluster_->racks[rack].size());
  return in_proportion(of_hosts);
}

namespace {

// The sums of long ways begin at leaves. Where the first chunks come to their roots late, leaves get data late as well.
bool has_good_leaves(Shape shape, const Framing& framing) {
  const bool few_steps = !compose::is_chain(shape) && !several_trees(shape) && shape != Shape::direct;
  return few_steps && (framing.steps > 0 || framing.frames == 1);
}

// The members that are never leaves.
std::vector<int> roots_beside_leaves(const compose::Tier& tier) {
  const std::vector<int>& members = tier.groups.front();
  return {members.begin(), members.end() - std::ranges::max(tier.leaves)};
}

// Nothing returns to the root's host.
compose::RootHost whole_at_root(const schedule::Schedule& schedule) {
  return {schedule, {}, {}, schedule.collective == Collective::reduce ? 0 : schedule.steps};
}

}  // namespace

// One composite, or that in more frames as well; none where the variant is of no use here.
std::vector<CompositeCandidate> CompositePlanner::made(const Variant& variant, Workshop& shop) const {
  compose::Composite composite = base(variant.collective, variant.root, variant.level);
  if (variant.all_nics) {
    composite.hosts = all_nics_;
    composite.turns_are_rails = false;
  }
  if (variant.pairs) {
    composite.hosts = pairs_;
    composite.turns_are_rails = false;
    composite.rails_of_pairs = true;
    composite.pace_across = variant.across;
  }
  composite.meeting = variant.meeting;
  if (variant.leaves)
    composite.tiers = {tier_with_leaves(variant.shape)};
  else if (variant.rack_trees)
    composite.tiers = {tier_of_rack_trees(cluster_->host_of[at(composite.root)])};
  else
    composite.tiers = tiers(variant.shape, variant.racks, sends_one_by_one(variant, composite));
  if (of_islands() && passes_whole(variant.collective) && !variant.racks) {
    std::vector<int>& order = composite.tiers.front().groups.front();
    const int root = cluster_->host_of[at(composite.root)];
    const auto& trees = composite.tiers.front().shapes.at(static_cast<int>(order.size()));
    const bool forest = variant.forest != nullptr;
    IslandsInOrder placed = islands_apart(order, root, trees, host_of_, forest ? Returns::from_last : Returns::none);
    if (forest && !placed.apart) return {};  // slower than its closed form tells, mostly by far
    order = std::move(placed.order);
  }
  if (variant.outer != nullptr) {
    std::ranges::sort(composite.tiers.front().groups.front());  // the order in which its trees number hosts
    composite.tiers.front().of_roots = variant.outer->of_roots;
  }
  composite.source_is_near = composite.sink_is_near = !info(variant.collective).rooted;
  // All data of a rooted collective begins or ends at one rank, whose near ports are too few for it.
  const bool far = variant.leaders || variant.by_turns || (variant.by_rails && !composite.turns_are_rails);
  const bool near = variant.pairs || (!far && !info(variant.collective).rooted);
  for (compose::Host& host : composite.hosts) {
    if (variant.leaders) host.ports = {host.ports.front()};
    if (!near && !host.all_own()) host.near.assign(host.ranks.size(), {});
  }
  if (variant.at_root != nullptr) {
    composite.at_root = whole_at_root(*variant.at_root);
    const int host = cluster_->host_of[at(composite.root)];
    composite.root_turns = turns_near_ports(*variant.at_root, composite.hosts[at(host)].ports);
  }
  const Evenly evenly =
      !simulated() && variant.frames.frames >= kManyFrames ? Evenly::over_frames : Evenly::in_each_frame;
  const int ranks = topology_->ranks;
  const bool by_blocks = variant.collective == Collective::allgather || variant.collective == Collective::reducescatter;
  std::string shape(name(variant.shape));
  switch (variant.collective) {
    case Collective::allgather:
      composite.chunks_per_rank = pieces_of_block(composite, evenly);
      break;
    case Collective::reducescatter:
      composite.chunks_per_rank = ranks * pieces_of_block(composite, evenly);
      break;
    case Collective::alltoall:
      composite.chunks_per_rank = ranks;
      composite.source_is_near = !variant.by_rails;
      break;
    case Collective::gather:
      composite.source_is_near = true;
      composite.chunks_per_rank =
          variant.by_rails && uneven(composite) ? std::min(kMostPieces, most_ports(composite)) : 1;
      break;
    case Collective::scatter:
      composite.sink_is_near = true;
      composite.chunks_per_rank =
          ranks * (variant.by_rails && uneven(composite) ? std::min(kMostPieces, most_ports(composite)) : 1);
      break;
    default:
      composite.root_hosts = variant.outer != nullptr       ? variant.outer->root_hosts
                             : variant.leaves               ? roots_beside_leaves(composite.tiers.front())
                             : several_trees(variant.shape) ? root_hosts_of_trees(composite)
                                                            : root_hosts(variant.shape, variant.racks);
      composite.chunks_per_rank = chunks_of_buffer(composite, evenly);
      if (variant.forest != nullptr) composite.chunks_per_rank *= cuts_for_forest(composite.chunks_per_rank);
      break;
  }
  if (variant.collective == Collective::gather || variant.collective == Collective::scatter) {
    // Without rails the root is its own port.
    if (!variant.by_rails) composite.source_is_near = composite.sink_is_near = true;
    shape = variant.by_rails ? "rails" : "direct";
  }
  if (variant.collective == Collective::alltoall) shape = variant.by_rails ? "rails" : "direct";
  if (variant.meeting == Meeting::butterfly) shape = "butterfly";
  if (variant.outer != nullptr) shape = "packed";
  if (variant.rack_trees) shape = "rack-trees";
  if (variant.pairs) {
    shape = variant.across > 0 ? fmt::format("pairs-across-{}", variant.across) : "pairs";
    composite.source_is_near = composite.sink_is_near = true;
  }
  if (variant.leaders) {
    shape = "leaders";
    // A root is its host's leader; others hand over what is theirs.
    const bool root_leads = info(variant.collective).rooted;
    composite.source_is_near = root_leads && variant.collective != Collective::gather;
    composite.sink_is_near = root_leads && variant.collective != Collective::scatter;
  }
  composite.frames = variant.frames.frames;
  composite.frame_steps = variant.frames.steps;
  composite.staggered = variant.frames.staggered;
  if (composite.staggered && !simulated() && variant.collective == Collective::broadcast)
    composite.root_lead = kRootLead;
  if (by_blocks && variant.outer != nullptr)
    composite.chunks_per_rank *= cuts_for_trees(composite, pieces_of_block(composite, evenly), composite.frames);
  composite.chunks_per_rank *= variant.frames.frames;
  if (!simulated() && has_order(variant.frames.order)) {
    let_hosts_do_alike(composite, variant.frames.hosts);
    if (!compose::fault_of_alike(composite).empty() || !shares_->serves(composite)) return {};
  }
  const int chunks = schedule::chunk_count(variant.collective, ranks, composite.chunks_per_rank);
  if (composite.alike && too_many_by_time(variant.collective, chunks)) return {};
  if (!simulated() && !composite.alike && too_many_frames(variant.frames, chunks, ranks)) return {};
  const HostLevel* const level = &naming(variant.level);
  const bool by_ports = passes_whole(variant.collective) && !composite.at_root && level->steps > 0;
  const bool by_devices = variant.at_root != nullptr && variant.at_root->name == kScattered;
  const std::string_view way = variant.forest != nullptr ? variant.forest->name
                               : by_devices              ? "scattered-"
                               : by_ports                ? "ports-"
                                                         : "";
  composite.name = fmt::format("levels/{}{}{}{}{}{}", of_islands() ? "islands-" : "",
                               variant.racks    ? "racks-"
                               : variant.leaves ? "leaves-"
                                                : "",
                               variant.by_turns ? "turns-" : "", variant.all_nics ? "nics-" : "", way, shape);
  if (level->steps > 0) composite.name += "+" + level->name;
  const std::string without_frames = composite.name;
  composite.name += frames_in_name(composite);
  if (variant.forest != nullptr) add_root_forest(composite, variant.forest->trees);  // the dearest part of a candidate
  if (!compose::fault_between_networks(composite, *cluster_).empty()) return {};     // a shape that needs other paths
  compose::Cost cost = shop.costs.cost(composite);
  // How chunks wait for one another a simulation tells: until then they are not known to wait.
  if (simulated()) {
    const double of_leaves = cost.waiting_us_per_byte;
    cost = cost.without_waiting();
    if (variant.leaves) cost.waiting_us_per_byte = of_leaves;
    if (passes_whole(variant.collective)) cost.one_depth = !composite.at_root || !composite.at_root->has_returns();
  }
  std::vector<compose::Composite> more;
  if (variant.forest != nullptr && variant.frames.order == Steps::by_time)
    for (const int times : kTimesFrames) more.push_back(in_more_frames(composite, times));
  if (!simulated() && variant.forest != nullptr && composite.frames == kFramesOfLongData &&
      !too_many_frames(variant.frames, 2 * chunks, ranks))
    more.push_back(in_more_frames(composite, 2));
  const Steps order_of_more = simulated() ? Steps::by_time_of_slices : variant.frames.order;
  std::vector<CompositeCandidate> result;
  result.push_back({compose::Verified(std::move(composite), shop.verifier), cost, variant.frames.order, shares_});
  if (result.back().composite->alike)
    result.back().by_time = std::make_shared<const OrderedShare>(result.back().composite, shares_);
  for (compose::Composite& one : more) {
    one.name = without_frames + frames_in_name(one);
    const compose::Cost its_cost = simulated() ? in_more_frames(cost, one) : shop.costs.cost(one);
    result.push_back({compose::Verified(std::move(one), shop.verifier), its_cost, order_of_more, shares_});
  }
  return result;
}

// Appends what they make, in their order. Of those with one name the first stays.
void CompositePlanner::make(std::vector<CompositeCandidate>& result, const std::vector<Variant>& variants) {
  const unsigned threads = planning_threads();
  while (workshops_.size() < threads) workshops_.push_back(std::make_unique<Workshop>(*workshops_.front()));
  std::vector<std::vector<CompositeCandidate>> all(variants.size());
  in_parallel(variants.size(), threads,
              [&](std::size_t one, unsigned worker) { all[one] = made(variants[one], *workshops_[worker]); });
  std::set<std::string> names;
  for (const CompositeCandidate& one : result) names.insert(one.name());
  for (auto& some : all) {
    if (some.empty() || names.contains(some.front().name())) continue;
    for (const CompositeCandidate& one : some) names.insert(one.name());
    std::ranges::move(some, std::back_inserter(result));
  }
}

bool CompositePlanner::is_worthwhile_here(Shape shape, Collective collective, bool racks) const {
  const bool one_root = passes_whole(collective);
  // The ports of unequal hosts take trees unevenly.
  const bool by_trees =
      one_root || (collective == Collective::allreduce && !simulated() && !racks && compose::equal_ports(hosts_));
  if (several_trees(shape) && !by_trees) return false;
  // In other shapes much is passed on to the other islands of a host.
  if (of_islands() && !compose::is_chain(shape) && !several_trees(shape)) return false;
  if (is_for_many_hosts(shape) && (one_root || racks || simulated())) return false;
  return is_worthwhile(shape, static_cast<int>(hosts_.size()));
}

std::vector<CompositeCandidate> CompositePlanner::candidates(Collective collective, Rank root) {
  if (root < 0 || root >= topology_->ranks)
    fail(ErrorCode::invalid_argument, "root {} is not one of the ranks 0..{} of topology '{}'", root,
         topology_->ranks - 1, topology_->name);
  std::vector<CompositeCandidate> result;
  if (!has_levels() || collective == Collective::sendrecv) return result;
  const bool unicast =
      collective == Collective::alltoall || collective == Collective::gather || collective == Collective::scatter;
  if (of_islands() && (unicast || !shares_rails_)) return result;
  if (collective == Collective::alltoall && topology_->ranks > kMostAlltoallRanks)
    fail(ErrorCode::invalid_argument,
         "topology '{}' has {} ranks: AlltoAll is planned for at most {}, use it among parts of them", topology_->name,
         topology_->ranks, kMostAlltoallRanks);
  if (!shares_rails_) {
    if (unicast && !pairs_.empty()) make(result, {{.collective = collective, .root = root, .level = 0, .pairs = true}});
    add_even_trees(result, topology_, collective, root, *cluster_, workshops_.front()->verifier);
    return result;
  }
  // Entries of a host lie on several networks, if there are several.
  if (cluster_->has_one_network()) add_levels_with_entries(collective);
  const bool one_root = passes_whole(collective);
  const bool of_blocks = collective == Collective::allgather || collective == Collective::reducescatter;
  const bool some_nics = !std::ranges::all_of(hosts_, &compose::Host::all_own);
  const auto hosts = static_cast<int>(hosts_.size());
  const bool has_racks = cluster_->racks.size() > 1 && static_cast<int>(cluster_->racks.size()) < hosts;
  std::vector<std::shared_ptr<const schedule::Schedule>> at_root;
  std::shared_ptr<const schedule::Schedule> scattered_at_root;
  if (one_root) {
    const auto host = at(cluster_->host_of[at(root)]);
    const topology::Topology& links = cluster_->kinds[at(cluster_->kind_of[host])];
    if (links.ranks > 1) at_root = root_levels(links, collective, cluster_->local_of[at(root)]);
    if (links.ranks > 1) scattered_at_root = scattered(links, collective, cluster_->local_of[at(root)]);
  }
  const std::vector<Forest> forests =
      one_root && may_return(root) ? forests_at(root, collective) : std::vector<Forest>{};
  std::vector<Variant> variants;
  for (std::size_t level = 0; level < level_choices_; ++level) {
    if (!serves(level, collective)) continue;
    if (unicast) {
      for (const bool all_nics : {false, true}) {
        if (all_nics && all_nics_.empty()) continue;
        const Variant one{.collective = collective, .root = root, .level = level, .all_nics = all_nics};
        for (const auto& [by_rails, leaders] : {std::pair(false, false), {true, false}, {false, true}}) {
          Variant variant = one;
          variant.by_rails = by_rails;
          variant.leaders = leaders;
          variants.push_back(variant);
        }
      }
      for (const int across : kPacesAcross)
        if (!pairs_.empty())
          variants.push_back({.collective = collective, .root = root, .level = level, .pairs = true, .across = across});
      continue;
    }
    const bool may_have_leaves = collective == Collective::allreduce && !leaves_.empty() && !has_own_data(level);
    for (const bool racks : {false, true}) {
      if (racks && !has_racks) continue;
      for (const Shape shape : kShapes) {
        if (!is_worthwhile_here(shape, collective, racks)) continue;
        // In other shapes the root's host sends all data more than once.
        const bool sends_once = shape == Shape::ring || several_trees(shape);
        const Variant of_shape{.collective = collective, .root = root, .level = level, .shape = shape, .racks = racks};
        for (const Framing& frames : frames_for(of_shape)) {
          Variant variant = of_shape;
          variant.frames = frames;
          // Of one root only what returns late delays other chunks: see compose/cost/cost.h.
          if (frames.frames == 1 || !one_root) variants.push_back(variant);
          if (may_have_leaves && !racks && has_good_leaves(shape, frames)) {
            variant.leaves = true;
            variants.push_back(variant);
            variant.leaves = false;
          }
          if (one_root && !simulated() && frames.frames > 1 && !sends_once) continue;  // frames are for long data
          if (of_blocks && some_nics) {
            variant.by_turns = true;
            variants.push_back(variant);
          }
          if (at_root.empty()) continue;
          variant.at_root = beside_level(at_root, level, has_no_own_data(level));
          variants.push_back(variant);
          variant.at_root = scattered_at_root;
          if (frames.frames == 1 && scattered_at_root != nullptr) variants.push_back(variant);
        }
        if (!racks) add_by_time(variants, of_shape);
        // Of few hosts no other shape is much shorter than a ring.
        const bool worth_it = shape == Shape::ring || hosts > kShortRing;
        const bool shallow = simulated() || is_wide(shape) || hosts <= 2 * kShortRing;
        if (!racks && sends_once && worth_it && shallow) add_forests(variants, of_shape, forests);
      }
    }
    if (one_root && has_racks && !of_islands())
      add_framed(
          variants,
          {.collective = collective, .root = root, .level = level, .shape = Shape::two_trees, .rack_trees = true},
          at_root, forests);
    // Leaders and a butterfly delay long data.
    if (is_for_own_nics(level) || of_islands()) continue;
    if (collective != Collective::allreduce) {
      variants.push_back(
          {.collective = collective, .root = root, .level = level, .shape = Shape::doubling, .leaders = true});
      continue;
    }
    if (is_for_both_ways(level) || has_own_data(level)) continue;  // a butterfly knows no entries
    for (const bool leaders : {false, true})
      variants.push_back(
          {.collective = collective, .root = root, .level = level, .meeting = Meeting::butterfly, .leaders = leaders});
  }
  make(result, variants);
  if (of_islands()) return result;
  if (!unicast) make(result, packed(result, collective, root, at_root, forests));
  add_even_trees(result, topology_, collective, root, *cluster_, workshops_.front()->verifier);
  return result;
}

// Where the order of one host's sends is that of all. It hardly matters then in how many steps hosts pass data on: the
// fewest serve.
void CompositePlanner::add_by_time(std::vector<Variant>& variants, const Variant& of_shape) const {
  const Shape shape = of_shape.shape;
  if (simulated() || info(of_shape.collective).rooted || hosts_.size() < 2) return;
  if (shape != (hosts_.size() > 2 ? Shape::quadrupling : Shape::doubling) && shape != Shape::direct) return;
  const compose::HostKind& kind = *naming(of_shape.level).kind;
  const int turns = kind.has_entries() ? most_turns(kind) : 0;
  // Every rank has blocks, and every port has chunks of an AllReduce.
  const auto ports =
      of_shape.collective == Collective::allreduce ? hosts_.front().ports.size() : hosts_.front().ranks.size();
  for (const Framing& frames :
       frames_by_time(of_shape.collective, turns, static_cast<int>(hosts_.size()), static_cast<int>(ports))) {
    variants.push_back(of_shape);
    variants.back().frames = frames;
  }
}

// Trees of roots, where they leave the links between hosts less busy than every shape. Where hosts differ in entries,
// than every shape of hosts with these entries. A butterfly has no trees.
const OuterTrees* CompositePlanner::outer_trees(std::span<const CompositeCandidate> others,
                                                const compose::Composite& one) {
  constexpr double kLessBusy = 0.98;
  constexpr double kUnequal = 1.02;
  std::vector<double> entries;
  for (int host = 0; host < static_cast<int>(hosts_.size()); ++host) entries.push_back(compose::entries_of(one, host));
  const auto [least, most] = std::ranges::minmax_element(entries);
  const bool differ = *most > kUnequal * *least;
  if (!differ) entries.clear();
  const OuterTrees* outer = outer_->find(one.collective, cluster_->host_of[at(one.root)], entries);
  if (outer == nullptr) return nullptr;
  const bool better = std::ranges::all_of(others, [&](const CompositeCandidate& other) {
    if (other.composite->meeting != Meeting::trees || (differ && other.composite->kinds != one.kinds)) return true;
    return outer->us_per_byte <= kLessBusy * other.cost.network_us_per_byte;
  });
  return better ? outer : nullptr;
}

// In all frames, with what the root's host may do.
void CompositePlanner::add_framed(std::vector<Variant>& variants, const Variant& of_hosts,
                                  const std::vector<std::shared_ptr<const schedule::Schedule>>& at_root,
                                  const std::vector<Forest>& forests) const {
  for (const Framing& frames : frames_for(of_hosts)) {
    Variant variant = of_hosts;
    variant.frames = frames;
    if (frames.frames == 1 || !passes_whole(of_hosts.collective)) variants.push_back(variant);
    if (at_root.empty()) continue;
    variant.at_root = beside_level(at_root, of_hosts.level, has_no_own_data(of_hosts.level));
    variants.push_back(variant);
  }
  add_forests(variants, of_hosts, forests);
}

// Of hosts in trees of roots.
std::vector<CompositePlanner::Variant> CompositePlanner::packed(
    std::span<const CompositeCandidate> others, Collective collective, Rank root,
    const std::vector<std::shared_ptr<const schedule::Schedule>>& at_root, const std::vector<Forest>& forests) {
  std::vector<Variant> variants;
  for (std::size_t level = 0; level < level_choices_; ++level) {
    if (!serves(level, collective)) continue;
    const OuterTrees* outer = outer_trees(others, base(collective, root, level));
    if (outer == nullptr) continue;
    add_framed(variants, {.collective = collective, .root = root, .level = level, .outer = outer}, at_root, forests);
  }
  return variants;
}

}  // namespace sccl::portfolio
