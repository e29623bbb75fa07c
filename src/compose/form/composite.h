// A schedule of a whole cluster, composed of one schedule per level: devices of a host, hosts, groups of hosts.
//
// A composite keeps one schedule for each kind of host, one tree for each group size, and a rule (the map) that names
// for every chunk the device of a host at which the chunk changes levels: its port. No part of a composite grows with
// the square of the ranks. moves() computes what a rank does with a chunk in time linear in the number of its moves.
// For small clusters a flat Schedule of the same sends exists (compose/lowering/expand.h).
//
// The path of a chunk:
//   everyone contributes:  the host's devices reduce to the port, ports reduce along a tree of hosts to the root host;
//   one rank contributes:  the rank passes the chunk to its host's port, unless the rank is the port;
//   everyone receives:     ports copy along a tree of hosts from the root host, each port copies to its host's devices;
//   one rank receives:     the port of the rank's host passes the chunk to the rank, unless the rank is the port.
// Unicast chunks (AlltoAll, Gather, Scatter) go from port to port directly. An AllReduce may also use a butterfly:
// hosts exchange all they have with partners at distances 1, 2, 4, ...; hosts beyond a power of two first add their
// data to another host's.
//
// Tiers. The lowest tier groups hosts, the next tier groups those groups, and so on; the top tier has one group. A
// chunk enters a group once, at the group's lead member, and leaves the group from there: slow links between groups
// carry it once.
//
// All ranks as one host. Where hosts are unlike, or their links slow beside their NICs, schedules over all ranks serve
// long data better than any that passes hosts as a whole. Then `hosts` has one host that holds all ranks, whose
// schedules use all links, those to the network among them. There are no tiers.
//
// Steps only order a chunk's path (Schedule::pipelined): levels overlap as data flows.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compose/form/local_moves.h"
#include "compose/form/tree.h"
#include "schedule/schedule.h"
#include "topology/symmetry/cluster.h"

namespace sccl::compose {

using schedule::ChunkId;
using schedule::SendKind;
using schedule::Step;

// What the devices of one kind of host do for the cluster's collectives.
//
// Entries. Where NICs together bring more than the host's links, a chunk of `out` enters the host at further devices
// besides its port, and each of these devices passes it on to a part of the host. A chunk of `in` leaves the host from
// its entries likewise, each of which has the sum of a part. Entry i of a host exchanges data with entry i of its
// parent in the tree of hosts (modulo the parent's number of entries). On the chunk's root host no data comes from
// elsewhere: there `home` serves.
struct HostKind {
  schedule::Schedule in;       // ReduceScatter: a chunk's owner is the port it is reduced to
  schedule::Schedule out;      // AllGather: a chunk's owner is the port it is copied from
  schedule::Schedule between;  // AlltoAll: routes from device to device
  // The map's lower half: for each port, the chunks of `in` and `out` that the port's chunks of the cluster take in
  // turn.
  std::vector<std::vector<ChunkId>> in_turns;
  std::vector<std::vector<ChunkId>> out_turns;
  std::vector<std::vector<int>> in_entries;  // by chunk of `in`: devices besides the port; empty: none for any chunk
  std::vector<std::vector<int>> out_entries;
  std::shared_ptr<const HostKind> home;  // without entries; null: this kind has none either
  IndexOfKind index;                     // of these schedules

  bool has_entries() const { return home != nullptr; }
};

struct Host {
  int kind = 0;
  std::vector<Rank> ranks;
  // positions in `ranks` that chunks take in turn; the port of a faster NIC is listed more often
  std::vector<int> ports;
  // By position: the ports that chunks which begin or end at the rank take in turn; none: `ports`. Empty: every rank is
  // the port of its own chunks.
  std::vector<std::vector<int>> near;
  // Of Composite::rails_of_pairs. By position: the leaf switch of the rank's NIC, or its network; else -1.
  std::vector<int> rails = {};
  // Likewise: how many blocks its devices can hand over to one another in the time in which another host hands over as
  // many as that host's pace says.
  int pace = 1;

