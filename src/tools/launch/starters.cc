#include "tools/launch/starters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace sccl::tools {
namespace {

// Variables of the rank and the number of ranks, in the job and on its host.
struct Starter {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;  // null: not told
};

// Several may be there, as with mpirun in a Slurm job: who starts processes inside the other one comes first.
constexpr std::array<Starter, 5> kStarters{{
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
}};

bool read(const char* name, int& value) {
  const char* const text = name == nullptr ? nullptr : std::getenv(name);
  if (text == nullptr) return false;
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  return error == std::errc() && end == view.data() + view.size();
}

// "4" or "4(x2),3": tasks of each node of a Slurm step.
int slurm_tasks_here(int local_rank) {
  const char* const text = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  int node = 0;
  if (text == nullptr || !read("SLURM_NODEID", node)) return local_rank + 1;
  for (std::string_view rest(text); !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    int tasks = 0;
    int nodes = 1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), tasks);
    if (error != std::errc()) break;
    const std::string_view repeat(end, static_cast<std::size_t>(part.data() + part.size() - end));
    if (repeat.starts_with("(x")) std::from_chars(repeat.data() + 2, repeat.data() + repeat.size(), nodes);
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return local_rank + 1;
}

}  // namespace

std::optional<StartedAs> started_as() {
  for (const Starter& starter : kStarters) {
    StartedAs as{starter.name, 0, 0, 0, 0};
    if (!read(starter.rank, as.rank) || !read(starter.ranks, as.ranks) || as.rank < 0 || as.rank >= as.ranks) continue;
    if (!read(starter.local_rank, as.local_rank)) continue;
    if (!read(starter.local_ranks, as.local_ranks)) as.local_ranks = slurm_tasks_here(as.local_rank);
    return as;
  }
  return std::nullopt;
}

}  // namespace sccl::tools
