// Adds up what a composite passes over each link, for its cost.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "compose/cost/cost.h"
#include "compose/cost/host_loads.h"
#include "compose/cost/known_hosts.h"
#include "compose/cost/phases.h"
#include "compose/cost/representatives.h"
#include "compose/cost/waiting.h"
#include "compose/network/handed_over.h"
#include "compose/network/leaf_traffic.h"
#include "compose/network/link_loads.h"
#include "compose/network/pair_traffic.h"
#include "compose/network/sums_by_key.h"
#include "schedule/simulation/cost.h"

namespace sccl::compose {
namespace {

using topology::Edge;

// Cost::short_chunk: of blocks, and of one root, whose links wait for nothing else.
constexpr double kShortChunk = 0.02;
constexpr double kShortChunkOfRoot = 0.1;
constexpr int kMostCountedHosts = 64;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

// Adds up the loads of one composite on links.
class Loads {
 public:
  Loads(CostModel& model, const Composite& composite)
      : model_(model),
        composite_(composite),
        routes_(composite),
        hosts_(static_cast<int>(composite.hosts.size())),
        loads_(model.edges_) {
    out_.assign(at(hosts_), 0);
    in_.assign(at(hosts_), 0);
    roots_at_.assign(at(hosts_), 0);
    if (composite.rails_of_pairs) by_pairs_.emplace(composite, model.cluster(), routes_);
    for (const int host : composite.root_hosts) ++roots_at_[at(host)];
  }

  Cost cost() {
    if (composite_.at_root && !composite_.at_root->exits.empty()) {
      by_moves_ = {routes_.host_of(composite_.root)};
      for (ChunkId chunk = 0; chunk < routes_.chunks(); ++chunk) by_moves_.insert(routes_.last_host(chunk));
    }
    cost_.chunk_per_byte = 1.0 / composite_.chunks_per_rank;
    cost_.frames = composite_.frames;
    const bool returns = composite_.at_root && composite_.at_root->has_returns();
    one_root_ = composite_.collective == Collective::broadcast || composite_.collective == Collective::reduce;
    one_way_ = one_root_ && !returns;
    cost_.nothing_returns = !returns;
    cost_.sums = everyone_contributes();
    cost_.own_connections = is_unicast();
    const bool flat = !is_unicast() && hosts_at_one_depth();
    cost_.one_depth = one_way_ && flat && root_at_one_depth();
    const bool both_ways = everyone_contributes() && everyone_receives();
    cost_.late_chunks = returns || (!is_unicast() && (composite_.frames > 1 || (both_ways && hosts_ > 1)));
    between_hosts();
    on_hosts();
    phases();
    if (!is_unicast() && !one_root_ && hosts_ > 1) {
      cost_.waiting_us_per_byte = waiting_us_per_byte(composite_, routes_, cost_, apart_);
      cost_.gaps = gaps_between_frames(composite_, routes_, cost_);
      if (composite_.frames > 1 && cost_.gaps.steps == 0) cost_.short_chunk = kShortChunk;
    }
    if (one_root_) cost_.waiting_us_per_byte = waiting_of_one_root_us_per_byte(composite_, cost_);
    if (!is_unicast() && hosts_ > 1 && !flat) cost_.steps_of_frames = (composite_.frames - 1) * composite_.frame_steps;
    if (one_root_ && composite_.frames > 1 && cost_.steps_of_frames == 0) cost_.short_chunk = kShortChunkOfRoot;
    if (returns) cost_.waiting_us_per_byte += waiting_for_returns_us_per_byte(composite_, cost_);
    count_messages();
    return cost_;
  }

 private:
  using Key = SumsByKey::Key;

  // Ascends with from, then to, then step.
  Key key(int from, int to, Step step) const {
    constexpr std::int64_t kOffset = std::int64_t{1} << 31;
    return static_cast<Key>(from * hosts_ + to) << 32 | static_cast<Key>(step + kOffset);
  }

  KnownHosts& known() { return *model_.known_; }

