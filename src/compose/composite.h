// A schedule of a whole cluster, composed from a schedule of each level: devices of a host, hosts, groups of hosts.
//
// A composite keeps one schedule for each kind of host and one tree for each group size, and a rule (the map) that says
// for every chunk at which device of a host it changes levels: its port. Nothing in it grows with the square of the
// ranks; what a rank does with a chunk follows in time linear in what it does (moves()). A flat Schedule of the same
// sends exists for small clusters (compose/expand.h).
//
// The way of a chunk:
//   everyone contributes:  the host's devices reduce to the port, ports reduce along a tree of hosts to the root host;
//   one rank contributes:  it hands the chunk to its host's port, where it is not the port itself;
//   everyone receives:     ports copy along a tree of hosts from the root host, each port copies to its host's devices;
//   one rank receives:     the port of its host hands it over, where it is not the port itself.
// Unicast chunks (AlltoAll, Gather, Scatter) go from port to port directly. An AllReduce may also meet as a butterfly:
// hosts exchange all they have with partners at distances 1, 2, 4, ...; hosts beyond a power of two fold into another
// one first.
//
// Tiers. The lowest tier groups hosts, the next one groups of these, and so on; the top tier has one group. A chunk
// enters a group once, at its lead member, and leaves it from there: slow links between groups carry it once.
//
// Steps give the order along a chunk's way and nothing more (Schedule::pipelined): levels overlap as data flows.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compose/tree.h"
#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace sccl::compose {

using schedule::ChunkId;
using schedule::SendKind;
using schedule::Step;

// What the devices of one kind of host do for the collectives of the cluster.
struct HostKind {
  schedule::Schedule in;       // ReduceScatter: a chunk's owner is the port it is reduced to
  schedule::Schedule out;      // AllGather: a chunk's owner is the port it is copied from
  schedule::Schedule between;  // AlltoAll: ways from device to device
  // The map's lower half: by port, the chunks of `in` and `out` that a port's chunks of the cluster take in turn.
  std::vector<std::vector<ChunkId>> in_turns;
  std::vector<std::vector<ChunkId>> out_turns;
};

struct Host {
  int kind = 0;
  std::vector<Rank> ranks;
  std::vector<int> ports;  // positions in `ranks` that chunks take in turn; a faster NIC's stands there more often
  std::vector<bool> own;   // by position: a rank may be the port of a chunk that begins or ends with it
};

struct Tier {
  std::vector<std::vector<int>> groups;     // members: hosts at tier 0, else groups of the tier below
  Shape shape = Shape::doubling;            // for people
  std::map<int, std::vector<Tree>> shapes;  // by number of members
};

enum class Meeting : std::uint8_t { trees, butterfly };

struct Composite {
  std::string name;
  Collective collective = Collective::allreduce;
  Rank root = 0;
  std::shared_ptr<const topology::Topology> topology;
  std::vector<std::shared_ptr<const HostKind>> kinds;  // shared by composites of one cluster
  std::vector<Host> hosts;
  std::vector<Tier> tiers;  // lowest first; none for one host
  Meeting meeting = Meeting::trees;
  bool source_is_port = true;  // where its host allows (Host::own)
  bool sink_is_port = true;
  // Broadcast and Reduce: how the root's host copies from the root, or reduces to it; its ports are devices among them,
  // which pass on to other hosts what they get, or add what arrives from these before. None: by way of the port.
  std::shared_ptr<const schedule::Schedule> at_root;
  std::vector<ChunkId> root_turns;  // chunks of `at_root` that the strands take in turn
  std::vector<int> root_hosts;      // AllReduce by trees: the root hosts that chunks take in turn
  int chunks_per_rank = 1;          // C, as in Schedule
  // Chunks are cut into so many frames (counted in C), each a step behind the one before: else, where data goes through
  // the same connection on its way in and out, a late send holds up the next slice's early one.
  int frames = 1;

  int ranks() const { return topology->ranks; }
};

// One end of a send, as the rank that takes part in it sees it.
struct Move {
  Step step = 0;
  Rank peer = 0;
  bool sends = false;
  SendKind kind = SendKind::copy;
};

// What a composite's moves are computed from: positions of hosts in tiers, and who sends what in the hosts' schedules.
// Made once in time linear in ranks and in the sizes of the kinds' schedules. The composite must outlive it and must
// have passed verify().
class Routes {
 public:
  explicit Routes(const Composite& composite);

