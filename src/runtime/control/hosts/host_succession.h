// Which of a host's agents works, as one agent sees it: the lowest rank's first, the next one's when that has retired,
// when its process has ended, or when it has made no turn for too long. All agents of the host read and write the same
// words (state/mirror.h), and of several that would take over one does.
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

  // `all`: of this host, in ascending order. `longest_silence`: so long a working agent may make no turn.
  Succession(Rank own, std::vector<Candidate> all, const MirrorTable& words, std::chrono::milliseconds longest_silence)
      : own_(own), all_(std::move(all)), words_(words), longest_silence_(longest_silence) {}

  bool leads() const { return leads_; }
  // True: this agent works from now on.
  bool try_to_lead();
  // Without asking: nobody else is there.
  void lead();
  // While this process was stopped, another agent may have taken its place.
  bool was_replaced() const { return leads_ && words_.leader().load(std::memory_order_relaxed) != own_; }
  // This agent works no more, and may have written old values since its successor began.
  void step_down();
  // Since the last question, some agent has stepped down: old values may stand in the mirrors.
  bool has_doubts();
  // This agent has made a turn; the first time when it has met all other hosts.
  void beat() const { words_.beat().store(monotonic_us(), std::memory_order_relaxed); }

  // Every lower rank of this host has retired or ended.
  bool is_first() const;
  // So has every other one.
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