  bool everyone_contributes() const {
    return composite_.collective == Collective::allreduce || composite_.collective == Collective::reducescatter ||
           composite_.collective == Collective::reduce;
  }
  bool everyone_receives() const {
    return composite_.collective == Collective::allreduce || composite_.collective == Collective::allgather ||
           composite_.collective == Collective::broadcast;
  }
  bool is_unicast() const { return !everyone_contributes() && !everyone_receives(); }
  double ranks() const { return composite_.ranks(); }
  double devices(int host) const { return static_cast<double>(composite_.hosts[at(host)].ranks.size()); }

  // `copies`: how often each byte passes.
  void pass(int from, int to, double bytes, Step step = 0, double copies = 1) {
    out_[at(from)] += copies * bytes;
    in_[at(to)] += copies * bytes;
    if (several_leaves_) pairs_.add(of_hosts(from, to), copies * bytes);
    if (counts_steps()) steps_.add(key(from, to, step), bytes);
  }

  // Of more hosts the table of steps would take longer than the rest of the plan; there each chunk counts.
  bool counts_steps() const { return hosts_ <= kMostCountedHosts; }

  // Whether every connection passes chunks in one step alone.
  static bool in_one_step(const schedule::Schedule& schedule) {
    std::vector<Step> known(at(schedule.ranks) * at(schedule.ranks), -1);
    return std::ranges::all_of(schedule.sends, [&](const schedule::Send& send) {
      Step& step = known[at(send.src) * at(schedule.ranks) + at(send.dst)];
      if (step < 0) step = send.step;
      return step == send.step;
    });
  }

  // The same of connections on a host that has no root.
  bool hosts_at_one_depth() const {
    return std::ranges::all_of(composite_.kinds, [&](const auto& kind) {
      return (!everyone_receives() || in_one_step(kind->out)) && (!everyone_contributes() || in_one_step(kind->in));
    });
  }
  // And of those on the root's host, and between the groups of a tier. Of Broadcast and Reduce.
  bool root_at_one_depth() const {
    return !leads_move() && (!composite_.at_root || in_one_step(composite_.at_root->schedule));
  }

  // Strands enter a group by one member after the other (Routes::root_index()), and pass its chain from there.
  bool leads_move() const {
    const bool strands = composite_.chunks_per_rank / composite_.frames > routes_.most_ports();
    return strands && composite_.tiers.size() > 1 && std::ranges::any_of(composite_.tiers, [](const Tier& tier) {
             return std::ranges::any_of(tier.shapes, [](const auto& shapes) {
               return std::ranges::any_of(shapes.second, [](const Tree& tree) { return tree.steps > 1; });
             });
           });
  }

  void count_messages() {
    std::vector<double> messages(at(hosts_), 0);
    for (const auto& [step, bytes] : steps_.ascending()) {
      const int from = static_cast<int>(step >> 32) / hosts_;
      const int to = static_cast<int>(step >> 32) % hosts_;
      const int frames = composite_.frame_steps == 0 ? 1 : composite_.frames;  // in steps of their own
      const double chunks = bytes / cost_.chunk_per_byte / frames;
      messages[at(from)] += frames * std::min(chunks, pairs_of_ranks(from, to) * routes_.starts_of_frame()) *
                            std::max(most_entries(from), most_entries(to));
    }
    if (!counts_steps())
      for (int host = 0; host < hosts_; ++host) messages[at(host)] = out_[at(host)] / cost_.chunk_per_byte;
    for (const double one : messages) cost_.messages_between_hosts = std::max(cost_.messages_between_hosts, one);
  }

  double most_entries(int host) const {
    std::size_t most = 1;
    const HostKind& kind = *composite_.kinds[at(composite_.hosts[at(host)].kind)];
    for (const auto* lists : {&kind.in_entries, &kind.out_entries})
      for (const auto& devices : *lists) most = std::max(most, 1 + devices.size());
    return static_cast<double>(most);
  }

