// Finds better schedules while calls go on. Rank 0 looks up or synthesizes schedules, in a thread of lowest priority.
// All ranks take up new schedules at the same call (schedule_updates.h).
//
// Rank 0 looks first in the user's cache, then in the catalogue that was installed with the library. If both have no
// schedules, it runs a search (synth/pareto.h) within limits of time and memory, and stores the result in the cache.
// One search runs in a process at a time. A search ends at once when its communicator is aborted or destroyed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "portfolio/portfolio.h"
#include "runtime/control/schedule_updates.h"
#include "topology/topology.h"

namespace sccl::runtime {

class BackgroundSynthesis {
 public:
  enum class Part : std::uint8_t { searches, listens };

  // `board` is rank 0's and must outlive this object. Rank 0 searches, the other ranks listen.
  BackgroundSynthesis(topology::Topology topology, ScheduleUpdates& board, Part part);
  ~BackgroundSynthesis();
  BackgroundSynthesis(const BackgroundSynthesis&) = delete;
  BackgroundSynthesis& operator=(const BackgroundSynthesis&) = delete;

  // Asks for better schedules. Repeated requests have no effect.
  void want(Collective collective, Rank root);

  // For rank 0, when it begins call number `call`. In this call every rank must need data of every other rank.
  void announce(std::uint64_t call) {
    if (finished_.load(std::memory_order_acquire) != announced_) announce_finished(call);  // pairs with publish
  }

  // Whether there are schedules to take up when call number `call` begins.
  bool due(std::uint64_t call) const { return board_.due(taken_, call); }
  struct Result {
    Collective collective = Collective::allreduce;
    Rank root = 0;
    std::string origin;                            // "the catalogue"
    std::vector<portfolio::Candidate> candidates;  // verified
  };
  Result take();

  // Ends the search. For any thread.
  void interrupt() { stop_.store(true, std::memory_order_relaxed); }

 private:
  using Task = std::pair<Collective, Rank>;
  void work();
  void perform(const Task& task);
  void publish(const std::string& text);
  void announce_finished(std::uint64_t call);

  const topology::Topology topology_;
  ScheduleUpdates& board_;
  const Part part_;
  std::uint32_t taken_ = 0;
  std::uint32_t announced_ = 0;

  // Shared by the thread that makes calls and the thread that searches.
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> finished_{0};
  std::mutex mutex_;
  std::condition_variable wanted_changed_;
  std::deque<Task> wanted_;
  std::set<Task> asked_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace sccl::runtime
