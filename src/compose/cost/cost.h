// The cost of a composite in closed form: how busy the links of each level are for a byte, and the time of the first
// slice from end to end.
//
// The model. Levels overlap, because slices of a chunk move on as soon as they arrive. So the busiest link of any level
// determines the time; before and after that link's work one slice passes the other levels. A ring is different: it has
// as many steps as hosts, and while a link is busy with earlier chunks these steps cost nothing; but the last chunk of
// one root passes them all.
//     time = max(busiest link of hosts or network, the ring's chain) + latencies and one slice per step of the rest
// A slice of a chunk passes a connection after the previous slices of all chunks. If chunks at different stages share
// connections (all collectives but a Broadcast or Reduce whose chunks pass every connection at one depth), a chunk of n
// slices takes n times the whole path, if that is longer. Composite::frames makes chunks small to avoid this. Frames
// begin one after the other, and chunks may return to a root's host late: the second slices of all chunks wait for the
// first ones of these, and each further slice takes the whole path in addition. Links also wait for chunks of
// AllGather, ReduceScatter and AllReduce and for what returns to a root's host, the less the more frames there are, and
// NICs for the messages of steps (Gaps, compose/cost/waiting.h). A connection has few slots, of short slices more
// between hosts than on them, and a slice takes one, however short it is: with short slices its link waits for one to
// be free again, a good while before the slots are too few on average. Slices are divided among lanes as in a
// simulation with SimulationOptions::lane_bytes. No term grows with chunks or ranks: loads are summed over one
// representative of the chunks with the same path.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compose/form/composite.h"
#include "schedule/edge_index.h"
#include "schedule/simulation/simulate.h"
#include "topology/symmetry/cluster.h"

namespace sccl::compose {

struct Phase {
  int steps = 0;
  double alpha_us = 0;                // of a step
  double us_per_byte = 0;             // of a slice on one lane
  double link_us_per_byte = 0;        // on all lanes of a link together
  int connections = 1;                // that share the busiest link, each with slots of its own
  int slots = schedule::kShortSlots;  // of a connection, for slices of at most kLaneBytes

  double slice_us(double slice) const;
  double time_us(double slice) const { return steps * (alpha_us + slice_us(slice)); }
  // How many times longer a link takes because its connections, so many, have no free slot until a slice has arrived;
  // below 1: slots are free in time.
  double stretch(double slice, int sharing) const;
};

// From a device of a host to another one, and what it passes.
struct Connection {
  double alpha_us = 0;
  double us_per_byte = 0;  // on one lane
  int lanes = 1;
  int slots = schedule::kShortSlots;  // of each lane, for slices of at most kLaneBytes
  double bytes = 0;                   // per byte of L

  // Compares connections: the time of slices that are hardly longer than nothing.
  double short_slices_us() const { return bytes * alpha_us / (slots * lanes); }
  // A slice takes a slot until it has arrived. The first slices find slots free.
  double us(double bytes_of_call, double slice) const;
};

// How long NICs stand idle because messages of a step wait for those of the step before. Other frames that are under
// way fill the gaps, and further messages of the step.
struct Gaps {
  // Messages of a step come from the step before; of frames that follow one another in each step, from frames before.
  enum class Frames : std::uint8_t { steps_apart, in_each_step };

  Frames frames = Frames::steps_apart;
  double steps = 0;             // of all frames; in each step: the number of frames
  double messages_of_step = 0;  // that pass the busiest link between hosts
  double messages_in_line = 0;  // of these, on one connection; not used in each step
  double least = 0;             // of a step, in latencies, however long its messages are

  double us(const Phase& between_hosts, double slice) const;
};

struct Cost {
  double network_us_per_byte = 0;  // of the busiest link between hosts, per byte of L (schedule/simulation/cost.h)
  double one_connection_us_per_byte = 0;  // of the busiest link between hosts that a single connection uses
  double host_us_per_byte = 0;            // of the busiest link within a host
  Connection on_host_connection;          // that takes the longest for short slices
  Phase on_host;                          // steps of all phases on the hosts together
  double least_us = 0;                    // however little data there is
  Phase between_hosts;
  bool chained = false;          // steps between hosts overlap one another (rings, grids)
  bool one_depth = false;        // all chunks pass a connection at the same depth of their path
  bool own_connections = false;  // each pair of ranks has one for the few messages between them: slots are free
  bool nothing_returns = false;  // to a root's host
  bool sums = false;             // of all ranks' data
  bool late_chunks = false;      // some chunks leave ranks long after others
  // compose/cost/waiting.h
  double waiting_us_per_byte = 0;  // of the busiest links
  Gaps gaps;                       // between frames, of AllGather, ReduceScatter and AllReduce
  int steps_of_frames = 0;         // between the first frame's beginning and the last one's, where links wait for steps
  int frames = 1;
  // Where chunks of frames follow one another at once, however short they are: of the time, each time that they are
  // half as long as the least slice.
  double short_chunk = 0;
  double chunk_per_byte = 1;  // a chunk's part of L
  // Of one call, at the host that has most: the messages that leave it, where what a rank sends to another in one step
  // is one message; and the chunks that pass from rank to rank there.
  double messages_between_hosts = 0;
  double messages_on_host = 0;

  // The same where connections on hosts and between them have so many slots for short slices.
  Cost with_slots(int on_host_slots, int network_slots) const;
  // The same before it is known whether chunks wait for one another, or for slots on hosts.
  Cost without_waiting() const;

  double busy_us(double bytes) const;
  // Slices are at most `slice_bytes` long, and at most as long as a chunk.
  double time_us(double bytes, double slice_bytes) const;
  double time_of_links_us(double bytes, double slice_bytes) const;
  // The largest slice, most_slice_bytes or this halved down to 4 KiB, or three quarters of one of these, whose time is
  // within half a percent of the minimum.
  double good_slice(double bytes, double most_slice_bytes) const;
};

class KnownHosts;

// Made once per cluster; computes the cost of any number of composites on it.
class CostModel {
 public:
  CostModel(std::shared_ptr<const topology::Topology> topology, std::shared_ptr<const topology::Cluster> cluster);
  CostModel(const CostModel& other);  // knows no composite
  CostModel& operator=(const CostModel&) = delete;
  ~CostModel();

  // Throws invalid_argument when a used link has no bandwidth.
  Cost cost(const Composite& composite);

  const topology::Cluster& cluster() const { return *cluster_; }
  const topology::Topology& topology() const { return *topology_; }
  const schedule::EdgeIndex& edges() const { return edges_; }
  topology::NetworkWays& ways() { return ways_; }

 private:
  friend class Loads;
  std::shared_ptr<const topology::Topology> topology_;
  std::shared_ptr<const topology::Cluster> cluster_;
  schedule::EdgeIndex edges_;
  topology::NetworkWays ways_;
  std::unique_ptr<KnownHosts> known_;
};

}  // namespace sccl::compose
