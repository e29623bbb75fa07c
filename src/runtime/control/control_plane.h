// Everything that the ranks of a communicator tell each other outside of messages, from the view of one rank. All state
// is memory that this process reads and writes in place (members.h). So no function here waits, and only wake-ups make
// system calls. Code outside of this folder does not know how a peer's state is kept.
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

// The doorbells of the ranks.
class Bells {
 public:
  explicit Bells(const Members& members) : members_(members) {}

  host::Doorbell& own() const { return members_.own().bell; }
  host::Doorbell& of(Rank rank) const { return members_.state(rank).bell; }
  // Of all ranks of this host: wake_all() wakes those that sleep at it, too, by one system call. It lies in the memory
  // of the host's first rank.
  host::Doorbell& of_host() const { return members_.first_on_host().of_host.bell; }
  // Make this rank's stores visible to one rank or to all ranks, and wake sleepers, which then look for the stores.
  void wake(Rank rank) const;
  void wake_all() const;

 private:
  const Members& members_;
};

// The times at which ranks began and ended measured calls (trials). A trial's record is reused after kKept later
// trials.
class Trials {
 public:
  static constexpr std::size_t kKept = SharedState::kTrials;

  explicit Trials(const Members& members) : members_(members) {}

  // `begin_ns` and `end_ns` are times of this host's clock. The stores need no order: the ranks make calls in between,
  // so the record is written before any rank reads it.
  void publish(std::uint64_t number, std::uint64_t begin_ns, std::uint64_t end_ns);
  // The time from the last rank's begin to the last rank's end. Ranks of other hosts count with their durations only.
  // Nothing if a rank's record belongs to another trial.
  std::optional<std::uint64_t> span_ns(std::uint64_t number) const;

  // For ranks that publish at different times: only a duration, with ordered stores. A later trial may replace the
  // duration while it is read.
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
  // Rank 0 writes `updates` and all ranks read them. Null without background synthesis.
  ControlPlane(Rank rank, std::vector<Member> members, ScheduleUpdates* updates = nullptr)
      : members_(std::make_unique<Members>(rank, std::move(members))), updates_(updates) {}

  Calls calls() const { return Calls(*members_); }
  PeerHealth health() const { return PeerHealth(*members_); }
  Boards boards() const { return Boards(*members_); }
  Withdrawal withdrawal() const { return Withdrawal(*members_); }
  Bells bells() const { return Bells(*members_); }
  Trials trials() const { return Trials(*members_); }
  ScheduleUpdates* updates() const { return updates_; }
  // Of rank 0, which shares memory with this rank.
  ArrivalWords& arrival_words() const { return members_->state(0).arrival.words; }
  // The plan board of all ranks of this host. It lies in the memory of the host's first rank.
  PlanBoard& plans() const { return members_->first_on_host().of_host.plans; }

  const Members& members() const { return *members_; }
  // Called before any state is passed between hosts.
  void set_agent_bell(std::shared_ptr<const AgentBell> bell) { members_->agent_bell = std::move(bell); }
  // The same. See Members::host_timeout.
  void set_host_timeout(std::chrono::milliseconds timeout) { members_->host_timeout = timeout; }
  // Called before the first call. See Members::parents_ranks.
  void set_parents_ranks(std::vector<Rank> ranks) { members_->parents_ranks = std::move(ranks); }

 private:
  std::unique_ptr<Members> members_;  // keeps its address when the ControlPlane moves
  ScheduleUpdates* updates_;
};

}  // namespace sccl::runtime