  // By how many pairs of ranks chunks go from a host to another in one step of the hosts' tree.
  double pairs_of_ranks(int from, int to) const {
    const bool rooted = info(composite_.collective).rooted;
    const bool one_each = composite_.collective == Collective::allgather ||
                          composite_.collective == Collective::reducescatter ||
                          composite_.collective == Collective::alltoall;
    const auto ends = [&](int host, bool own) {
      const double ports = static_cast<double>(composite_.hosts[at(host)].ports.size());
      return own && one_each ? devices(host) : own && rooted && host == routes_.host_of(composite_.root) ? 1 : ports;
    };
    const double leave = ends(from, composite_.source_is_near);
    const double enter = ends(to, composite_.sink_is_near);
    const bool all_pairs = composite_.collective == Collective::alltoall && composite_.source_is_near;
    if (all_pairs) return leave * enter;
    // Blocks of ports go ahead of those that are handed to a port first.
    const bool twice = composite_.collective == Collective::allgather && !composite_.source_is_near;
    return (twice ? 2 : 1) * std::max(leave, enter);
  }

  void between_hosts() {
    const auto& attachments = model_.cluster().attachments;
    for (const topology::Attachment& one : attachments)
      several_leaves_ = several_leaves_ || one.leaf != attachments.front().leaf;
    if (hosts_ < 2) return;
    if (is_unicast())
      pass_unicasts();
    else if (composite_.meeting == Meeting::butterfly)
      pass_butterfly();
    else
      pass_trees();
    load_network();
  }

  void pass_trees() {
    const auto chunks = representatives(composite_, routes_);
    std::vector<double> entries(at(hosts_));
    for (int host = 0; host < hosts_; ++host) entries[at(host)] = entries_of(composite_, host);
    std::vector<std::pair<int, Step>> parents;
    for (const auto& [chunk, bytes] : chunks) {
      routes_.find_parents(chunk, parents);
      for (int host = 0; host < hosts_; ++host) {
        const auto [above, step] = parents[at(host)];
        if (above < 0) continue;
        if (host == 0 && everyone_contributes()) next_of_sums_.insert(above);
        if (above == 0 && everyone_receives()) next_of_copies_.insert(host);
        if (everyone_contributes()) pass(host, above, bytes, -step - 1, entries[at(host)]);
        if (everyone_receives()) pass(above, host, bytes, step, entries[at(host)]);
      }
    }
    // Only some of the chunks were examined: spread the loads of hosts over those that are equally busy.
    for (const std::vector<int>& hosts : equally_busy(composite_, static_cast<int>(chunks.size())))
      for (std::vector<double>* bytes : {&out_, &in_}) {
        double sum = 0;
        for (const int host : hosts) sum += (*bytes)[at(host)];
        for (const int host : hosts) (*bytes)[at(host)] = sum / static_cast<double>(hosts.size());
      }
  }

  void pass_butterfly() {
    const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(hosts_)));
    for (int host = 0; host < core; ++host)
      for (int distance = 1; distance < core; distance *= 2) pass(host, host ^ distance, 1, distance);
    for (int host = core; host < hosts_; ++host) {
      pass(host, host - core, 1);
      pass(host - core, host, 1);
    }
  }

  void pass_unicasts() {
    const int root = routes_.host_of(composite_.root);
    if (composite_.collective == Collective::alltoall && !counts_steps()) {
      for (int host = 0; host < hosts_; ++host)
        out_[at(host)] = in_[at(host)] = devices(host) * (ranks() - devices(host)) / ranks();
      return;
    }
    for (int host = 0; host < hosts_; ++host)
      if (composite_.collective == Collective::alltoall) {
        for (int to = 0; to < hosts_; ++to)
          if (to != host) pass(host, to, devices(host) * devices(to) / ranks());
      } else if (host != root) {
        if (composite_.collective == Collective::gather)
          pass(host, root, devices(host));
        else
          pass(root, host, devices(host) / ranks());
      }
  }

