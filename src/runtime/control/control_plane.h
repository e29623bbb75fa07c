// Everything that the ranks of a communicator tell each other outside of messages, as one rank sees and says it. All
// of it is memory that this process reads and writes in place (members.h), so nothing here waits or makes a system
// call but wake-ups. No code outside of this room knows how a peer's state is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/control/boards.h"
#include "runtime/control/calls.h"
#include "runtime/control/members.h"
#include "runtime/control/peer_health.h"
#include "runtime/control/schedule_updates.h"
#include "runtime/control/state/plan_board.h"
#include "runtime/control/withdrawal.h"

namespace sccl::runtime {

// The words on which ranks sleep.
class Bells {
 public:
  explicit Bells(const Members& members) : members_(members) {}

  host::Doorbell& own() const { return members_.own().bell; }
  host::Doorbell& of(Rank rank) const { return members_.state(rank).bell; }
  // What this rank has stored is visible to the rank, or to all, and a sleeper looks for it.
  void wake(Rank rank) const;
  void wake_all() const;

 private:
  const Members& members_;
};

// When ranks began and ended calls that are timed. A number is reused after kKept later ones.
class Trials {
 public:
  static constexpr std::size_t kKept = SharedState::kTrials;

  explicit Trials(const Members& members) : members_(members) {}

  // Points of this host's clock. No order: the ranks' calls in between make sure that the record is written before any
  // rank asks for it.
  void publish(std::uint64_t number, std::uint64_t begin_ns, std::uint64_t end_ns);
  // From the last rank's beginning to the last one's end; a rank of another host counts with its own duration. Nothing
  // where some rank's record is of another trial.
  std::optional<std::uint64_t> span_ns(std::uint64_t number) const;

  // The same for ranks that come at different times, in order: a duration alone, which may be replaced while it is
  // read.
  void publish_duration(std::uint64_t number, std::uint64_t ns);
  enum class Found : std::uint8_t { not_yet, complete, replaced };
  // The least of all ranks' durations.
  Found least_duration(std::uint64_t number, std::uint64_t& ns) const;

 private:
  const Members& members_;
};

class ControlPlane {
 public:
  ControlPlane() : ControlPlane(0, {}) {}
  // `updates`: what rank 0 writes and all ranks read, null where nothing is synthesized.
  ControlPlane(Rank rank, std::vector<Member> members, ScheduleUpdates* updates = nullptr)
      : members_(std::make_unique<Members>(rank, std::move(members))), updates_(updates) {}

  Calls calls() const { return Calls(*members_); }
  PeerHealth health() const { return PeerHealth(*members_); }
  Boards boards() const { return Boards(*members_); }
  Withdrawal withdrawal() const { return Withdrawal(*members_); }
  Bells bells() const { return Bells(*members_); }
  Trials trials() const { return Trials(*members_); }
  ScheduleUpdates* updates() const { return updates_; }
  // Of all ranks of this host: in the memory of the first of them.
  PlanBoard& plans() const;

  const Members& members() const { return *members_; }
  // Before anything is told over hosts.
  void set_agent_bell(std::shared_ptr<const AgentBell> bell) { members_->agent_bell = std::move(bell); }

 private:
  std::unique_ptr<Members> members_;  // stays where it is when the plane moves
  ScheduleUpdates* updates_;
};

}  // namespace sccl::runtime
