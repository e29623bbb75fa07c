// Decides which agent of a host works. The agent of the lowest rank works first. The agent of the next rank takes over
// if the working agent has retired, if its process has ended, or if it has made no turn for too long. All agents of the
// host share the words of state/mirror.h, so only one agent takes over even if several try.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "platform/host/process_life.h"
#include "runtime/control/state/mirror.h"

namespace sccl::runtime::hosts {

class Succession {
 public:
  struct Candidate {
    Rank rank = 0;
    std::shared_ptr<const host::PeerLife> life;  // null: of this process
  };

  // `all`: the ranks of this host, in ascending order. After `longest_silence` without a turn the working agent is
  // replaced.
  Succession(Rank own, std::vector<Candidate> all, const MirrorTable& words, std::chrono::milliseconds longest_silence)
      : own_(own), all_(std::move(all)), words_(words), longest_silence_(longest_silence) {}

  bool leads() const { return leads_; }
  // True if this agent works from now on.
  bool try_to_lead();
  // Takes over without a check; for the last agent of the host.
  void lead();
  // True if another agent took over while this process was stopped.
  bool was_replaced() const { return leads_ && words_.leader().load(std::memory_order_relaxed) != own_; }
  // This agent stops working. It may have overwritten values of its successor.
  void step_down();
  // True if an agent has stepped down since the last call: the mirrors may hold old values.
  bool has_doubts();
  // Records a turn of this agent. First called when the agent has met all other hosts.
  void beat() const { words_.beat().store(monotonic_us(), std::memory_order_relaxed); }

  // True if every lower rank of this host has retired or ended.
  bool is_first() const;
  // True if every other rank of this host has.
  bool is_alone() const;

 private:
  bool has_left(const Candidate& one) const;
  bool is_due(Rank seen) const;

  Rank own_;
  std::vector<Candidate> all_;
  MirrorTable words_;
  std::chrono::milliseconds longest_silence_;
  bool leads_ = false;
  std::uint32_t doubts_ = 0;  // as of the last question
};

}  // namespace sccl::runtime::hosts
