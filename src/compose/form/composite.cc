#include "compose/form/composite.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "compose/form/rails_of_pairs.h"

namespace sccl::compose {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

bool equal_ports(const std::vector<Host>& hosts) {
  return std::ranges::all_of(hosts, [&](const Host& host) { return host.ports.size() == hosts.front().ports.size(); });
}

int returns_from(const Host& last, int local) {
  const bool same = last.all_own() || std::find(last.ports.begin(), last.ports.end(), local) != last.ports.end();
  return same ? local % static_cast<int>(last.ranks.size()) : last.ports[at(local) % last.ports.size()];
}

Routes::Routes(const Composite& composite)
    : composite_(composite),
      chunks_(schedule::chunk_count(composite.collective, composite.ranks(), composite.chunks_per_rank)),
      host_of_(at(composite.ranks())),
      local_of_(at(composite.ranks())),
      turn_of_(at(composite.ranks())),
      port_of_(at(composite.ranks()), -1) {
  int turn = 0;
  for (std::size_t host = 0; host < composite.hosts.size(); ++host) {
    const Host& one = composite.hosts[host];
    most_ports_ = std::max(most_ports_, static_cast<int>(one.ports.size()));
    for (std::size_t local = 0; local < one.ranks.size(); ++local) {
      host_of_[at(one.ranks[local])] = static_cast<int>(host);
      local_of_[at(one.ranks[local])] = static_cast<int>(local);
      turn_of_[at(one.ranks[local])] = turn++;
    }
    for (std::size_t place = one.ports.size(); composite.turns_are_rails && place-- > 0;)
      port_of_[at(one.ranks[at(one.ports[place])])] = static_cast<int>(place);
  }
  for (const auto& kind : composite.kinds) {
    kinds_.push_back(kind->index.of(*kind));
    depth_in_ = std::max(depth_in_, kind->in.steps);
    depth_out_ = std::max(depth_out_, kind->out.steps);
    depth_between_ = std::max(depth_between_, kind->between.steps);
  }
  // Beside kinds with entries, one without does the same as the root host as elsewhere.
  if (std::ranges::any_of(composite.kinds, [](const auto& kind) { return kind->has_entries(); }))
    for (const auto& kind : composite.kinds) {
      const HostKind& home = kind->has_entries() ? *kind->home : *kind;
      depth_home_in_ = std::max(depth_home_in_, home.in.steps);
      depth_home_out_ = std::max(depth_home_out_, home.out.steps);
    }
  if (composite.rails_of_pairs) rails_ = std::make_shared<const RailsOfPairs>(composite.hosts, composite.pace_across);
  const int blocks = composite.collective == Collective::reducescatter || composite.collective == Collective::scatter
                         ? composite.ranks()
                         : 1;
  pieces_ = std::max(1, composite.chunks_per_rank / composite.frames / blocks);
  if (composite.at_root) {
    at_root_ = LocalIndex(composite.at_root->schedule);
    depth_root_ = at_root_.steps;
    has_returns_ = composite.at_root->has_returns();
  }
  // A host's place in a tier is the place of the group that contains the host.
  std::vector<int> member_of_host(composite.hosts.size());
  for (std::size_t host = 0; host < member_of_host.size(); ++host) member_of_host[host] = static_cast<int>(host);
  for (const Tier& tier : composite.tiers) {
    std::map<int, Place> place_of_member;
    for (std::size_t group = 0; group < tier.groups.size(); ++group)
      for (std::size_t i = 0; i < tier.groups[group].size(); ++i)
        place_of_member[tier.groups[group][i]] = {static_cast<int>(group), static_cast<int>(i)};
    places_.emplace_back();
    for (int& member : member_of_host) {
      const Place place = place_of_member.at(member);
      places_.back().push_back(place);
      member = place.group;
    }
  }
  tier_start_.resize(composite.tiers.size());
  for (std::size_t tier = composite.tiers.size(); tier-- > 0;) {
    tier_start_[tier] = depth_hosts_;
    int deepest = 0;
    for (const auto& [members, shapes] : composite.tiers[tier].shapes)
      for (const Tree& tree : shapes) deepest = std::max(deepest, tree.steps);
    for (const auto& trees : composite.tiers[tier].of_roots)
      for (const Tree& tree : trees) deepest = std::max(deepest, tree.steps);
    depth_hosts_ += deepest;
  }
  const int hosts = static_cast<int>(composite.hosts.size());
  const auto rounds = static_cast<Step>(std::bit_width(static_cast<unsigned>(hosts))) + 1;
  const Step with_last_host = has_returns_ ? depth_out_ + 2 : 0;
  steps_ = depth_in_ + depth_out_ + depth_home_in_ + depth_home_out_ + depth_root_ + 2 * depth_between_ +
           2 * std::max(depth_hosts_, rounds) + with_last_host + composite.frames * composite.frame_steps;
  if (composite.order) steps_ = composite.order->steps;
  frames_in_turn_ = turn_of_frames();
  if (composite.alike) place_roots();
}

int Routes::owners() const {
  const bool owned =
      composite_.collective == Collective::allgather || composite_.collective == Collective::reducescatter;
  return owned ? composite_.ranks() : 1;
}

Routes::Part Routes::part(ChunkId chunk) const {
  const int owners = this->owners();
  const int row = chunk / owners;
  return {row / composite_.frames * owners + chunk % owners, row % composite_.frames};
}

bool Routes::has_strands_of_ports() const {
  return info(composite_.collective).rooted || composite_.collective == Collective::allreduce;
}

// Of one frame: pieces of a block, or chunks of a port.
int Routes::strands() const {
  return std::max(1, has_strands_of_ports() ? (pieces_ + most_ports_ - 1) / most_ports_ : pieces_);
}

// Chunks of one block take ports in the order of the block's rank, and strands one after the other, so that the blocks
// of one host take them evenly. Chunks of AllReduce, Broadcast and Reduce take the ports first, and those of the next
// frame go on with the next ports: hosts have unequal numbers of them. With entries the turns of a host's schedule are
// unlike one another: there the frames of a chunk have different roots, so that every root has chunks of every turn.
Routes::Ends Routes::ends(const Part& part) const {
  const ChunkId chunk = part.whole;
  const int ranks = composite_.ranks();
  const int owner = chunk % ranks;
  const int target = chunk / ranks % ranks;
  const int piece = chunk / ranks;
  const auto by_owner = [&](Ends ends) {
    const int local = local_of_[at(owner)];
    ends.turn = own_turn(owner, piece);
    ends.strand = composite_.alike ? piece : host_of_[at(owner)] * pieces_ + piece;
    ends.tree_turn = local + part.frame * pieces_ + piece;
    ends.near_turn = local + piece;
    ends.local_turn = ends.strand + part.frame * pieces_;
    if (composite_.alike && depth_home_in_ == 0) ends.turn_of_place = pieces_;
    if (composite_.turns_are_rails) ends.turn = turn_on_rails(owner, ends.near_turn, piece);
    return ends;
  };
  const auto by_number = [&](Ends ends) {
    ends.turn = part.frame * pieces_ + chunk;
    ends.strand = chunk / most_ports_;
    ends.tree_turn = chunk / most_ports_ + (depth_home_in_ > 0 ? part.frame : 0);
    ends.leaf_turn = ends.strand + part.frame;
    ends.local_turn = ends.strand + part.frame * strands();
    if (composite_.alike) take_alike_turns(ends, part.frame);
    return ends;
  };
  switch (composite_.collective) {
    case Collective::allgather:
      return by_owner({false, true, owner, owner, 0, 0, 0});
    case Collective::reducescatter:
      return by_owner({true, false, owner, owner, 0, 0, 0});
    case Collective::gather:
      return by_owner({false, false, owner, composite_.root, 0, 0, 0});
    case Collective::scatter:
      return by_owner({false, false, composite_.root, owner, 0, 0, 0});
    case Collective::alltoall: {
      const int near_turn = turn_of_[at(target)] + turn_of_[at(owner)];
      const int turn = composite_.turns_are_rails ? turn_on_rails(target, near_turn, owner) : turn_of_[at(target)];
      return {false, false, owner, target, turn, piece / ranks, 0, near_turn};
    }
    case Collective::broadcast:
      return by_number({false, true, composite_.root, composite_.root, 0, 0, 0});
    case Collective::reduce:
      return by_number({true, false, composite_.root, composite_.root, 0, 0, 0});
    default:
      return by_number({true, true, 0, 0, 0, 0, 0});
  }
}

// Of an AllReduce whose hosts do alike: strands of one root host follow one another with as many others between them as
// there are roots.
void Routes::take_alike_turns(Ends& ends, int frame) const {
  ends.tree_turn = ends.strand;
  ends.local_turn = ends.strand / static_cast<int>(composite_.root_hosts.size()) + frame * strands_of_root();
  if (depth_home_in_ == 0) ends.turn_of_place = strands_of_root();
}

// Blocks of all hosts take the ports in turn, or those of each host do.
int Routes::own_turn(Rank owner, int piece) const {
  return composite_.alike ? local_of_[at(owner)] + piece * most_ports_
                          : turn_of_[at(owner)] + piece * composite_.ranks();
}

// The turn of the owner's port, or of that near it. Several ports of another host may be at that port's leaf switch:
// `others` tells which of them.
int Routes::turn_on_rails(Rank owner, int near_turn, int others) const {
  const int index = host_of_[at(owner)];
  const Host& host = composite_.hosts[at(index)];
  const std::vector<int>* near = host.all_own() ? nullptr : &host.near[at(local_of_[at(owner)])];
  if (near != nullptr && near->empty()) return own_turn(owner, others);
  const Rank port = near == nullptr ? owner : host.ranks[at((*near)[at(near_turn) % near->size()])];
  const int turn = port_of_[at(port)] >= 0 ? port_of_[at(port)] : own_turn(owner, 0);
  return turn + static_cast<int>(host.ports.size()) * (index + others);
}

Rank Routes::port(ChunkId chunk, int host) const {
  const Ends of = ends(part(chunk));
  if (rails_ == nullptr) return port(of, host);
  const auto [leaves, enters] = crossing(of);
  return host == host_of(leaves) ? leaves : enters;
}

Rank Routes::port(const Ends& ends, int host) const {
  const Host& one = composite_.hosts[at(host)];
  const auto in_turn = [&](const std::vector<int>& ports, int turn) {
    return one.ranks[at(ports[at(turn % static_cast<int>(ports.size()))])];
  };
  const auto near = [&](Rank rank) {
    if (one.all_own()) return rank;
    const std::vector<int>& ports = one.near[at(local_of_[at(rank)])];
    return ports.empty() ? in_turn(one.ports, ends.turn) : in_turn(ports, ends.near_turn);
  };
  const bool from_here = composite_.source_is_near && !ends.everyone_contributes;
  if (from_here && host_of_[at(ends.source)] == host) return near(ends.source);
  const bool to_here = composite_.sink_is_near && !ends.everyone_receives;
  if (to_here && host_of_[at(ends.sink)] == host) return near(ends.sink);
  return in_turn(one.ports, ends.turn);
}

int Routes::root_host(ChunkId chunk) const {
  const Part of = part(chunk);
  return root_host(ends(of));
}

// AllReduce: chunks take root hosts, and the trees made for these, in the same turn.
int Routes::root_host(const Ends& ends) const {
  if (!ends.everyone_contributes) return host_of_[at(ends.source)];
  if (!ends.everyone_receives) return host_of_[at(ends.sink)];
  if (composite_.root_hosts.empty()) return 0;
  return composite_.root_hosts[at(ends.tree_turn) % composite_.root_hosts.size()];
}

void Routes::for_each_child(ChunkId chunk, int host, const std::function<void(int child, Step step)>& visit) const {
  const Part one = part(chunk);
  const Ends of = ends(one);
  children(host, root_host(of), of, visit);
}

template <typename Visit>
void Routes::children(int host, int root_host, const Ends& ends, Visit&& visit) const {
  for (int tier = 0; tier < static_cast<int>(composite_.tiers.size()); ++tier) {
    const int here = position(tier, host, root_host, ends);
    const int group = places_[at(tier)][at(host)].group;
    const auto& members = composite_.tiers[at(tier)].groups[at(group)];
    const Tree& shape = tree(tier, group, root_host, ends);
    const Circle turn = circle(tier, group, root_host, ends);
    for (int i = shape.first[at(here)]; i < shape.first[at(here) + 1]; ++i) {
      const int child = shape.children[at(i)];
      visit(lead_host(tier, members[at(turn.index(child))], root_host, ends),
            tier_start_[at(tier)] + shape.step[at(child)]);
    }
    if (here != 0) return;
  }
}

void Routes::add_local(const LocalIndex& index, ChunkId local_chunk, Rank rank, Step first,
                       std::vector<Move>& moves) const {
  const Host& host = composite_.hosts[at(host_of(rank))];
  const std::size_t slot = at(local_chunk) * at(index.ranks) + at(local_of_[at(rank)]);
  for (int i = index.first[slot]; i < index.first[slot + 1]; ++i) {
    const LocalMove& move = index.moves[at(i)];
    moves.push_back({first + move.step, host.ranks[at(move.peer)], move.sends, move.kind});
  }
}

// The chunk of a host's schedule that the chunk takes there. A butterfly has no root host.
ChunkId Routes::local_chunk(const std::vector<std::vector<ChunkId>>& turns, const Ends& ends, int host,
                            int root_host) const {
  const std::vector<ChunkId>& own = turns[at(local_of_[at(port(ends, host))])];
  const int further = ends.turn_of_place == 0 ? 0 : places_behind(host, root_host) * ends.turn_of_place;
  return own[at(ends.local_turn + further) % own.size()];
}

// Copies from the host's entries to its devices. A rank that alone contributed the chunk has it already, and so have
// the devices over which it passed the chunk to the port.
void Routes::spread_on_host(const Ends& ends, int root, Rank rank, Step first, std::vector<Move>& moves) const {
  const int at_host = host_of(rank);
  const Host& host = composite_.hosts[at(at_host)];
  const HostKind& kind = *composite_.kinds[at(host.kind)];
  const bool home = kind.has_entries() && at_host == root;
  const ChunkId chunk = local_chunk(home ? kind.home->out_turns : kind.out_turns, ends, at_host, root);
  const KindIndex& index = *kinds_[at(host.kind)];
  const std::size_t before = moves.size();
  add_local(home ? index.home_out : index.out, chunk, rank, first, moves);
  if (ends.everyone_contributes) return;
  const auto known = [&](const Move& move) {
    const Rank to = move.sends ? move.peer : rank;
    return to == ends.source || (at_host == root && hears_on_the_way(ends, to));
  };
  moves.erase(std::remove_if(moves.begin() + static_cast<std::ptrdiff_t>(before), moves.end(), known), moves.end());
}

void Routes::collect_on_host(const Ends& ends, int root, Rank rank, Step first, std::vector<Move>& moves) const {
  const int at_host = host_of(rank);
  const Host& host = composite_.hosts[at(at_host)];
  const HostKind& kind = *composite_.kinds[at(host.kind)];
  const bool home = kind.has_entries() && at_host == root;
  const ChunkId chunk = local_chunk(home ? kind.home->in_turns : kind.in_turns, ends, at_host, root);
  const KindIndex& index = *kinds_[at(host.kind)];
  add_local(home ? index.home_in : index.in, chunk, rank, first, moves);
}

ChunkId Routes::root_chunk(const Ends& ends) const {
  const auto& turns = composite_.root_turns;
  return turns[at(ends.turn) % turns.size()];
}

// Empty: the port.
const std::vector<int>& Routes::exits(const Ends& ends) const {
  static const std::vector<int> none;
  if (!composite_.at_root || composite_.at_root->exits.empty()) return none;
  return composite_.at_root->exits[at(root_chunk(ends))];
}

int Routes::last_host(ChunkId chunk) const {
  const Ends of = ends(part(chunk));
  return last_host(root_host(of), of);
}

// In the one tier there is, whose tree begins at the root's host: the host before that, or the last one of the tree.
int Routes::last_host(int root_host, const Ends& ends) const {
  const Tier& tier = composite_.tiers.front();
  const auto& members = tier.groups.front();
  const int size = static_cast<int>(members.size());
  int position = size - 1;
  if (!tier.of_roots.empty()) {
    const std::vector<Step>& steps = tree(0, 0, root_host, ends).step;
    position = static_cast<int>(std::max_element(steps.begin(), steps.end()) - steps.begin());
  }
  return members[at((places_.front()[at(root_host)].index + position) % size)];
}

const std::vector<int>* Routes::more_entries(const Ends& ends, int host, Way way) const {
  const Host& one = composite_.hosts[at(host)];
  const HostKind& kind = *composite_.kinds[at(one.kind)];
  if (!kind.has_entries()) return nullptr;
  const bool in = way == Way::in;
  const int root = ends.turn_of_place == 0 ? host : root_host(ends);
  return &(in ? kind.in_entries
              : kind.out_entries)[at(local_chunk(in ? kind.in_turns : kind.out_turns, ends, host, root))];
}

int Routes::entries(const Ends& ends, int host, int root_host, Way way) const {
  if (host == root_host)
    if (const auto& known = exits(ends); !known.empty()) return static_cast<int>(known.size());
  const std::vector<int>* more = more_entries(ends, host, way);
  return more == nullptr ? 1 : 1 + static_cast<int>(more->size());
}

Rank Routes::entry(const Ends& ends, int host, int root_host, Way way, int index) const {
  if (host == root_host)
    if (const auto& known = exits(ends); !known.empty())
      return composite_.hosts[at(host)].ranks[at(known[at(index) % known.size()])];
  if (index == 0) return port(ends, host);
  return composite_.hosts[at(host)].ranks[at((*more_entries(ends, host, way))[at(index - 1)])];
}

// Visits (rank, peer, whether that is nearer to the root or to the leaves, step of the hosts' tree) for each message of
// those of the host's entries that are wanted.
template <typename Wanted, typename Visit>
void Routes::exchanges(const Ends& ends, int host, int root_host, Way way, Wanted&& wanted, Visit&& visit) const {
  const auto [above, heard] = parent(host, root_host, ends);
  const int count = entries(ends, host, root_host, way);
  for (int index = 0; index < count; ++index) {
    const Rank rank = entry(ends, host, root_host, way, index);
    if (!wanted(rank)) continue;
    if (above >= 0) {
      const int its = index % entries(ends, above, root_host, way);
      visit(rank, entry(ends, above, root_host, way, its), Towards::root, heard);
    }
    children(host, root_host, ends, [&](int child, Step step) {
      const int its_entries = entries(ends, child, root_host, way);
      for (int its = index; its < its_entries; its += count)
        visit(rank, entry(ends, child, root_host, way, its), Towards::leaves, step);
    });
  }
}

// Devices of the root's host that get the chunk back, each from a device of the last host.
void Routes::exchange_with_last(const Ends& ends, int root, Rank rank, Way way, Step step,
                                std::vector<Move>& moves) const {
  if (!has_returns_) return;
  const int host = host_of(rank);
  const int last = last_host(root, ends);
  if (host != root && host != last) return;
  const SendKind kind = way == Way::in ? SendKind::reduce : SendKind::copy;
  for (const int local : composite_.at_root->returns[at(root_chunk(ends))]) {
    const Rank other = composite_.hosts[at(root)].ranks[at(local)];
    const Rank by = returns_by(last, local);
    if (rank != other && rank != by) continue;
    moves.push_back({step, rank == other ? by : other, (rank == other) == (way == Way::in), kind});
  }
}

// Steps before the split begin at `before`, the others at `after`.
void Routes::at_root(const Ends& ends, Rank rank, Step before, Step after, std::vector<Move>& moves) const {
  const std::size_t first = moves.size();
  add_local(at_root_, root_chunk(ends), rank, 0, moves);
  const Step split = composite_.at_root->split;
  for (std::size_t i = first; i < moves.size(); ++i) moves[i].step += moves[i].step < split ? before : after - split;
}

// The chunk of `between` that goes the way of a chunk from one device of a host to another.
ChunkId Routes::chunk_between(const Ends& ends, Rank from, Rank to) const {
  const schedule::Schedule& between = composite_.kinds[at(composite_.hosts[at(host_of(from))].kind)]->between;
  const int devices = between.ranks;
  const int pieces = between.chunks / (devices * devices);
  return ends.strand % pieces * devices * devices + local_of_[at(to)] * devices + local_of_[at(from)];
}

// Whether the rank receives the chunk while the source passes it to its host's port.
bool Routes::hears_on_the_way(const Ends& ends, Rank rank) const {
  const Rank port_of_source = port(ends, host_of(ends.source));
  if (port_of_source == ends.source) return false;
  const LocalIndex& index = kinds_[at(composite_.hosts[at(host_of(rank))].kind)]->between;
  const std::size_t slot =
      at(chunk_between(ends, ends.source, port_of_source)) * at(index.ranks) + at(local_of_[at(rank)]);
  return std::any_of(index.moves.begin() + index.first[slot], index.moves.begin() + index.first[slot + 1],
                     [](const LocalMove& move) { return !move.sends; });
}

// Passes a chunk between two devices of one host.
void Routes::hand_over(const Ends& ends, Rank rank, Rank from, Rank to, Step first, std::vector<Move>& moves) const {
  if (from == to || host_of(rank) != host_of(from)) return;
  const Host& host = composite_.hosts[at(host_of(rank))];
  add_local(kinds_[at(host.kind)]->between, chunk_between(ends, from, to), rank, first, moves);
}

// The mirror image of spread(): a host reduces just before its entries send to the next host.
void Routes::collect(const Ends& ends, int root, Rank rank, std::vector<Move>& moves) const {
  const int host = host_of(rank);
  const Step first = has_returns_ ? composite_.at_root->split + 1 : 0;
  const auto [above, heard] = parent(host, root, ends);
  const Step sent = depth_hosts_ - 1 - heard;  // the root host comes last: depth_hosts_
  const bool by_entries = depth_home_in_ > 0;
  exchange_with_last(ends, root, rank, Way::in, first - 1, moves);
  if (above < 0 && composite_.at_root) {
    at_root(ends, rank, 0, first + depth_in_ + depth_hosts_, moves);
  } else {
    collect_on_host(ends, root, rank, first + sent + (above < 0 && by_entries ? depth_in_ : 0), moves);
  }
  const Step last = first + depth_in_ + depth_hosts_ - 1;
  exchanges(
      ends, host, root, Way::in, [&](Rank entry) { return entry == rank; },
      [&](Rank, Rank peer, Towards towards, Step step) {
        moves.push_back({last - step, peer, towards == Towards::root, SendKind::reduce});
      });
}

void Routes::spread(const Ends& ends, int root, Rank rank, Step first, std::vector<Move>& moves) const {
  const int host = host_of(rank);
  const auto [above, heard] = parent(host, root, ends);
  const Step between = first + (composite_.at_root ? 0 : depth_home_out_);
  const Step everywhere = between + depth_hosts_ + depth_out_;
  if (above < 0 && composite_.at_root) {
    at_root(ends, rank, 0, everywhere + 1, moves);
  } else {
    spread_on_host(ends, root, rank, above < 0 ? first : between + heard + 1, moves);
  }
  exchange_with_last(ends, root, rank, Way::out, everywhere, moves);
  exchanges(
      ends, host, root, Way::out, [&](Rank entry) { return entry == rank; },
      [&](Rank, Rank peer, Towards towards, Step step) {
        moves.push_back({between + step, peer, towards == Towards::leaves, SendKind::copy});
      });
}

void Routes::for_each_exchange(ChunkId chunk, int host,
                               const std::function<void(Rank rank, Rank peer, bool sends)>& visit) const {
  const Ends of = ends(part(chunk));
  const int root = root_host(of);
  const auto all = [](Rank) { return true; };
  if (of.everyone_contributes)
    exchanges(of, host, root, Way::in, all,
              [&](Rank rank, Rank peer, Towards towards, Step) { visit(rank, peer, towards == Towards::root); });
  if (of.everyone_receives)
    exchanges(of, host, root, Way::out, all,
              [&](Rank rank, Rank peer, Towards towards, Step) { visit(rank, peer, towards == Towards::leaves); });
  const int last = has_returns_ ? last_host(root, of) : root;
  if (last == root) return;
  for (const int local : composite_.at_root->returns[at(root_chunk(of))]) {
    const Rank other = composite_.hosts[at(root)].ranks[at(local)];
    const Rank by = returns_by(last, local);
    if (host == root) visit(other, by, of.everyone_contributes);
    if (host == last) visit(by, other, of.everyone_receives);
  }
}

void Routes::butterfly(const Ends& ends, Rank rank, std::vector<Move>& moves) const {
  const int hosts = static_cast<int>(composite_.hosts.size());
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(hosts)));
  const int rounds = std::countr_zero(static_cast<unsigned>(core));
  const int host = host_of(rank);
  const Step fold = core < hosts ? 1 : 0;
  const Step last = depth_in_ + fold + rounds;
  constexpr int kNoRoot = -1;
  collect_on_host(ends, kNoRoot, rank, 0, moves);
  if (rank == port(ends, host)) {
    const auto add = [&](Step step, int peer, bool sends, SendKind kind) {
      moves.push_back({step, port(ends, peer), sends, kind});
    };
    if (host >= core) {
      add(depth_in_, host - core, true, SendKind::reduce);
      add(last, host - core, false, SendKind::copy);
    } else {
      if (host + core < hosts) {
        add(depth_in_, host + core, false, SendKind::reduce);
        add(last, host + core, true, SendKind::copy);
      }
      for (int round = 0; round < rounds; ++round) {
        add(depth_in_ + fold + round, host ^ (1 << round), true, SendKind::reduce);
        add(depth_in_ + fold + round, host ^ (1 << round), false, SendKind::reduce);
      }
    }
  }
  spread_on_host(ends, kNoRoot, rank, last + fold, moves);
}