  // Of the data that a host receives or gathers: what is spread or summed as on the root host.
  double at_home(int host) const {
    if (composite_.collective == Collective::allgather || composite_.collective == Collective::reducescatter)
      return devices(host) / ranks();
    if (info(composite_.collective).rooted) return host == routes_.host_of(composite_.root) ? 1 : 0;
    if (composite_.collective != Collective::allreduce) return 0;
    const auto& roots = composite_.root_hosts;
    if (roots.empty()) return host == 0 ? 1 : 0;
    return roots_at_[at(host)] / static_cast<double>(roots.size());
  }

  double bandwidth_us_per_byte(const Edge& edge) const { return bandwidth_us_per_byte(model_.edges_.find(edge)); }
  double bandwidth_us_per_byte(schedule::EdgeId edge) const {
    const schedule::EdgeInfo& link = model_.edges_[edge];
    return schedule::lane_us_per_byte(link, model_.topology()) / link.lanes;
  }

  void load_network() {
    // Positions of one host share links. Equal hosts with equal loads are examined once.
    std::set<std::tuple<int, double, double, double>> seen;
    const int connections = one_root_ ? 1 : std::max(1, static_cast<int>(used_at_once()));
    const bool alike = !by_pairs_ && composite_.kinds.size() == 1 && equal_ports(composite_.hosts);
    for (int host = 0; host < hosts_; ++host) {
      const Host& one = composite_.hosts[at(host)];
      if (by_moves_.contains(host)) {
        load_by_moves(host);
        continue;
      }
      if (alike && !seen.emplace(one.kind, slowest_way(one), out_[at(host)], in_[at(host)]).second) continue;
      const std::vector<double> leaves = by_pairs_ ? by_pairs_->of(host).leaves : shares_of_leaving(composite_, host);
      const std::vector<double> enters = by_pairs_ ? by_pairs_->of(host).enters : shares_of_entering(composite_, host);
      for (std::size_t local = 0; local < leaves.size(); ++local) {
        const topology::Attachment& way = model_.cluster().attachments[at(one.ranks[local])];
        const double out = leaves[local] * out_[at(host)];
        const double in = enters[local] * in_[at(host)];
        if (out > 0) loads_.add(way.up, out, connections);
        if (in > 0) loads_.add(way.down, in, connections);
      }
    }
    load_leaf_switches();
    for (schedule::EdgeId edge = 0; edge < model_.edges_.size(); ++edge) {
      const LinkLoad& load = loads_.of(edge);
      if (load.connections == 0) continue;
      const double us_per_byte = load.bytes * bandwidth_us_per_byte(edge);
      if (load.connections == 1)
        cost_.one_connection_us_per_byte = std::max(cost_.one_connection_us_per_byte, us_per_byte);
      if (us_per_byte <= cost_.network_us_per_byte) continue;
      cost_.network_us_per_byte = us_per_byte;
      cost_.between_hosts.connections =
          static_cast<int>(std::min<std::int64_t>(load.connections, std::numeric_limits<int>::max()));
    }
  }

  // Connections of the first host to others. If all frames begin at once, all sums come before the first copy.
  std::size_t used_at_once() const {
    if (composite_.frame_steps == 0) return std::max(next_of_sums_.size(), next_of_copies_.size());
    std::set<int> all = next_of_sums_;
    all.insert(next_of_copies_.begin(), next_of_copies_.end());
    return all.size();
  }

  void load_leaf_switches() {
    if (!several_leaves_) return;
    LeafTraffic traffic(model_.ways_, loads_, model_.topology().nodes());
    if (by_pairs_)
      by_pairs_->lay(counts_steps() ? Paths::each : Paths::together, traffic);
    else if (composite_.collective == Collective::alltoall && !counts_steps())
      lay_alltoall(composite_, model_.cluster(), traffic);
    else
      lay_pairs(composite_, model_.cluster(), pairs_, counts_steps() ? Paths::each : Paths::together, traffic);
  }

