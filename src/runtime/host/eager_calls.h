// Calls that are reduced by the ranks that are there (SCCL_ARRIVAL): the executor's view of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/control/arrivals.h"
#include "runtime/control/control_plane.h"
#include "runtime/host/choosing/arrival_gate.h"
#include "runtime/host/health/progress.h"
#include "runtime/host/host_exchange.h"
#include "runtime/membership/membership.h"
#include "runtime/program/eager_reduction.h"

namespace sccl::runtime {

class EagerCalls {
 public:
  // Both must outlive this object. The parts serve the exchange between hosts.
  EagerCalls(const Membership& membership, const CallParts& parts);

  // Of the form, for traces. Only where a call is served here.
  std::string_view name() const { return reduction_->name(); }
  // Whether the call of that number is served here.
  bool serve(const CollectiveRequest& request, std::uint64_t sequence) const {
    return reduction_ && is_wanted(request, sequence) && reduction_->serves(request);
  }
  // For ArrivalGate: the call of that number may be served otherwise than the same call before.
  bool has_news(std::uint64_t sequence) const { return gate_ && gate_->has_news(sequence); }
  // False while this call, which begins, must wait for a decision of rank 0.
  bool settle(const CallSignature& call) const { return !gate_ || gate_->settle(call); }
  // This rank is about to enter a call whose arrivals are measured.
  void note_measured(const CallSignature& call) {
    if (gate_) gate_->decide(call);
  }
  // For ArrivalGate on one host: whether this rank's calls are weighed. Over hosts every rank's are.
  bool weighs_calls() const { return gate_ && membership_.rank == 0; }
  // This rank leaves a call of which `meter` knows when it was entered.
  void note_left(const CallSignature& call, bool by_arrival, ArrivalMeter& meter, std::uint64_t now_ns);
  void begin(const CollectiveRequest& request, const CallSignature& signature);
  // A call of that number begins, served here or not.
  void note_begin(std::uint64_t sequence) {
    if (gate_) gate_->note_begin(sequence);
  }
  // A call has begun and has not ended.
  bool is_active() const { return sequence_ != 0; }
  // Some work on a slice. Waits for nobody. After Progress::done the call is not active any more.
  Progress step();
  // The ranks of this host that have not come; then those whose messages are missing in an exchange between hosts; then
  // the ranks of other hosts that have not come, and those that join the hosts. When there is none of these: the ranks
  // that have not ended the call, because any of them may have the next addition to do.
  std::vector<LaneWait> waits() const;

 private:
  bool is_wanted(const CollectiveRequest& request, std::uint64_t sequence) const;
  bool may_have_any_order(DataType type, ReduceOp op) const;
  Progress step_here();
  Progress step_between_hosts();
  void tell(EagerReduction::News news) const;

  const Membership& membership_;
  const std::unique_ptr<EagerReduction> reduction_;
  const std::unique_ptr<ArrivalGate> gate_;       // with SCCL_ARRIVAL=auto
  const std::unique_ptr<HostExchange> exchange_;  // at the rank that joins the hosts
  std::uint64_t sequence_ = 0;                    // of the active call
};

}  // namespace sccl::runtime