  bool all_own() const { return near.empty(); }
  bool operator==(const Host&) const = default;
};

// Whether all hosts have as many ports.
bool equal_ports(const std::vector<Host>& hosts);

// Leaves. A host with a smaller part of the NICs than others should pass less of an AllReduce than these. It is no
// root, and stands at the end of its group, whose last members do not turn round with the others: there it hangs on
// another member, to which it sends its sum, and from which it gets the result, each once. A tier with leaves is the
// only one and has one group.
//
// Trees of roots. Where members are joined unevenly, a line of hosts for example, no one shape serves all roots: each
// root has trees of its own, packed for all roots together (portfolio/composites/outer_trees.h). A tier with such trees
// is the only one and has one group. Their size grows with the square of the members: there are few.
struct Tier {
  std::vector<std::vector<int>> groups;     // members: hosts at tier 0, else groups of the tier below
  Shape shape = Shape::doubling;            // for display
  std::map<int, std::vector<Tree>> shapes;  // by number of members
  // AllReduce: of each tree in `shapes`, so many of the last members do not turn. Empty: all turn.
  std::vector<int> leaves = {};
  // By index of the root member in the group: the trees that its chunks take in turn. Empty: shapes serve all roots.
  std::vector<std::vector<Tree>> of_roots = {};
};

// The position of the device from which a device of the root's host gets data back from the last host, or gives it to:
// the one at the same position, where it is a port.
int returns_from(const Host& last, int local);

// How the root's host copies from the root, or reduces to it. The host's devices send what they get to other hosts, or
// first add what arrives from other hosts.
//
// Exits and returns. A device may be cut off from the root by slow links, and have a NIC of its own: it gets a chunk
// back from the last host of the tree, after the chunk has been everywhere, and may pass it on. So the root's host is
// as fast as the other hosts. Of Reduce, such a device gives its sum to the last host before anything else. Devices
// that get a chunk directly are its exits to other hosts.
struct RootHost {
  schedule::Schedule schedule;
  std::vector<std::vector<int>> exits;    // by chunk: one for each entry of the next host, in turn; empty: the port
  std::vector<std::vector<int>> returns;  // by chunk
  // Broadcast: what begins at returned data has steps from here on; Reduce: what ends there has the steps before.
  Step split = 0;