  // Of the root's host and the host that returns data to it: chunk by chunk, since devices differ.
  void load_by_moves(int host) {
    const double bytes = 1.0 / routes_.chunks();
    const bool has_root = host == routes_.host_of(composite_.root);
    std::map<Rank, std::pair<double, double>> passes;  // in, out
    for (ChunkId chunk = 0; chunk < routes_.chunks(); ++chunk)
      routes_.for_each_exchange(chunk, host, [&](Rank rank, Rank peer, bool sends) {
        auto& [in, out] = passes[rank];
        (sends ? out : in) += bytes;
        if (has_root && sends != everyone_receives()) pass_back(host, routes_.host_of(peer), bytes);
      });
    for (const Rank rank : composite_.hosts[at(host)].ranks) {
      const auto [in, out] = passes[rank];
      const topology::Attachment& way = model_.cluster().attachments[at(rank)];
      if (out > 0) loads_.add(way.up, out, 1);
      if (in > 0) loads_.add(way.down, in, 1);
    }
  }

  // What the root's host gets back, or sends ahead of sums, passes links between leaf switches as well.
  void pass_back(int root, int last, double bytes) {
    if (several_leaves_) pairs_.add(everyone_receives() ? of_hosts(last, root) : of_hosts(root, last), bytes);
  }

  // Of the links to the network and from it, the one that takes longest if each port passes a byte: hosts with equal
  // links between their devices may have other NICs, and other links that their ports share.
  double slowest_way(const Host& host) const {
    std::map<Edge, double> us_per_byte;
    double most = 0;
    for (const int port : host.ports) {
      const topology::Attachment& way = model_.cluster().attachments[at(host.ranks[at(port)])];
      for (const auto* edges : {&way.up, &way.down})
        for (const Edge& edge : *edges) most = std::max(most, us_per_byte[edge] += bandwidth_us_per_byte(edge));
    }
    return most;
  }

  // All data passes every host's `in` if everyone contributes, and every host's `out` if everyone receives.
  void on_hosts() {
    std::set<std::tuple<int, std::vector<int>, bool, double, int>> seen;
    for (int host = 0; host < hosts_; ++host) {
      const Host& one = composite_.hosts[at(host)];
      const std::shared_ptr<const HostKind>& kind = composite_.kinds[at(one.kind)];
      const bool has_root = info(composite_.collective).rooted && host == routes_.host_of(composite_.root);
      const double home = kind->has_entries() ? at_home(host) : 0;
      if (!seen.emplace(one.kind, one.ports, has_root, home, by_pairs_ ? by_pairs_->kind(host) : 0).second) continue;
      if (has_root && composite_.at_root) {
        take_busiest(host, loads_at_root(composite_, routes_.chunks()));
        continue;
      }
      const std::vector<double> share = shares(one);
      const double all = composite_.collective == Collective::allgather ? ranks() : 1;
      HostLoads sums;
      HostLoads copies;
      if (everyone_contributes()) join(sums, known().of_turns(kind, kind->in, kind->in_turns, share), all * (1 - home));
      if (everyone_receives())
        join(copies, known().of_turns(kind, kind->out, kind->out_turns, share), all * (1 - home));
      if (everyone_contributes() && home > 0)
        join(sums, known().of_turns(kind, kind->home->in, kind->home->in_turns, share), all * home);
      if (everyone_receives() && home > 0)
        join(copies, known().of_turns(kind, kind->home->out, kind->home->out_turns, share), all * home);
      if (everyone_contributes() && everyone_receives()) {
        apart_.sums_us_per_byte = std::max(apart_.sums_us_per_byte, busiest(host, sums.links, 0.5));
        apart_.copies_us_per_byte = std::max(apart_.copies_us_per_byte, busiest(host, copies.links, 0.5));
      }
      HostLoads whole = known().between(kind, by_pairs_ ? by_pairs_->of(host).on_host : handed_over(composite_, host));
      join(whole, sums, 1);
      join(whole, copies, 1);
      take_busiest(host, whole);
    }
  }

