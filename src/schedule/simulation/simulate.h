// A discrete-event simulation of a schedule on its topology: the time at which each slice passes each link.
//
// The model. A chunk is cut into slices. A slice leaves a rank when its value is complete there, when the earlier
// messages on the same connection (source, destination) have left, and when the receiver has a free slot. On each link
// of its path it takes the lane that becomes free first, in the order of requests, for bytes / (rate of a lane);
// likewise on a shared set. Long slices take several lanes at once, as if their parts passed different channels. The
// links of one path overlap (cut-through): the head of a slice moves on after the link's latency; a link that is faster
// than the one before it carries other slices between the parts of this one. A connection has slots for every lane of
// its narrowest link, as a program on devices has for each of its channels. At the receiver the slice waits until the
// value that it replaces has been read, is reduced at the rank's rate, and frees its slot. Latency delays a slice but
// does not occupy a link, as in SCCL's S alpha + (R / C) L beta.
//
// Times are whole picoseconds and ties are broken by position, so results are the same on every machine. Cost: O(n log
// t) for n = slices x links of their paths and t different times of pending events; memory O(sends + slices).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "schedule/host_share.h"
#include "schedule/schedule.h"

namespace sccl::schedule {

// What separates steps: only the data (as programs run), or a barrier (as in SCCL's model).
enum class Progress : std::uint8_t { dataflow, stepwise };

// How many slices are under way on a connection of this library at most. Few short slices would leave the link idle
// while they are on their way.
inline constexpr int kSlots = 4;
inline constexpr int kShortSlots = 16;  // if all slices are at most kLaneBytes long

enum class Detail : std::uint8_t { totals, transfers };

// Devices send a part of a message that is at least so long over a channel of its own
// (runtime/gpu/kernel/kernel_calls.cc).
inline constexpr double kLaneBytes = 32 * 1024;

struct SimulationOptions {
  double bytes = 0;        // L of schedule/simulation/cost.h
  double slice_bytes = 0;  // 0: a chunk is one slice
  int slots = 0;           // of a connection, for each lane; 0: unlimited
  // The same if all slices have at most kLaneBytes; 0: as many.
  int short_slots = 0;
  int network_slots = 0;           // the same on a connection that passes a link of class net; 0: as many as `slots`
  double lane_bytes = 0;           // a slice of so many bytes takes two lanes, and so on; 0: it takes one
  double reduce_gbytes_per_s = 0;  // of one rank; 0: reducing takes no time
  Progress progress = Progress::dataflow;
  Detail detail = Detail::transfers;
  double stop_after_us = std::numeric_limits<double>::infinity();  // a schedule that takes longer is of no interest
};

// One slice on one lane of one link.
struct Transfer {
  EdgeId edge = 0;
  int lane = 0;
  int send = 0;  // position in Schedule::sends
  int slice = 0;
  double begin_us = 0;
  double end_us = 0;
};

struct EdgeUse {
  EdgeId edge = 0;
  double bytes = 0;
  double busy_us = 0;  // summed over lanes
  double begin_us = 0;
  double end_us = 0;
};

struct Simulation {
  // If `stopped`: a guess of at least stop_after_us, in proportion to the slices that had arrived by then. It stops as
  // soon as a link has more to pass than the rest of the time allows. The figures of edges and transfers are those
  // until then.
  double time_us = 0;
  bool stopped = false;
  std::int64_t slices = 0;          // number of slices sent
  std::int64_t arrived = 0;         // of these, until it stopped: what the simulation took
  std::vector<EdgeUse> edges;       // used edges, ascending
  std::vector<Transfer> transfers;  // on each link in order of begin_us; empty with Detail::totals
};

// The schedule must have passed verify(). Throws invalid_argument when a used link has no bandwidth, an option is
// negative or not finite, or there are more slices than memory should hold.
Simulation simulate(const Schedule& schedule, const SimulationOptions& options);

// For several simulations of one schedule, which must outlive this object: its dependencies are found once.
class Simulator {
 public:
  explicit Simulator(const Schedule& schedule);
  // Of all hosts, by the one that stands for them.
  explicit Simulator(const HostShare& share);
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  Simulation run(const SimulationOptions& options) const;

 private:
  struct Dependencies;
  const Schedule& schedule_;
  std::unique_ptr<const Dependencies> dependencies_;
};

}  // namespace sccl::schedule