  bool has_returns() const {
    return std::any_of(returns.begin(), returns.end(), [](const auto& devices) { return !devices.empty(); });
  }
  bool operator==(const RootHost&) const = default;
};

// Steps that are not those of frames: every send has its own. They were chosen with all links in view, so that fewer
// chunks wait for one another (compose/lowering/by_time.h).
struct Order {
  // By chunk, then rank: of the copy that comes to the rank, and of the sum that it passes on. Empty if there are none.
  // Of Composite::alike: by the chunk that the tier's first hosts have in the place of this one
  // (Routes::as_first_hosts()), then which of them, then position of the rank in its host.
  std::vector<Step> copies;
  std::vector<Step> sums;
  Step steps = 0;
};

enum class Meeting : std::uint8_t { trees, butterfly };

inline constexpr int kMostFrameSteps = 1000;
inline constexpr int kMostPace = 256;  // of Host::pace

struct Composite {
  std::string name;
  Collective collective = Collective::allreduce;
  Rank root = 0;
  std::shared_ptr<const topology::Topology> topology;
  // Where `topology` is without the links between islands of hosts (topology/symmetry/islands.h), the one with them.
  // There flat forms run: what passes between islands of one host would take these links. Else null.
  std::shared_ptr<const topology::Topology> whole = nullptr;
  std::vector<std::shared_ptr<const HostKind>> kinds;  // shared by composites of one cluster
  std::vector<Host> hosts;
  std::vector<Tier> tiers;  // lowest first; none for one host
  Meeting meeting = Meeting::trees;
  bool source_is_near = true;  // whether a chunk's port on the host of its source is one near the source (Host::near)
  bool sink_is_near = true;
  // Whether the ports of one turn are at one leaf switch on all hosts (portfolio/links/rails.h). A block then takes the
  // turn of its own rank's port, so that it stays at that switch.
  bool turns_are_rails = false;
  // Unicast: whether a chunk changes hosts on a rail that these two hosts have (compose/form/rails_of_pairs.h).
  bool rails_of_pairs = false;
  int pace_across =
      0;  // of the links between rails, as Host::pace: that of a block that keeps to no rail; 0: none does
  // Broadcast and Reduce: what the root's host does. None: by way of the port.
  std::optional<RootHost> at_root;
  // Chunks of `at_root` that the chunks take in turn, frame after frame.
  std::vector<ChunkId> root_turns;
  std::vector<int> root_hosts;  // AllReduce by trees: the root hosts that chunks take in turn
  int chunks_per_rank = 1;      // C, as in Schedule
  // Chunks are cut into this many frames (counted in C), each `frame_steps` after the previous frame. Without frames,
  // if data uses the same connection on its way in and out, a late send delays the early send of the next slice.
  int frames = 1;
  // A rank sends to another one in the order of steps. Frames that are further apart leave the root later, and reach
  // their last devices earlier.
  int frame_steps = 1;  // at most kMostFrameSteps; 0: all frames begin at once, so no link waits for the first one
  // Whether the strands of a frame begin one after the other, evenly over the frame's steps. In step with each other,
  // all strands cross the root's links before the first of them goes on, and NICs far from the root wait.
  bool staggered = false;
  Step root_lead = 0;                  // as in Schedule; at most kMostFrameSteps
  std::shared_ptr<const Order> order;  // null: the steps of frames
  // Whether every host does with the chunks of its own ranks what any other one does with the chunks of its ranks. A
  // host then takes the turns of its schedules by how many places it stands behind a chunk's root host; with entries
  // all hosts take the same turn, since a host gets its entries from as many of its parent. So a row of blocks, or an
  // AllReduce's chunks of one strand for each root host, has one turn at a host. Without it chunks of one frame take
  // all turns. For one tier with one group of hosts that are alike (fault_of_alike()). An AllReduce may have a root
  // host at every second, third ... place only, so that its chunks are longer: hosts do alike that are as far apart.
  bool alike = false;

  int ranks() const { return topology->ranks; }
};

class RailsOfPairs;

// Why hosts of the composite cannot do alike (Composite::alike); empty: they can.
std::string fault_of_alike(const Composite& composite);

// Of Composite::alike: how many hosts stand for all. What the first ones of the tier do the next ones do as well.
int hosts_that_stand_for_all(const Composite& composite);

// Whether all frames meet on links that the hosts of a rack share. Where sums meet copies there, as in an AllReduce,
// these hosts do not go on in step.
bool all_at_once_in_racks(const Composite& composite);

// One end of a send, as seen by the rank at that end.
struct Move {
  Step step = 0;
  Rank peer = 0;
  bool sends = false;
  SendKind kind = SendKind::copy;
};

// The data from which a composite's moves are computed: positions of hosts in tiers, and the sends of the hosts'
// schedules. Built once, in time linear in the ranks and in the sizes of the kinds' schedules. The composite must
// outlive it and must have passed verify().
class Routes {
 public:
  explicit Routes(const Composite& composite);

  int chunks() const { return chunks_; }
  Step steps() const { return steps_; }

  // The moves of one rank with one chunk, in no particular order; O(tiers + moves).
  void moves(ChunkId chunk, Rank rank, std::vector<Move>& moves) const;

  // Visits, ascending, every chunk with which a rank may have moves; all chunks that begin or end at the rank are among
  // them.
  void for_each_chunk_of(Rank rank, const std::function<void(ChunkId)>& visit) const;

  // Whether the rank adds the last contributions to the chunk. The sum is complete after the rank's last reduction.
  bool completes_sum(ChunkId chunk, Rank rank) const;

  // The largest number of ports of a host.
  int most_ports() const { return most_ports_; }

  // The rank at which the chunk changes levels at a host.
  Rank port(ChunkId chunk, int host) const;

  // The root host of the trees that carry the chunk.
  int root_host(ChunkId chunk) const;

  // A chunk of the same ranks and sends, in one of the first frames_in_turn() frames, and how many steps earlier its
  // sends are. With an order: the chunk itself.
  std::pair<ChunkId, Step> in_first_frames(ChunkId chunk) const;

