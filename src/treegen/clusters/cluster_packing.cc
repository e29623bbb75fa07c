#include "treegen/clusters/cluster_packing.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "treegen/packing/integral.h"

namespace sccl::treegen {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool wants_in_trees(Collective collective) {
  return collective == Collective::reduce || collective == Collective::reducescatter;
}

bool from_all(Collective collective) {
  return collective == Collective::allgather || collective == Collective::reducescatter ||
         collective == Collective::allreduce;
}

// What each rank of the one host sends: a device its own data, `outside` that of all other hosts.
std::vector<Amount> data_of(const LikeHosts& hosts) {
  std::vector<Amount> data(at(hosts.devices()), 1);
  data.push_back(static_cast<Amount>(hosts.hosts() - 1) * hosts.devices());
  return data;
}

struct Place {
  int host, position;
};

std::vector<Place> places_of(const LikeHosts& hosts) {
  std::vector<Place> places(at(hosts.hosts() * hosts.devices()));
  for (int host = 0; host < hosts.hosts(); ++host)
    for (int position = 0; position < hosts.devices(); ++position)
      places[at(hosts.ranks[at(host)][at(position)])] = {host, position};
  return places;
}

// A part of the data of one root, with one tree on the root's host and one on all others.
struct Piece {
  const Tree* home;
  const Tree* entering;
  Rational weight;
};

// Both lists have the same sum of weights.
std::vector<Piece> merged_pieces(const std::vector<HostTree>& home, const std::vector<HostTree>& entering) {
  std::vector<Piece> pieces;
  std::size_t h = 0;
  std::size_t e = 0;
  Rational used_h = 0;
  Rational used_e = 0;
  while (h < home.size() && e < entering.size()) {
    const Rational weight = std::min(home[h].weight - used_h, entering[e].weight - used_e);
    if (weight > 0) pieces.push_back({&home[h].tree, &entering[e].tree, weight});
    used_h += weight;
    used_e += weight;
    if (used_h == home[h].weight) ++h, used_h = 0;
    if (used_e == entering[e].weight) ++e, used_e = 0;
  }
  return pieces;
}

bool below_outside(const Tree& tree, Rank outside, Rank rank) {
  for (Rank up = tree.parent[at(rank)]; up >= 0; up = tree.parent[at(up)])
    if (up == outside) return true;
  return false;
}

enum class Shape : std::uint8_t { chain, doubling };

// Host h > 0 hears from parent_host(h). The root's host sends to one other host only, so that what its devices have
// late matters little.
int parent_host(Shape shape, int host) {
  if (shape == Shape::chain || host == 1) return host - 1;
  return host - static_cast<int>(std::bit_floor(static_cast<unsigned>(host - 1)));
}

// Joins trees of hosts to trees of the cluster. Every position shall send to other hosts as much as it receives from
// them, since a way to the network has so much room in both directions.
class Joiner {
 public:
  Joiner(const LikeHosts& hosts, Shape shape) : hosts_(hosts), shape_(shape), surplus_(at(hosts.devices()), 0) {}

