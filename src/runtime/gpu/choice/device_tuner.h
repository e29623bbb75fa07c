// Measured choices for calls on devices: loads those that an earlier communicator has stored, and with SCCL_TUNE=online
// measures for the next communicator.
//
// A device is given calls long before they run. So at a call no rank knows how long an earlier call took, and ranks
// could not agree on a new choice without waiting for one another. Therefore the number of the call alone says what is
// tried, on every rank alike. In each size class, one call in Autotuner::kPeriod runs another entrant, in turn;
// half-way between two of them the usual entrant is timed; until each has run kRunsOfEntrant times. The usual choice
// serves all other calls.
//
//   call of the size class    1 ... 10 ...... 20 ... 30 ...... 40 ...      (not those inside captures)
//   entrant                   0     0 timed   1      0 timed   2
//
// Two events on each rank's stream time a call. A rank reads them when it makes a later call, and publishes the time. A
// rank's time includes its wait for the other ranks. The rank that came last did not wait, so the least time of all
// ranks counts. Rank 0 gathers the times; when the communicator ends, the fastest entrant of each size class goes into
// the cache (runtime/choice/tuning/tuning_file.h).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/call/requests.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/schedule_model.h"
#include "runtime/choice/tuning/ranking.h"
#include "runtime/choice/tuning/tuning_file.h"
#include "runtime/membership/membership.h"
#include "runtime/vendor/vendor_choice.h"

namespace sccl::runtime {

inline constexpr int kRunsOfEntrant = 6;

// Which entrant runs in a call of a size class. Calls are counted from 1.
struct ExplorationTurn {
  int entrant = 0;
  bool timed = false;
};
ExplorationTurn exploration_turn(std::uint64_t call, int entrants);

class DeviceTuner {
 public:
  // All must outlive this object.
  DeviceTuner(Membership& membership, PlanCache& plans, ScheduleModel* schedule_model, const VendorChoice& vendor);
  // Rank 0 stores what was measured. No kernel is in flight any more.
  ~DeviceTuner();
  DeviceTuner(const DeviceTuner&) = delete;
  DeviceTuner& operator=(const DeviceTuner&) = delete;

  enum class Captured : std::uint8_t { no, yes };
  // For the next collective, of `bytes` > 0. `usual` serves where nothing was measured. All ranks ask alike.
  Choice choose(const CollectiveRequest& request, std::size_t bytes, const Choice& usual, Captured captured);

  // The clock of the call for which choose() was asked last; null: the call is not timed.
  struct Clock {
    void* begin = nullptr;
    void* end = nullptr;
    std::uint64_t trial = 0;      // the trial whose time can be read; 0: none
    std::uint64_t taken_for = 0;  // the trial whose call is prepared; 0: none
  };
  Clock* take_clock();
  // Called before and after the call's launch. Legal only outside of captures.
  void before_launch(Clock* clock, gpu::Stream stream);
  void after_launch(Clock* clock, gpu::Stream stream);

 private:
  struct Samples {
    int count = 0;
    std::uint64_t least_ns = 0;
  };
  struct Entry {
    TuningKey key;
    std::vector<Ranked> entrants;  // the first is the usual choice; only one if nothing is explored
    std::vector<Samples> samples;
    bool measured_before = false;
    std::uint64_t calls = 0;
  };
  struct Trial {
    Entry* entry = nullptr;
    int entrant = 0;
    std::uint64_t number = 0;
  };

  Entry& entry_of(const TuningKey& key, const Choice& usual, bool vendor_serves);
  bool take_measured(Entry& entry, const Question& question, bool vendor_serves);
  void arm(Entry& entry, int entrant);
  void read_clocks();
  void tell(std::uint64_t trial, std::uint64_t ns);
  void gather();
  void store() const;

  Membership& membership_;
  const gpu::Driver& driver_;
  PlanCache& plans_;
  ScheduleModel* schedule_model_;
  const VendorChoice& vendor_;
  std::map<TuningKey, std::unique_ptr<Entry>> entries_;
  std::array<Clock, 16> clocks_{};
  Clock* armed_ = nullptr;  // for the call that was chosen last
  std::uint64_t trials_ = 0;
  std::deque<Trial> pending_;  // only on rank 0
};

}  // namespace sccl::runtime
