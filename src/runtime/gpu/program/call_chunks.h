// Where the chunks of a collective lie in its buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/device/program.h"
#include "runtime/choice/plan_cache.h"
#include "schedule/layout.h"

namespace sccl::runtime {

class CallChunks {
 public:
  // The result is valid until the next call of place().
  const std::vector<device::Chunk>& place(const Plan& plan, std::size_t count, std::size_t element_bytes) {
    // Over all chunks, because ranks cut slices alike.
    longest_ = std::max<std::size_t>(1, schedule::extent_of(plan.layout, count, element_bytes).longest);
    places_.resize(plan.chunks.size());
    schedule::place_chunks(plan.layout, plan.chunks, count, element_bytes, places_);
    chunks_.clear();
    for (const schedule::ChunkPlace& place : places_)
      chunks_.push_back({place.input_offset, place.output_offset, place.elements, 0, 0});
    return chunks_;
  }

  // Elements of the longest chunk of any rank, at least 1, as place() found it.
  std::size_t longest() const { return longest_; }

 private:
  std::size_t longest_ = 1;
  std::vector<schedule::ChunkPlace> places_;
  std::vector<device::Chunk> chunks_;
};

}  // namespace sccl::runtime
