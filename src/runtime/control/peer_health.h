// The health of ranks: the faults that they publish, whether they have left, and whether their processes have ended.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/control/members.h"

namespace sccl::runtime {

class PeerHealth {
 public:
  explicit PeerHealth(const Members& members) : members_(members) {}

  // Publishes this rank's first fault; later faults are dropped. Wakes all ranks.
  void publish_fault(int code, std::string_view text);
  // Tells that this rank has left. A weaker form of leaving than an earlier one is dropped. Wakes all ranks.
  void leave(Presence how);

  bool has_failed(Rank rank) const;
  // Throws the error that the rank failed with, if it has; `prefix` goes before the text.
  void check_fault(Rank rank, const std::string& prefix = "") const;
  void check_all_faults() const;
  // "" if the rank has not failed.
  std::string fault_text(Rank rank) const;
  Presence presence(Rank rank) const {
    return static_cast<Presence>(members_.state(rank).presence.load(std::memory_order_acquire));  // pairs with leave()
  }
  // The rank's process has ended, or exec replaced its program, or its host is lost. Always false for ranks of this
  // process.
  bool has_ended(Rank rank) const;
  // The rank's host has been silent for too long.
  bool is_lost(Rank rank) const;
  // Throws the error for a lost host, if there is one.
  void check_lost(const std::string& waiting_text) const;
  // Over hosts: another number than before means that some rank has failed, left or ended since.
  std::uint32_t news() const { return members_.agent_bell->mirrors.news().load(std::memory_order_acquire); }
  bool is_gone(Rank rank) const { return presence(rank) != Presence::present || has_ended(rank); }

  // The number of the rank's process while a signal or a debugger has stopped it, else 0. Of ranks of other hosts it is
  // known a moment after some rank waits.
  int stopped_process(Rank rank) const;
  // A stopped process keeps all others waiting: which rank's it is, and how to continue it. Nothing if none is stopped.
  std::optional<std::string> stopped_text() const;
  // "rank 3 (process 12 on node1)"; in a child "rank 1 (rank 3 of the parent communicator, process 12 on node1)"
  std::string whereabouts(Rank rank) const;
  // Throws the error for a rank that left while this rank waits for it. `presence` says how the rank left;
  // Presence::present means that the rank's process ended.
  [[noreturn]] void fail_departed(Rank rank, Presence presence, const std::string& waiting_text) const;

 private:
  [[noreturn]] void fail_lost(Rank rank, const std::string& waiting_text) const;

  const Members& members_;
};

const char* name_of(Presence presence);

}  // namespace sccl::runtime
