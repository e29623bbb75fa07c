// Which calls are reduced by the ranks that are there, where that is decided while the program runs
// (SCCL_ARRIVAL=auto).
//
// Calls are decided on in groups: a collective and a range of sizes. Where ranks come far apart, both forms are tried:
// they take turns, some calls each, and the form whose calls cost less stays. How far apart is the spread of arrivals
// that was measured (control/arrivals.h), as a multiple of the time of one message of that size: the paper's maximum
// imbalance factor.
//
// Rank 0 compares what calls cost itself: the time since the last rank's arrival, and the time that it waited for that.
// Calls in a row take the sum of both. A rank that comes late by itself makes the second part long with any form: each
// part therefore counts up to a limit, which also keeps a few calls in which a rank was without a core from deciding
// alone.
//
// Rank 0 stores a decision when it is about to enter a call whose end needs data of every rank, and the decision
// holds for later calls. A rank that has ended that call has received data which rank 0 sent after the store (release,
// acquire), so every rank sees the decision when it begins a later call. The word keeps the form of earlier calls, too,
// for a rank that has not begun that call: rank 0 decides again only in a later such call.
//
// Over hosts rank 0's data come without its stores, and hosts share no clock: arrival_agreement.h says from which call
// on a decision holds there, arrival_costs.h how calls are compared.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/monotonic.h"
#include "runtime/call/signature.h"
#include "runtime/host/choosing/arrival_agreement.h"
#include "runtime/host/choosing/arrival_costs.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class ArrivalGate {
 public:
  // From so many messages' times on ranks are far enough apart to try; below the other number they have come together.
  struct Threshold {
    double opens = 0;
    double closes = 0;
  };

  // `membership` must outlive this object.
  using Clock = std::uint64_t (*)();
  explicit ArrivalGate(const Membership& membership, Clock clock = monotonic_ns);

  // Whether the call of that number is reduced by the ranks that are there. The same at all ranks.
  bool is_open(Collective collective, std::size_t bytes, std::uint64_t sequence) const;
  // The call of that number may be served otherwise than the same call before: true from when a decision is seen until
  // a call has begun for which it holds.
  bool has_news(std::uint64_t sequence) const {
    if (over_hosts_) return over_hosts_->agreement.is_due(sequence);
    return words_->latest.load(std::memory_order_acquire) != settled_;  // pairs with decide()
  }
  // A call of that number begins.
  void note_begin(std::uint64_t sequence) {
    const std::uint64_t latest = words_->latest.load(std::memory_order_relaxed);
    if (sequence > latest) settled_ = latest;
  }
  // This call begins. False while a decision that holds from this call on is not there: only over hosts.
  bool settle(const CallSignature& call);
  // Rank 0 is about to enter this call, whose arrivals are measured. Does nothing at other ranks.
  void decide(const CallSignature& call);
  // A rank leaves a measured call in which it needed every rank's data: rank 0 or, over hosts, each one.
  struct Left {
    Collective collective = Collective::allreduce;
    std::size_t bytes = 0;
    bool by_arrival = false;  // it was reduced by the ranks that are there
    std::uint64_t entered_ns = 0;
    std::uint64_t last_arrival_ns = 0;  // on one host
    std::uint64_t left_ns = 0;
  };
  void note_left(const Left& left);

 private:
  static constexpr std::size_t kGroups = ArrivalWords::kGroups;
  // A look at the sums takes as long as a few short calls.
  static constexpr std::uint64_t kMeasuredBetweenLooks = 64;
  // A trial: both forms have half of these looks each.
  static constexpr int kTurns = 8;
  // Looks from one trial to the next: where the usual form stays, more each time; where the other one stays.
  static constexpr int kLeastRest = 32;
  static constexpr int kMostRest = 1024;
  static constexpr int kRestWhenOpen = 256;
  // Measured calls of a group, and the sum of their imbalance factors.
  struct Measured {
    double calls = 0;
    double factors = 0;
  };

  // Of calls with the usual form, and of those reduced by the ranks that are there.
  struct Costs {
    std::array<double, 2> calls{};
    std::array<double, 2> messages{};  // times of a message
  };
  struct Group {
    Measured known;                                 // at the last look
    int turns = 0;                                  // looks of a trial that are left
    Costs costs;                                    // in the trial, on one host
    std::vector<ArrivalCosts::Sums> looked, begun;  // over hosts: at the last look, and when the trial began
    int rest = 0;                                   // looks until the next trial
    int next_rest = kLeastRest;
    double tried_factor = 0;  // how far apart ranks were at the last trial
  };

  struct OverHosts {
    ArrivalAgreement agreement;
    ArrivalCosts costs;
    ArrivalAgreement::Forms wanted;  // rank 0's
  };
  // Since the last look. No calls: too few, which the next look has, too.
  struct Look {
    double calls = 0;
    double factor = 0;  // how many times the time of a message ranks come apart
  };

  std::array<Measured, kGroups> measured() const;
  Look look(std::size_t group, const Measured& now);
  Look look_over_hosts(std::size_t group, const Look& here);
  void look_at_all(std::uint64_t sequence);
  void decide_over_hosts(std::uint64_t sequence);
  void decide(std::size_t group, double factor, std::uint64_t sequence);
  void begin_trial(std::size_t group, double factor, std::uint64_t sequence);
  void end_trial(std::size_t group, double factor, std::uint64_t sequence);
  double cost(std::size_t group, std::size_t form) const;
  bool is_open_now(std::size_t group) const;
  void store(std::size_t group, bool opens, std::uint64_t sequence);
  Threshold threshold() const;

  const Membership& membership_;
  const Clock clock_;
  ArrivalWords* words_;                          // in rank 0's memory, or its mirror
  const std::unique_ptr<OverHosts> over_hosts_;  // null on one host
  std::uint64_t settled_ = 0;
  // Of rank 0.
  std::array<Group, kGroups> groups_{};
  std::uint64_t measured_since_look_ = kMeasuredBetweenLooks;
};

}  // namespace sccl::runtime
