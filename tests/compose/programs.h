// The programs of all ranks of a composite, each made from the composite alone.
#pragma once

#include "compose/lowering/rank_parts.h"
#include "schedule/lowering/lower.h"

namespace sccl {

inline schedule::Program programs(const compose::RankParts& parts, schedule::Forwarding forwarding) {
  schedule::Program program;
  for (Rank rank = 0; rank < parts.composite().ranks(); ++rank) {
    const schedule::RankPart part = parts.of(rank);
    program.ranks.push_back(schedule::lower(part, forwarding));
    schedule::number_chunks(program.ranks.back(), part.chunks);
  }
  return program;
}

}  // namespace sccl