  int chunks() const { return chunks_; }
  Step steps() const { return steps_; }

  // The moves of one rank with one chunk, in no particular order; O(tiers + moves).
  void moves(ChunkId chunk, Rank rank, std::vector<Move>& moves) const;

  // Visits, ascending, every chunk that a rank may have moves with, among them all that begin or end with it.
  void for_each_chunk_of(Rank rank, const std::function<void(ChunkId)>& visit) const;

  // How many ports the host with most of them has.
  int most_ports() const { return most_ports_; }

  // Where the chunk changes levels at a host.
  Rank port(ChunkId chunk, int host) const;

  // The root host of the trees that carry the chunk.
  int root_host(ChunkId chunk) const;

  // Visits who hears from whom along the chunk's tree of hosts: (parent, child, step), for the children of one host.
  void for_each_child(ChunkId chunk, int host, const std::function<void(int child, Step step)>& visit) const;

  // The host that `host` hears from, and when; -1 at the root host.
  std::pair<int, Step> parent(ChunkId chunk, int host) const;

  int host_of(Rank rank) const { return host_of_[static_cast<std::size_t>(rank)]; }

 private:
  struct LocalMove {
    Step step;
    int peer;  // position
    bool sends;
    SendKind kind;
  };
  // Moves by (chunk, position) of one schedule of a kind.
  struct LocalIndex {
    int ranks = 0;
    int steps = 0;
    std::vector<int> first;
    std::vector<LocalMove> moves;
  };
  struct KindIndex {
    LocalIndex in, out, between;
  };
  struct Place {  // of a host in one tier
    int group;
    int index;
  };
  struct Ends {
    bool everyone_contributes, everyone_receives;
    Rank source, sink;
    int turn;    // which port, counted over all
    int strand;  // which chunk of a port's, counted over all
  };

  struct Part {
    ChunkId whole;  // the chunk as it is without frames
    int frame;
  };

  static LocalIndex index(const schedule::Schedule& schedule);
  Part part(ChunkId chunk) const;
  void moves_of_whole(ChunkId whole, Rank rank, std::vector<Move>& moves) const;
  Ends ends(ChunkId whole) const;
  Rank port(const Ends& ends, int host) const;
  int root_host(const Ends& ends, ChunkId whole) const;
  const Tree& tree(int tier, int group, const Ends& ends) const;
  int root_index(int tier, int group, int root_host, const Ends& ends) const;
  int position(int tier, int host, int root_host, const Ends& ends) const;
  int lead_host(int tier, int member, int root_host, const Ends& ends) const;
  std::pair<int, Step> parent(int host, int root_host, const Ends& ends) const;
  template <typename Visit>
  void children(int host, int root_host, const Ends& ends, Visit&& visit) const;

  void spread_on_host(const Ends& ends, Rank rank, Step first, std::vector<Move>& moves) const;
  void collect_on_host(const Ends& ends, Rank rank, Step first, std::vector<Move>& moves) const;
  void hand_over(const Ends& ends, Rank rank, Rank from, Rank to, Step first, std::vector<Move>& moves) const;
  void collect(const Ends& ends, int root, Rank rank, std::vector<Move>& moves) const;
  void spread(const Ends& ends, int root, Rank rank, Step first, std::vector<Move>& moves) const;
  void at_root(const Ends& ends, Rank rank, Step first, std::vector<Move>& moves) const;
  void butterfly(const Ends& ends, Rank rank, std::vector<Move>& moves) const;
  void unicast(const Ends& ends, Rank rank, std::vector<Move>& moves) const;
  void add_local(const LocalIndex& index, ChunkId local_chunk, Rank rank, Step first, std::vector<Move>& moves) const;

  const Composite& composite_;
  int chunks_ = 0;
  Step steps_ = 0;
  std::vector<int> host_of_;   // by rank
  std::vector<int> local_of_;  // by rank: position in its host
  std::vector<int> turn_of_;   // by rank: its number, host by host
  std::vector<KindIndex> kinds_;
  LocalIndex at_root_;
  std::vector<std::vector<Place>> places_;  // by tier, then host
  std::vector<Step> tier_start_;            // first step of a tier when data spreads
  int most_ports_ = 1;
  Step depth_in_ = 0;  // of hosts, the deepest
  Step depth_out_ = 0;
  Step depth_between_ = 0;
  Step depth_root_ = 0;
  Step depth_hosts_ = 0;  // of all tiers
};

}  // namespace sccl::compose