  void take_busiest(int host, const HostLoads& loads) {
    double messages = 0;
    for (const auto& [edge, bytes] : loads.links) messages += bytes / cost_.chunk_per_byte;
    cost_.messages_on_host = std::max(cost_.messages_on_host, messages);
    cost_.host_us_per_byte = std::max(cost_.host_us_per_byte, busiest(host, loads.links, 1));
    const auto& kind = composite_.kinds[at(composite_.hosts[at(host)].kind)];
    for (const auto& [devices, bytes] : loads.connections) {
      Connection connection = known().connection(kind, devices);
      connection.bytes = bytes;
      Connection& longest = cost_.on_host_connection;
      if (connection.short_slices_us() > longest.short_slices_us()) longest = connection;
    }
  }

  // us per byte of L of the host's busiest link, with this part of what the network brings and takes.
  double busiest(int host, const EdgeLoads& loads, double part_of_network) const {
    const auto& nodes = model_.cluster().nodes[at(host)];
    double most = 0;
    std::map<int, double> sets;
    for (const auto& [edge, bytes] : loads) {
      const Edge there{nodes[at(edge.first)], nodes[at(edge.second)]};
      const schedule::EdgeId id = model_.edges_.find(there);
      const LinkLoad& network = loads_.of(id);
      const double all =
          network.connections > 0 ? bytes + part_of_network * network.bytes : bytes;  // the path to a NIC
      most = std::max(most, all * bandwidth_us_per_byte(id));
      for (const int set : model_.edges_.sets_of(id)) sets[set] += all;
    }
    for (const auto& [set, bytes] : sets)
      most = std::max(
          most, bytes / (model_.edges_.set_lane_gbytes_per_s(set) * 1e3 * model_.topology().shared[at(set)].lanes));
    return most;
  }

  // One sum stands for all phases on hosts: all steps, with the figures of the slowest phase.
  void add_phase(const Phase& phase) {
    cost_.on_host = slower(cost_.on_host, phase, cost_.on_host.steps + phase.steps);
  }

  // The greatest figures over all kinds.
  void add_phase(const schedule::Schedule HostKind::*which) {
    Phase most;
    for (const auto& kind : composite_.kinds) {
      Phase phase = known().phase(kind, (*kind).*which);
      if (kind->has_entries() && !composite_.at_root) {
        const Phase& home = known().phase(kind, (*kind->home).*which);
        phase = slower(phase, home, phase.steps + home.steps);
      }
      most = slower(most, phase, std::max(most.steps, phase.steps));
    }
    add_phase(most);
  }

