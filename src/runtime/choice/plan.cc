#include "runtime/choice/plan.h"

#include <numeric>
#include <utility>

namespace sccl::runtime {

Plan::Plan(schedule::Schedule made, kernels::FlatProgram part)
    : layout(schedule::layout_of(made)),
      chunks(static_cast<std::size_t>(made.chunks)),
      flat(std::move(made)),
      program(std::move(part)),
      may_lend(program.may_lend()) {
  std::iota(chunks.begin(), chunks.end(), 0);
}

Plan::Plan(schedule::ChunkLayout places, std::vector<schedule::ChunkId> of_rank, std::uint64_t order,
           kernels::FlatProgram part)
    : layout(std::move(places)),
      chunks(std::move(of_rank)),
      program(std::move(part)),
      may_lend(program.may_lend()),
      order_(order) {}

std::uint64_t Plan::sum_order(schedule::Stars stars) const {
  if (flat) return schedule::sum_order(*flat, stars);
  return info(layout.collective).reduces ? order_ : 0;
}

}  // namespace sccl::runtime
