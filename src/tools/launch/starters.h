// Programs that start the processes of a job tell each of them in variables which rank it is.
#pragma once

#include <optional>
#include <string>

namespace sccl::tools {

struct StartedAs {
  std::string starter;  // "Slurm"
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  int local_ranks = 1;
};

// Of Slurm's srun, Open MPI, MPICH and torchrun the first whose variables are there and make sense; none: this process
// is no rank.
std::optional<StartedAs> started_as();

}  // namespace sccl::tools
