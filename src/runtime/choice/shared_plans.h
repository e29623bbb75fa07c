// Plans that one rank of a host makes for all (shared_results.h). A plan is the same for all ranks except for their
// parts of the program, and the time to make a plan grows with the square of the ranks. The rank that makes it has
// verified it as always; the other ranks take their parts from it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernels/program/flat_program.h"
#include "runtime/choice/plan.h"
#include "runtime/choice/shared_results.h"
#include "schedule/schedule.h"

namespace sccl::runtime {

// A plan before it is divided among ranks: verified, and lowered when a rank's part is asked for.
struct PreparedPlan {
  // What Plan's second constructor takes, for a composite.
  struct ByRank {
    schedule::ChunkLayout layout;
    std::uint64_t order = 0;
  };
  struct Part {
    std::vector<schedule::ChunkId> chunks;  // only of a composite
    kernels::FlatProgram program;
  };
  std::variant<schedule::Schedule, ByRank> whole;
  std::function<Part(Rank)> part;

  std::unique_ptr<Plan> of(Rank rank) &&;
};

// Plans for the host's own links are shared from this many ranks on. Fewer ranks make them faster than they would wait.
// Plans for other links take longer: they are shared where ranks are more than cores.
inline constexpr int kLeastRanksThatShare = 16;

// The plan of `rank`, which `results` belongs to. `name` identifies the plan, equally at all ranks. Throws the
// exceptions of `make`.
std::unique_ptr<Plan> shared_plan(SharedResults& results, Rank rank, const std::string& name,
                                  const std::function<PreparedPlan()>& make);

}  // namespace sccl::runtime
