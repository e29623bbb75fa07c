// The ranks of the agent's own host: collects the values and ends that the other hosts must learn.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <vector>

#include "platform/host/process_life.h"
#include "runtime/control/hosts/state_changes.h"

namespace sccl::runtime::hosts {

class LocalRanks {
 public:
  // In ascending order. `life`: null for a rank of this process.
  void add(Rank rank, SharedState& state, std::shared_ptr<const host::PeerLife> life);

  bool is_lowest(Rank rank) const { return all_.front().rank == rank; }
  // Calls function(rank) for all.
  template <typename Function>
  void each(Function&& function) const {
    for (const One& one : all_) function(one.rank);
  }

  // Appends what has changed since the last call.
  void collect_changes(Bytes& to);
  // Appends all values, and the ends that were found.
  void collect_all(Bytes& to) const;
  // Appends the last values and the end of each rank whose process has ended since the last call.
  void collect_ends(Bytes& to);

  // True a few times a second: note_stopped() reads files.
  using Clock = std::chrono::steady_clock;
  bool may_look_for_stopped(Clock::time_point now);
  // Looks which processes are stopped, and stores that in the ranks' states.
  void note_stopped();

  // For poll(): descriptors that become readable when the process of a rank ends. Ranks known to have ended are left
  // out.
  void add_poll_entries(std::vector<pollfd>& entries) const;
  // The same for ranks below `rank`.
  void add_poll_entries_below(Rank rank, std::vector<pollfd>& entries) const;
  // Wakes ranks that sleep in a call.
  void ring() const;

 private:
  struct One {
    Rank rank = 0;
    SharedState* state = nullptr;
    std::shared_ptr<const host::PeerLife> life;
    StateChanges changes;
    RemoteEnd end = RemoteEnd::none;
  };

  std::vector<One> all_;
  Clock::time_point next_look_{};
};

}  // namespace sccl::runtime::hosts
