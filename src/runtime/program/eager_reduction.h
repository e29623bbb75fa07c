// Reductions by the ranks that are there (kernels/host/arrival/arrival_reduction.h): which calls a form serves, and
// where the ranks of a host share its memory.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kernels/host/arrival/arrival_reduction.h"
#include "runtime/call/requests.h"
#include "runtime/settings/settings.h"
#include "runtime/transport/shm/memory_layout.h"
#include "runtime/transport/shm/peer.h"

namespace sccl::runtime {

// The ranks of a communicator, as one of them sees them.
struct ArrivalPlace {
  Rank rank = 0;
  int ranks = 1;
  std::vector<Rank> beside;  // of this host, ascending; the first one joins the hosts
  bool over_hosts() const { return beside.size() < static_cast<std::size_t>(ranks); }
  bool joins_hosts() const { return over_hosts() && beside.front() == rank; }
};

class EagerReduction {
 public:
  // Null if no form is asked for, or the layout has no memory for one.
  static std::unique_ptr<EagerReduction> of(const Settings& settings, const MemoryLayout& layout,
                                            const std::vector<Peer>& peers, const ArrivalPlace& place);
  EagerReduction(const Settings& settings, const MemoryLayout& layout, const std::vector<Peer>& peers,
                 const ArrivalPlace& place);

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
  // Ranks in it are those of the communicator.
  News take_news();

  // For the rank that joins the hosts: the sums of a block of slices. The blocks follow from the call alone, so that
  // all hosts exchange the same ones. Null while some sum of the block is missing.
  struct Block {
    std::byte* sums = nullptr;
    std::size_t elements = 0;
  };
  bool has_published_all() const { return published_ == reduction_->slices(); }
  Block next_block();
  // The block holds results.
  void publish_block();

 private:
  kernels::ArrivalCall::Wanted wanted(const CollectiveRequest& request) const;
  kernels::ArrivalCall::Stores stores(const CollectiveRequest& request) const;
  std::size_t block_end() const;
  bool lies_together() const;
  enum class Copy : std::uint8_t { out, back };
  void copy_block(Copy direction);

  ArrivalForm form_;  // `automatic` uses the chain
  std::unique_ptr<kernels::ArrivalReduction> reduction_;
  Rank rank_;
  int ranks_;
  std::vector<Rank> beside_;  // of this host
  bool over_hosts_;
  std::vector<std::byte> block_;  // a copy of sums that do not lie together
  bool is_copied_ = false;
  std::size_t element_bytes_ = 1;  // of the call
  std::size_t published_ = 0;      // slices of the call, by the rank that joins the hosts
  std::size_t summed_ = 0;         // likewise: their sums have been seen
  std::size_t most_bytes_;
  std::size_t stream_bytes_;
};

}  // namespace sccl::runtime