  // After so many frames the roots, trees and turns of chunks are the same again.
  int frames_in_turn() const { return frames_in_turn_; }

  // Visits each message in which the host's ranks pass the chunk to other hosts or get it: (rank, peer, whether the
  // rank sends). Takes a fraction of the time of the ranks' moves. Not of unicast chunks, nor of a butterfly.
  void for_each_exchange(ChunkId chunk, int host,
                         const std::function<void(Rank rank, Rank peer, bool sends)>& visit) const;

  // How many different steps the strands of one frame begin in.
  int starts_of_frame() const;

  // The host from which the chunk returns to the root's host (RootHost): one that hears of it last, if its root has
  // trees of its own. In most shapes it passes data to no other host.
  int last_host(ChunkId chunk) const;

  // Of Composite::alike: the chunk with which one of the tier's first hosts does what `host` does with this one.
  ChunkId as_first_hosts(ChunkId chunk, int host) const;

  // Where the steps of an order have the one of what the rank does with the chunk: a copy that comes, a sum that
  // leaves.
  std::size_t place_in_order(ChunkId chunk, Rank rank) const;

  // Visits the edges of the chunk's tree of hosts from one host: (child, step) for each child of `host`.
  void for_each_child(ChunkId chunk, int host, const std::function<void(int child, Step step)>& visit) const;

  // The parent of `host` and the step of its message; -1 at the root host.
  std::pair<int, Step> parent(ChunkId chunk, int host) const;

  // The same of all hosts, by host; takes a fraction of the time.
  void find_parents(ChunkId chunk, std::vector<std::pair<int, Step>>& parents) const;

  int host_of(Rank rank) const { return host_of_[static_cast<std::size_t>(rank)]; }

 private:
  struct Place {  // of a host in one tier
    int group;
    int index;
  };
  struct Ends {
    bool everyone_contributes, everyone_receives;
    Rank source, sink;
    int turn;               // index of the port, counted over all ports; of one root also in Composite::root_turns
    int strand;             // index among the port's chunks of one frame, counted over all of them
    int tree_turn;          // which of the trees that chunks take in turn, counted over all
    int near_turn = 0;      // in Host::near
    int local_turn = 0;     // index in the turns of HostKind
    int turn_of_place = 0;  // how many of them each place behind the root host is further: Composite::alike
    int leaf_turn = 0;      // which of the trees that have leaves
  };

  struct Part {
    ChunkId whole;  // the chunk before it is cut into frames
    int frame;
  };

  int places_behind(int host, int root_host) const;
  int strands_of_root() const;
  void take_alike_turns(Ends& ends, int frame) const;
  void place_roots();
  ChunkId local_chunk(const std::vector<std::vector<ChunkId>>& turns, const Ends& ends, int host, int root_host) const;
  int own_turn(Rank owner, int piece) const;
  int turn_on_rails(Rank owner, int near_turn, int others) const;
  int owners() const;  // ranks whose blocks take turns in the numbers of chunks
  Part part(ChunkId chunk) const;
  bool has_strands_of_ports() const;  // else of blocks
  int strands() const;
  Step start(const Part& part) const;
  void take_order(ChunkId chunk, Rank rank, std::span<Move> moves) const;
  ChunkId as_first_hosts(ChunkId chunk, int host, int root_host) const;
  std::size_t place_in_order(ChunkId chunk, Rank rank, int root_host) const;
  void moves_of_part(const Part& part, Rank rank, std::vector<Move>& moves) const;
  Ends ends(const Part& part) const;
  Rank port(const Ends& ends, int host) const;
  int root_host(const Ends& ends) const;
  const Tree& tree(int tier, int group, int root_host, const Ends& ends) const;
  int turn_of_frames() const;
  int root_index(int tier, int group, int root_host, const Ends& ends) const;
  // Members of a group as they stand in a chunk's tree: those before the leaves are turned round to the root.
  struct Circle {
    int root;
    int size;  // without leaves
    int position(int index) const { return index >= size ? index : (index - root + size) % size; }
    int index(int position) const { return position >= size ? position : (position + root) % size; }
  };
  std::size_t shape_index(const Tier& tier, std::size_t shapes, const Ends& ends) const;
  Circle circle(int tier, int group, int root_host, const Ends& ends) const;
  int position(int tier, int host, int root_host, const Ends& ends) const;
  int lead_host(int tier, int member, int root_host, const Ends& ends) const;
  int last_host(int root_host, const Ends& ends) const;
  std::pair<int, Step> parent(int host, int root_host, const Ends& ends) const;
  template <typename Visit>
  void children(int host, int root_host, const Ends& ends, Visit&& visit) const;