void Routes::moves(ChunkId chunk, Rank rank, std::vector<Move>& moves) const {
  const Part of = part(chunk);
  const std::size_t before = moves.size();
  moves_of_part(of, rank, moves);
  const Step first = start(of);
  for (std::size_t i = before; i < moves.size(); ++i) moves[i].step += first;
  if (composite_.order) take_order(chunk, rank, std::span(moves).subspan(before));
}

void Routes::moves_of_part(const Part& part, Rank rank, std::vector<Move>& moves) const {
  const Ends of = ends(part);
  if (!of.everyone_contributes && !of.everyone_receives) return unicast(of, rank, moves);
  if (of.everyone_contributes && of.everyone_receives && composite_.meeting == Meeting::butterfly)
    return butterfly(of, rank, moves);
  const int root = root_host(of);
  if (of.everyone_contributes) collect(of, root, rank, moves);
  const Step met = depth_in_ + depth_hosts_ + depth_home_in_;  // now the sum is complete at the root host's port
  if (!of.everyone_receives) {
    if (!composite_.at_root) hand_over(of, rank, port(of, root), of.sink, met, moves);
    return;
  }
  if (of.everyone_contributes) {
    spread(of, root, rank, met, moves);
    return;
  }
  if (composite_.at_root) return spread(of, root, rank, depth_root_, moves);
  hand_over(of, rank, of.source, port(of, root), 0, moves);
  spread(of, root, rank, port(of, root) == of.source ? 0 : depth_between_, moves);
}

}  // namespace sccl::compose