  Tree join(const Piece& piece) {
    const Tree& home = *piece.home;
    const int last = hosts_.hosts() - 1;
    Tree tree{rank_of(0, home.root), std::vector<Rank>(at(hosts_.hosts() * hosts_.devices()), -1)};
    const auto hear = [&](int host, int position, int from_host, int from) {
      tree.parent[at(rank_of(host, position))] = rank_of(from_host, from);
    };
    for (int position = 0; position < hosts_.devices(); ++position) {
      if (position == home.root) continue;
      const Rank above = home.parent[at(position)];
      if (above == hosts_.outside())
        hear(0, position, last, position);
      else
        hear(0, position, 0, above);
    }
    for (int host = 1; host <= last; ++host)
      for (int position = 0; position < hosts_.devices(); ++position) {
        const Rank above = piece.entering->parent[at(position)];
        if (above == hosts_.outside())
          hear(host, position, parent_host(shape_, host), position);
        else
          hear(host, position, host, above);
      }
    if (shape_ == Shape::chain) {
      send_from_root_host(piece, tree);
      return tree;
    }
    Exchanges exchanges(at(hosts_.devices()));
    for (int position = 0; position < hosts_.devices(); ++position) {
      if (!enters(piece, position) || !late(home, position)) continue;
      // The entry of the last host from which this device gets the data back.
      const int source = below(*piece.entering, below(home, position));
      if (const int other = partner(piece, exchanges, source); other >= 0) {
        exchanges.taken[at(other)] = exchanges.needed[at(source)] = true;
        hear(1, position, 0, other);
        hear(last, other, 0, position);
        continue;
      }
      const int other = least_sender(home);
      hear(1, position, 0, other);
      surplus_[at(other)] += piece.weight;
      surplus_[at(position)] -= piece.weight;
    }
    return tree;
  }

 private:
  Rank rank_of(int host, int position) const { return hosts_.ranks[at(host)][at(position)]; }
  // What returns to the root's host comes from a host that heard of the data already.
  bool late(const Tree& home, int position) const { return below_outside(home, hosts_.outside(), position); }
  bool enters(const Piece& piece, int position) const {
    return piece.entering->parent[at(position)] == hosts_.outside();
  }

  // Trees that are not turned load the root's host alone. The tree on that host leaves it at one device, whose way to
  // the network has room for that: this device feeds the first entry, others those of their position or what is left.
  void send_from_root_host(const Piece& piece, Tree& tree) {
    bool first = true;
    for (int position = 0; position < hosts_.devices(); ++position) {
      if (!enters(piece, position)) continue;
      int from = first ? piece.home->parent[at(hosts_.outside())] : position;
      if (late(*piece.home, from)) from = least_sender(*piece.home);
      surplus_[at(from)] += piece.weight;
      tree.parent[at(rank_of(1, position))] = rank_of(0, from);
      first = false;
    }
  }

  // In exchange for feeding an entry of the first other host, an early device's own entry on the last host is fed by
  // the late device, which has the data from another entry of that host.
  struct Exchanges {
    explicit Exchanges(std::size_t devices) : taken(devices, false), needed(devices, false) {}
    std::vector<bool> taken;   // entries of the last host that late devices feed
    std::vector<bool> needed;  // entries of the last host from which late devices have the data
  };

  // -1: there is none.
  int partner(const Piece& piece, const Exchanges& exchanges, int source) const {
    if (exchanges.taken[at(source)]) return -1;
    for (int position = 0; position < hosts_.devices(); ++position) {
      const bool free = !exchanges.taken[at(position)] && !exchanges.needed[at(position)] && position != source;
      if (free && enters(piece, position) && !late(*piece.home, position)) return position;
    }
    return -1;
  }

  // Of the devices that have the data early, the one that sends least so far.
  int least_sender(const Tree& home) const {
    int best = home.root;
    for (int position = 0; position < hosts_.devices(); ++position)
      if (!late(home, position) && surplus_[at(position)] < surplus_[at(best)]) best = position;
    return best;
  }

  // The child of `outside` above a position, or the position itself if it is one.
  Rank below(const Tree& tree, Rank position) const {
    while (tree.parent[at(position)] != hosts_.outside()) position = tree.parent[at(position)];
    return position;
  }