  enum class Way : std::uint8_t { in, out };
  ChunkId root_chunk(const Ends& ends) const;
  const std::vector<int>& exits(const Ends& ends) const;
  const std::vector<int>* more_entries(const Ends& ends, int host, Way way) const;
  int entries(const Ends& ends, int host, int root_host, Way way) const;
  Rank entry(const Ends& ends, int host, int root_host, Way way, int index) const;
  enum class Towards : std::uint8_t { root, leaves };
  template <typename Wanted, typename Visit>
  void exchanges(const Ends& ends, int host, int root_host, Way way, Wanted&& wanted, Visit&& visit) const;

  void spread_on_host(const Ends& ends, int root, Rank rank, Step first, std::vector<Move>& moves) const;
  void collect_on_host(const Ends& ends, int root, Rank rank, Step first, std::vector<Move>& moves) const;
  Rank returns_by(int last, int local) const {
    const Host& host = composite_.hosts[static_cast<std::size_t>(last)];
    return host.ranks[static_cast<std::size_t>(returns_from(host, local))];
  }
  void exchange_with_last(const Ends& ends, int root, Rank rank, Way way, Step step, std::vector<Move>& moves) const;
  ChunkId chunk_between(const Ends& ends, Rank from, Rank to) const;
  bool hears_on_the_way(const Ends& ends, Rank rank) const;
  void hand_over(const Ends& ends, Rank rank, Rank from, Rank to, Step first, std::vector<Move>& moves) const;
  void collect(const Ends& ends, int root, Rank rank, std::vector<Move>& moves) const;
  void spread(const Ends& ends, int root, Rank rank, Step first, std::vector<Move>& moves) const;
  void at_root(const Ends& ends, Rank rank, Step before, Step after, std::vector<Move>& moves) const;
  void butterfly(const Ends& ends, Rank rank, std::vector<Move>& moves) const;
  std::pair<Rank, Rank> crossing(const Ends& ends) const;
  void unicast(const Ends& ends, Rank rank, std::vector<Move>& moves) const;
  void add_local(const LocalIndex& index, ChunkId local_chunk, Rank rank, Step first, std::vector<Move>& moves) const;

  const Composite& composite_;
  int chunks_ = 0;
  int pieces_ = 1;  // of a block, before it is cut into frames
  Step steps_ = 0;
  std::vector<int> host_of_;   // by rank
  std::vector<int> local_of_;  // by rank: position in its host
  std::vector<int> turn_of_;   // by rank: its number, counted host by host
  std::vector<int> port_of_;   // by rank: where it is first in Host::ports; -1: nowhere, or turns are no rails
  std::shared_ptr<const RailsOfPairs> rails_;  // null: none
  std::vector<std::shared_ptr<const KindIndex>> kinds_;
  LocalIndex at_root_;
  std::vector<std::vector<Place>> places_;  // by tier, then host
  std::vector<int> root_at_;                // Composite::alike, AllReduce: by place, its number among root hosts; or -1
  int period_ = 1;                          // Composite::alike: hosts that stand for all
  std::vector<Step> tier_start_;            // first step of a tier when data spreads
  int most_ports_ = 1;
  Step depth_in_ = 0;  // largest over all kinds of hosts
  Step depth_out_ = 0;
  Step depth_between_ = 0;
  Step depth_root_ = 0;
  bool has_returns_ = false;
  int frames_in_turn_ = 1;
  Step depth_home_in_ = 0;  // 0 without entries
  Step depth_home_out_ = 0;
  Step depth_hosts_ = 0;  // of all tiers
};

}  // namespace sccl::compose
