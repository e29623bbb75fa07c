// What single ranks do in a composite, for lowering: both ends of a send derive it from the composite alone, and no
// rank builds the flat form.
#pragma once

#include "compose/form/composite.h"
#include "compose/proof/verify.h"
#include "schedule/layout.h"
#include "schedule/lowering/rank_part.h"

namespace sccl::compose {

class RankParts {
 public:
  explicit RankParts(Verified composite) : composite_(std::move(composite)), routes_(*composite_) {}

  // Equals the rank's part of the flat form. Takes time and memory linear in the moves of the rank and in the chunks
  // that its host passes (AlltoAll, Gather, Scatter) or all hosts pass (other collectives), apart from sorting.
  schedule::RankPart of(Rank rank) const;

  const Composite& composite() const { return *composite_; }
  Step steps() const { return routes_.steps(); }
  schedule::ChunkLayout layout() const { return {composite_->collective, composite_->ranks(), routes_.chunks(), {}}; }

 private:
  Verified composite_;
  Routes routes_;
};

}  // namespace sccl::compose