  const LikeHosts& hosts_;
  Shape shape_;
  std::vector<Rational> surplus_;  // by position: sent less received
};

using TreesByRoot = std::map<Rank, std::vector<HostTree>>;

TreesByRoot by_root(const std::vector<WholeTree>& trees, Amount scale) {
  TreesByRoot result;
  for (const WholeTree& tree : trees) result[tree.tree.root].push_back({tree.tree, Rational(tree.weight, scale)});
  return result;
}

// Where Edmonds' theorem does not help (shared sets): the best packing of a host alone. The data of other hosts enters
// at the roots of its trees.
TreesByRoot by_hosts_alone(const LikeHosts& hosts, const Links& links, const PackOptions& options) {
  Topology host = hosts.one;
  const Rank outside = hosts.outside();
  const auto touches = [&](topology::Node a, topology::Node b) { return a == outside || b == outside; };
  std::erase_if(host.links, [&](const topology::Link& link) { return touches(link.src, link.dst); });
  const auto lower = [&](topology::Node& node) { node -= node > outside ? 1 : 0; };
  for (topology::Link& link : host.links) lower(link.src), lower(link.dst);
  for (topology::SharedSet& set : host.shared) {
    std::erase_if(set.links, [&](const auto& edge) { return touches(edge.first, edge.second); });
    for (auto& edge : set.links) lower(edge.first), lower(edge.second);
  }
  std::erase_if(host.shared, [](const topology::SharedSet& set) { return set.links.empty(); });
  --host.ranks;
  const Packing alone = pack(host, Collective::allgather, 0, options);
  const Rational unit = links.units_per_lane();
  TreesByRoot result;
  for (const WeightedRoute& route : alone.routes) {
    Tree tree = route.route.out;
    const Rational weight = route.weight * unit / hosts.hosts();
    tree.parent.push_back(tree.root);
    result[tree.root].push_back({tree, weight});
    Tree entering = route.route.out;
    entering.parent[at(entering.root)] = outside;
    entering.root = outside;
    entering.parent.push_back(-1);
    result[outside].push_back({entering, weight * (hosts.hosts() - 1)});
  }
  return result;
}

// Divides the trees from outside among the roots: each gets `share` for one host, first of trees that enter at its own
// position.
std::vector<std::vector<HostTree>> divided(const LikeHosts& hosts, const std::vector<HostTree>& entering,
                                           const Rational& share) {
  std::vector<Rational> left;
  for (const HostTree& tree : entering) left.push_back(tree.weight / (hosts.hosts() - 1));
  std::vector<std::vector<HostTree>> result(at(hosts.devices()));
  std::vector<Rational> missing(result.size(), share);
  for (const bool own : {true, false})
    for (int position = 0; position < hosts.devices(); ++position)
      for (std::size_t tree = 0; tree < entering.size(); ++tree) {
        if (own && entering[tree].tree.parent[at(position)] != hosts.outside()) continue;
        const Rational weight = std::min(left[tree], missing[at(position)]);
        if (weight <= 0) continue;
        result[at(position)].push_back({entering[tree].tree, weight});
        left[tree] -= weight;
        missing[at(position)] -= weight;
      }
  return result;
}

// By capacity of the one host, in capacity units: of all hosts together if trees are turned, else of each host.
std::vector<std::vector<Rational>> loads(const LikeHosts& hosts, const Links& links, const ClusterPacking& packing) {
  const std::vector<Place> places = places_of(hosts);
  const bool turns = from_all(packing.collective);
  std::vector<std::vector<Rational>> load(turns ? 1 : at(hosts.hosts()),
                                          std::vector<Rational>(links.capacities().size(), 0));
  const auto add = [&](int host, Rank from, Rank to, const Rational& weight) {
    const int hop = links.hop(from, to);
    if (hop < 0)
      fail(ErrorCode::internal_error, "a tree over hosts sends from {} to {}, which no path joins", from, to);
    for (const Use& use : links.hops()[at(hop)].uses)
      load[turns ? 0 : at(host)][at(use.capacity)] += weight * use.times;
  };
  const auto pass = [&](Rank from, Rank to, const Rational& weight) {
    const Place a = places[at(from)];
    const Place b = places[at(to)];
    if (a.host == b.host) return add(a.host, a.position, b.position, weight);
    add(a.host, a.position, hosts.outside(), weight);
    add(b.host, hosts.outside(), b.position, weight);
  };
  for (const TreeOrbit& orbit : packing.orbits) {
    const Rational weight = orbit.weight * links.units_per_lane();
    for (Rank rank = 0; rank < static_cast<Rank>(places.size()); ++rank) {
      if (orbit.route.copies() && rank != orbit.route.out.root) pass(orbit.route.out.parent[at(rank)], rank, weight);
      if (orbit.route.reduces() && rank != orbit.route.in.root) pass(rank, orbit.route.in.parent[at(rank)], weight);
    }
  }
  return load;
}

// Scales all weights until the busiest link is full. That changes nothing where Edmonds' theorem gave the trees, unless
// ways to the network differ by direction.
void fit(const LikeHosts& hosts, const Links& links, ClusterPacking& packing) {
  std::optional<Rational> part;
  for (const auto& one : loads(hosts, links, packing))
    for (std::size_t index = 0; index < one.size(); ++index) {
      if (one[index] <= 0) continue;
      const Rational fits = Rational(links.capacities()[index].amount) / one[index];
      if (!part || fits < *part) part = fits;
    }
  if (!part) return;
  packing.rate *= *part;
  for (TreeOrbit& orbit : packing.orbits) orbit.weight *= *part;
}

void pack_gather(const LikeHosts& hosts, const Links& links, const PackOptions& options, ClusterPacking& packing) {
  std::vector<Amount> demands = data_of(hosts);
  packing.bound = gather_bound(links, demands);
  const Rational& rate = packing.bound.rate;
  for (Amount& demand : demands) demand *= rate.numerator();
  const auto trees = pack_whole(links, demands, rate.denominator());
  const TreesByRoot by = trees ? by_root(*trees, rate.denominator()) : by_hosts_alone(hosts, links, options);
  packing.candidates = trees ? static_cast<int>(trees->size()) : static_cast<int>(by.at(hosts.outside()).size());
  Rational share = 0;
  for (const HostTree& tree : by.at(0)) share += tree.weight;
  packing.rate = share / links.units_per_lane();
  const auto entering = divided(hosts, by.at(hosts.outside()), share);
  Joiner joiner(hosts, Shape::doubling);
  for (int position = 0; position < hosts.devices(); ++position)
    for (const Piece& piece : merged_pieces(by.at(position), entering[at(position)]))
      packing.orbits.push_back({{{}, joiner.join(piece)}, piece.weight / links.units_per_lane(), hosts.hosts()});
}

void pack_from(const LikeHosts& hosts, const Links& links, Rank root, ClusterPacking& packing) {
  const Place place = places_of(hosts)[at(root)];
  LikeHosts first = hosts;  // the root's host comes first
  std::rotate(first.ranks.begin(), first.ranks.begin() + place.host, first.ranks.end());
  const Bound home_bound = broadcast_bound(links, place.position);
  const Bound other_bound = broadcast_bound(links, hosts.outside());
  packing.bound = other_bound.rate < home_bound.rate ? other_bound : home_bound;
  const Amount rate = packing.bound.rate.numerator();
  std::vector<Amount> demands(at(links.ranks()), 0);
  demands[at(place.position)] = rate;
  const auto home = pack_whole(links, demands, 1);
  demands[at(place.position)] = 0;
  demands[at(hosts.outside())] = rate;
  const auto entering = pack_whole(links, demands, 1);
  if (!home || !entering)
    fail(
        ErrorCode::invalid_argument,
        "topology '{}': trees from one root are not packed for more than 16 ranks where sets of links share bandwidth: "
        "pack one host",
        hosts.one.name);
  packing.candidates = static_cast<int>(home->size() + entering->size());
  packing.rate = Rational(rate) / links.units_per_lane();
  const TreesByRoot at_home = by_root(*home, 1);
  const TreesByRoot elsewhere = by_root(*entering, 1);
  Joiner joiner(first, Shape::chain);
  for (const Piece& piece : merged_pieces(at_home.at(place.position), elsewhere.at(hosts.outside())))
    packing.orbits.push_back({{{}, joiner.join(piece)}, piece.weight / links.units_per_lane(), 1});
}

// Every tree is used in both directions, so links carry their loads of both. The bounds: an in-tree and an out-tree
// each leave k - 1 of k sets of ranks; links of the network's switches bound nothing.
void both_ways(const LikeHosts& hosts, const Links& links, ClusterPacking& packing) {
  if (!links.symmetric())
    fail(ErrorCode::invalid_argument,
         "topology '{}': trees for AllReduce on more than 16 ranks need links that are equal in both directions: pack "
         "allgather and reducescatter",
         hosts.one.name);
  const Rational ranks = Rational(hosts.hosts()) * hosts.devices();
  packing.rate = packing.rate * ranks / 2;
  for (TreeOrbit& orbit : packing.orbits) {
    orbit.weight /= 2;
    orbit.route.in = orbit.route.out;
  }
  std::vector<Node> part = packing.bound.sets.front();
  std::vector<bool> inside(at(links.nodes()), false);
  for (const Node node : part) inside[at(node)] = true;
  std::vector<Node> rest, host;
  part.clear();
  for (Node node = 0; node < links.nodes(); ++node) {
    if (node == hosts.outside()) continue;
    (inside[at(node)] ? part : rest).push_back(node);
    host.push_back(node);
  }
  std::vector<std::vector<std::vector<Node>>> partitions{{host}};
  const auto has_rank = [&](const std::vector<Node>& set) { return !set.empty() && set.front() < hosts.devices(); };
  if (has_rank(part) && has_rank(rest)) partitions.push_back({part, rest});
  partitions.emplace_back();
  for (Rank rank = 0; rank < hosts.devices(); ++rank) partitions.back().push_back({rank});
  packing.bound.crossing = 0;
  for (const auto& sets : partitions) {
    Amount crossing = 0;
    for (const auto& set : sets) crossing += leaving(links, set) * hosts.hosts();
    const int crossings = 2 * (static_cast<int>(sets.size()) * hosts.hosts() - 1);
    const Rational rate(crossing, crossings);
    if (packing.bound.crossing == 0 || rate < packing.bound.rate) packing.bound = {rate, crossing, crossings, sets};
  }
}

void wrong(const ClusterPacking& packing, const std::string& what) {
  fail(ErrorCode::internal_error, "packing of {} over {} hosts: {}", info(packing.collective).name, packing.hosts,
       what);
}

void check_spans(const ClusterPacking& packing, const Tree& tree, std::size_t ranks) {
  if (tree.parent.size() != ranks) wrong(packing, "a tree has another number of ranks");
  std::vector<int> reached(ranks, 0);  // 1: on the way up from a rank; 2: below the root
  reached[at(tree.root)] = 2;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::size_t> way;
    std::size_t up = rank;
    while (reached[up] == 0) {
      reached[up] = 1;
      way.push_back(up);
      const Rank parent = tree.parent[up];
      if (parent < 0 || at(parent) >= ranks) wrong(packing, fmt::format("rank {} has no parent", up));
      up = at(parent);
    }
    if (reached[up] != 2) wrong(packing, fmt::format("rank {} is on a cycle", up));
    for (const std::size_t one : way) reached[one] = 2;
  }
}

}  // namespace

