// Reductions by the ranks that are there (kernels/host/arrival_reduction.h): which calls a form serves, and where the
// ranks of a communicator share its memory.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kernels/host/arrival_reduction.h"
#include "runtime/call/requests.h"
#include "runtime/settings/settings.h"
#include "runtime/transport/shm/memory_layout.h"
#include "runtime/transport/shm/peer.h"

namespace sccl::runtime {

class EagerReduction {
 public:
  // Null if no form is asked for, or the layout has no memory for one.
  static std::unique_ptr<EagerReduction> of(const Settings& settings, const MemoryLayout& layout,
                                            const std::vector<Peer>& peers, Rank rank);
  EagerReduction(const Settings& settings, const MemoryLayout& layout, const std::vector<Peer>& peers, Rank rank);

  // For users and traces.
  std::string_view name() const;
  std::size_t most_bytes() const { return most_bytes_; }
  // Whether the bits of sums of floats may depend on who comes when.
  bool may_change_order() const { return form_ != ArrivalForm::eager; }
  // Follows from the call alone, so that all ranks agree.
  bool serves(const CollectiveRequest& request) const;
  void begin(const CollectiveRequest& request);
  using Step = kernels::ArrivalReduction::Step;
  using News = kernels::ArrivalReduction::News;
  Step step() { return reduction_->step(); }
  News take_news() { return reduction_->take_news(); }

 private:
  kernels::ArrivalCall::Wanted wanted(const CollectiveRequest& request) const;
  kernels::ArrivalCall::Stores stores(const CollectiveRequest& request) const;

  ArrivalForm form_;  // `automatic` uses the chain
  std::unique_ptr<kernels::ArrivalReduction> reduction_;
  Rank rank_;
  int ranks_;
  std::size_t most_bytes_;
  std::size_t stream_bytes_;
};

}  // namespace sccl::runtime