  void phases() {
    const bool one_contributes = !everyone_contributes();
    const bool one_receives = !everyone_receives();
    const bool own = std::ranges::all_of(composite_.hosts, &Host::all_own);
    if (everyone_contributes()) add_phase(&HostKind::in);
    if (everyone_receives()) add_phase(&HostKind::out);
    if (composite_.at_root) {
      Phase phase = phase_of(composite_.at_root->schedule);
      // Other hosts take the same number of steps while the root's host passes the chunk on to its own devices.
      const int others = cost_.on_host.steps;
      if (composite_.at_root->exits.empty()) {
        phase.steps = std::max(steps_to_ports(composite_, routes_), phase.steps - others);
      } else if (composite_.at_root->has_returns()) {
        const int first = composite_.at_root->split;
        const int apart = everyone_receives() ? first : phase.steps - first;  // before data returns
        phase.steps = std::max(apart, phase.steps - others);
      }
      add_phase(phase);
    } else {
      const bool direct = own && !by_pairs_;
      if (one_contributes && !(direct && composite_.source_is_near)) add_phase(&HostKind::between);
      if (one_receives && !(direct && composite_.sink_is_near)) add_phase(&HostKind::between);
    }
    if (hosts_ < 2) return;
    Phase& net = cost_.between_hosts;
    const Phase& hop = known().network([&] { return between_ranks_of_hosts(); });
    net.alpha_us = hop.alpha_us;
    net.us_per_byte = hop.us_per_byte;
    net.link_us_per_byte = hop.link_us_per_byte;
    if (one_contributes && one_receives) {
      net.steps = 1;
      return;
    }
    const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(hosts_)));
    if (composite_.meeting == Meeting::butterfly) {
      net.steps = std::countr_zero(static_cast<unsigned>(core)) + (core < hosts_ ? 2 : 0);
      return;
    }
    int fan = 1;
    for (const Tier& tier : composite_.tiers) {
      int deepest = 0;
      int children = 1;
      const auto take = [&](const std::vector<Tree>& trees) {
        for (const Tree& tree : trees) {
          deepest = std::max(deepest, tree.steps_at_once());
          children = std::max(children, tree.most_children());
        }
      };
      for (std::size_t root = 0; root < tier.of_roots.size(); ++root)
        if (is_root(tier.groups.front()[root])) take(tier.of_roots[root]);
      if (tier.of_roots.empty())
        for (const auto& [members, shapes] : tier.shapes) take(shapes);
      // Where nothing returns, nothing hides that children get a slice one after the other.
      if (one_way_) fan = std::max(fan, children);
      net.steps += deepest * (everyone_contributes() && everyone_receives() ? 2 : 1);
      cost_.chained = cost_.chained || (is_chain(tier.shape) && !one_root_ && composite_.tiers.size() == 1);
    }
    net.us_per_byte *= fan;
    net.link_us_per_byte *= fan;
    if (composite_.at_root && composite_.at_root->has_returns()) ++net.steps;
  }

  // Whether chunks begin or end at this host, so that its trees are used (Tier::of_roots).
  bool is_root(int host) const {
    if (info(composite_.collective).rooted) return host == routes_.host_of(composite_.root);
    const auto& roots = composite_.root_hosts;
    const bool some = composite_.collective == Collective::allreduce && !roots.empty();
    return !some || std::find(roots.begin(), roots.end(), host) != roots.end();
  }

  // One step between hosts; no composite differs in it.
  Phase between_ranks_of_hosts() {
    Phase hop;
    for (const topology::Attachment& way : model_.cluster().attachments) {
      if (!way.attached()) continue;
      double alpha_us = 0;
      for (const auto* edges : {&way.up, &way.down}) pass_links(hop, *edges, alpha_us);
      hop.alpha_us = std::max(hop.alpha_us, alpha_us);
    }
    if (several_leaves_) hop.alpha_us += longest_way_us(hop);
    return hop;
  }

  // Between leaf switches, estimated from the ways of one.
  double longest_way_us(Phase& hop) {
    std::set<topology::Node> leaves;
    for (const topology::Attachment& way : model_.cluster().attachments)
      if (way.attached()) leaves.insert(way.leaf);
    double longest_us = 0;
    for (const topology::Node leaf : leaves) {
      double alpha_us = 0;
      pass_links(hop, model_.ways_.way(*leaves.begin(), leaf), alpha_us);
      longest_us = std::max(longest_us, alpha_us);
    }
    return longest_us;
  }

  void pass_links(Phase& hop, const std::vector<Edge>& way, double& alpha_us) const {
    for (const Edge& edge : way) {
      const schedule::EdgeInfo& link = model_.edges_[model_.edges_.find(edge)];
      alpha_us += link.alpha_us;
      take_rates(hop, link, model_.topology());
    }
  }

  CostModel& model_;
  const Composite& composite_;
  Routes routes_;
  int hosts_;
  bool several_leaves_ = false;
  bool one_root_ = false;                        // of all data
  bool one_way_ = false;                         // of one root, to whose host nothing returns
  std::vector<double> out_, in_;                 // by host: bytes into and from the network, per byte of L
  std::vector<double> roots_at_;                 // by host: how often it stands in Composite::root_hosts
  std::set<int> next_of_sums_, next_of_copies_;  // to which the first host sends by trees
  std::set<int> by_moves_;                       // hosts whose devices differ from those of other hosts
  std::optional<PairTraffic> by_pairs_;          // of Composite::rails_of_pairs
  SumsByKey pairs_;                              // by from and to
  SumsByKey steps_;                              // by from, to and step: bytes per byte of L
  LinkLoads loads_;
  Apart apart_;
  Cost cost_;
};

Cost CostModel::cost(const Composite& composite) {
  known_->forget_many();
  return Loads(*this, composite).cost();
}

}  // namespace sccl::compose