int ClusterPacking::depth() const {
  int most = 0;
  for (const TreeOrbit& orbit : orbits) most = std::max(most, orbit.route.depth());
  return most;
}

ClusterPacking pack_cluster(const LikeHosts& hosts, Collective collective, Rank root, const PackOptions& options) {
  require_packed(collective);
  const Links forward(hosts.one, options.capacity_unit);
  const Links links = wants_in_trees(collective) ? forward.reversed() : forward;
  ClusterPacking packing;
  packing.collective = collective;
  packing.hosts = hosts.hosts();
  packing.devices = hosts.devices();
  packing.root = info(collective).rooted ? root : 0;
  if (from_all(collective))
    pack_gather(hosts, links, options, packing);
  else
    pack_from(hosts, links, root, packing);
  if (collective == Collective::allreduce) both_ways(hosts, forward, packing);
  if (wants_in_trees(collective))
    for (TreeOrbit& orbit : packing.orbits) std::swap(orbit.route.in, orbit.route.out);
  packing.bound.rate /= forward.units_per_lane();
  packing.optimum = packing.bound.rate;
  fit(hosts, forward, packing);
  packing.proof = packing.rate == packing.optimum ? Proof::cut : Proof::none;
  check(hosts, packing, options);
  return packing;
}

Tree turned(const LikeHosts& hosts, const Tree& tree, int turns) {
  if (tree.parent.empty()) return tree;
  const std::vector<Place> places = places_of(hosts);
  const auto moved = [&](Rank rank) {
    const Place place = places[at(rank)];
    return hosts.ranks[at((place.host + turns) % hosts.hosts())][at(place.position)];
  };
  Tree result{moved(tree.root), std::vector<Rank>(tree.parent.size(), -1)};
  for (Rank rank = 0; rank < static_cast<Rank>(tree.parent.size()); ++rank)
    if (tree.parent[at(rank)] >= 0) result.parent[at(moved(rank))] = moved(tree.parent[at(rank)]);
  return result;
}

