// Calls that are reduced by the ranks that are there (SCCL_ARRIVAL=eager): the executor's view of the tree.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/control/control_plane.h"
#include "runtime/host/arrival_gate.h"
#include "runtime/host/health/progress.h"
#include "runtime/membership/membership.h"
#include "runtime/program/eager_tree.h"

namespace sccl::runtime {

class EagerCalls {
 public:
  // `membership` must outlive this object.
  explicit EagerCalls(const Membership& membership);

  bool exist() const { return tree_ != nullptr; }
  // Whether the tree serves the call of that number.
  bool serve(const CollectiveRequest& request, std::uint64_t sequence) const {
    return tree_ && is_wanted(request, sequence) && tree_->serves(request);
  }
  // For ArrivalGate: the next call may be served otherwise than the same call before.
  bool has_news() const { return gate_ && gate_->has_news(); }
  // This rank is about to enter a call whose arrivals are measured.
  void note_measured(const CallSignature& call) {
    if (gate_) gate_->decide(call);
  }
  // `sequence`: the call's number.
  void begin(const CollectiveRequest& request, std::uint64_t sequence);
  // A call of that number begins, served by the tree or not.
  void note_begin(std::uint64_t sequence) {
    if (gate_) gate_->note_begin(sequence);
  }
  // A call has begun and has not ended.
  bool is_active() const { return sequence_ != 0; }
  // Some work on a slice. Waits for nobody. After Progress::done the call is not active any more.
  Progress step();
  // The ranks that have not come. When all have: the ranks that have not ended the call, because any of them may have
  // the next node to evaluate.
  std::vector<LaneWait> waits() const;

 private:
  bool is_wanted(const CollectiveRequest& request, std::uint64_t sequence) const;

  const Membership& membership_;
  const std::unique_ptr<EagerTree> tree_;
  const std::unique_ptr<ArrivalGate> gate_;  // with SCCL_ARRIVAL=auto
  std::uint64_t sequence_ = 0;               // of the active call
  int told_ = 0;                             // see EagerTree::news
};

}  // namespace sccl::runtime
