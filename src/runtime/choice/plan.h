// What serves a call at one rank: the rank's program, the places of the chunks that the program names, and what tells
// plans apart whose results differ in bits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/program/flat_program.h"
#include "schedule/layout.h"
#include "schedule/lowering/sum_order.h"
#include "schedule/schedule.h"

namespace sccl::runtime {

struct Plan {
  // Of a flat schedule. The program names chunks by their own numbers.
  Plan(schedule::Schedule made, kernels::FlatProgram part);
  // Of a composite, for this rank alone. The program names chunks by their positions in `of_rank`. `order` identifies
  // the composite.
  Plan(schedule::ChunkLayout places, std::vector<schedule::ChunkId> of_rank, std::uint64_t order,
       kernels::FlatProgram part);

  // Equal for plans whose results have the same bits (schedule/lowering/sum_order.h). No other plan has the order of a
  // composite that reduces: its partial sums depend on how data travels.
  std::uint64_t sum_order(schedule::Stars stars) const;

  schedule::ChunkLayout layout;
  std::vector<schedule::ChunkId> chunks;   // of the call's chunks, in the program's order
  std::optional<schedule::Schedule> flat;  // of all ranks; without its topology if another rank made the plan
  kernels::FlatProgram program;
  bool may_lend;  // program.may_lend()

 private:
  std::uint64_t order_ = 0;
};

}  // namespace sccl::runtime