std::vector<WeightedRoute> all_routes(const LikeHosts& hosts, const ClusterPacking& packing) {
  std::vector<WeightedRoute> result;
  for (int turns = 0; turns < hosts.hosts(); ++turns)
    for (const TreeOrbit& orbit : packing.orbits)
      if (turns < orbit.multiplicity)
        result.push_back({{turned(hosts, orbit.route.in, turns), turned(hosts, orbit.route.out, turns)}, orbit.weight});
  return result;
}

void check(const LikeHosts& hosts, const ClusterPacking& packing, const PackOptions& options) {
  const Links links(hosts.one, options.capacity_unit);
  const std::size_t ranks = at(hosts.hosts() * hosts.devices());
  std::map<Rank, Rational> by_root;
  for (const TreeOrbit& orbit : packing.orbits) {
    if (orbit.weight <= 0) wrong(packing, "a weight is not positive");
    if (orbit.route.copies()) check_spans(packing, orbit.route.out, ranks);
    if (orbit.route.reduces()) check_spans(packing, orbit.route.in, ranks);
    if (orbit.route.copies() == wants_in_trees(packing.collective) ||
        orbit.route.reduces() != info(packing.collective).reduces)
      wrong(packing, "a route has trees of the wrong direction");
    if (orbit.multiplicity != (from_all(packing.collective) ? hosts.hosts() : 1))
      wrong(packing, "a tree is there for another number of hosts");
    by_root[orbit.route.root()] += orbit.weight;
  }
  for (const auto& load : loads(hosts, links, packing))
    for (std::size_t index = 0; index < load.size(); ++index)
      if (load[index] > links.capacities()[index].amount)
        wrong(packing, fmt::format("a link carries {} of {}", to_text(load[index]), links.capacities()[index].amount));
  if (!from_all(packing.collective)) {
    if (by_root.size() != 1 || by_root[packing.root] != packing.rate) wrong(packing, "the weights miss the rate");
    return;
  }
  const bool whole = packing.collective == Collective::allreduce;
  const Rational wanted = whole ? packing.rate / static_cast<std::int64_t>(ranks) : packing.rate;
  for (const Rank rank : hosts.ranks.front())
    if (by_root[rank] != wanted) wrong(packing, fmt::format("rank {} has {}", rank, to_text(by_root[rank])));
  if (by_root.size() != at(hosts.devices())) wrong(packing, "a representative has its root on another host");
}

}  // namespace sccl::treegen
