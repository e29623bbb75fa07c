// Calls that are reduced by the ranks that are there (SCCL_ARRIVAL=eager): the executor's view of the tree.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/control/control_plane.h"
#include "runtime/host/health/progress.h"
#include "runtime/membership/membership.h"
#include "runtime/program/eager_tree.h"

namespace sccl::runtime {

class EagerCalls {
 public:
  // `membership` must outlive this object.
  explicit EagerCalls(const Membership& membership);

  bool exist() const { return tree_ != nullptr; }
  bool serve(const CollectiveRequest& request) const { return tree_ && tree_->serves(request); }
  // `sequence`: the call's number.
  void begin(const CollectiveRequest& request, std::uint64_t sequence);
  // A call has begun and has not ended.
  bool is_active() const { return sequence_ != 0; }
  // Some work on a slice. Waits for nobody. After Progress::done the call is not active any more.
  Progress step();
  // The ranks that have not come. When all have: the ranks that have not ended the call, because any of them may have
  // the next node to evaluate.
  std::vector<LaneWait> waits() const;

 private:
  const Membership& membership_;
  const std::unique_ptr<EagerTree> tree_;
  std::uint64_t sequence_ = 0;  // of the active call
  int told_ = 0;                // see EagerTree::news
};

}  // namespace sccl::runtime
