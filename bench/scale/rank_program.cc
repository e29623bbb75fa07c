// What one rank's program costs on clusters of many ranks: the time to choose among composites when a collective is
// first called, then the time and the peak of memory to make the chosen composite's program for one rank.
// Usage: rank_program [TOPOLOGY]... > docs/results/rank_program.md
//
// The choice and the program are made by the functions that a communicator calls. Memory is what they allocate and have
// not freed at the worst moment.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "compose/lowering/rank_parts.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/schedule_model.h"
#include "topology/presets.h"

namespace {

std::atomic<std::size_t> allocated{0};
std::atomic<std::size_t> most{0};

void* allocate(std::size_t bytes) {
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t now = allocated += ::malloc_usable_size(memory);
  if (now > most) most = now;
  return memory;
}

void release(void* memory) noexcept {
  allocated -= memory == nullptr ? 0 : ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }

namespace {

using namespace sccl;
using Clock = std::chrono::steady_clock;

constexpr Collective kCollectives[] = {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                                       Collective::broadcast, Collective::reduce,    Collective::alltoall,
                                       Collective::gather,    Collective::scatter};
constexpr int kRepeats = 5;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "an unknown processor";
}

struct Row {
  std::string schedule;
  double choice_ms = 0;
  double program_ms = 0;
  double most_mb = 0;
  std::size_t moves = 0;
  std::size_t operations = 0;
};

std::size_t operations_of(const runtime::Plan& plan) {
  const device::Program program = plan.program.view();
  std::size_t count = 0;
  for (device::u32 lane = 0; lane < program.lane_count; ++lane) count += program.lanes[lane].op_count;
  return count;
}

Row measure(const topology::Topology& machine, runtime::ScheduleModel& model, Collective collective, Rank rank) {
  Row row;
  // 64 MiB in the larger of a rank's buffers.
  const bool shares =
      collective == Collective::allreduce || collective == Collective::broadcast || collective == Collective::reduce;
  const std::size_t bytes = (std::size_t{64} << 20) / (shares ? 1 : static_cast<std::size_t>(machine.ranks));
  auto begin = Clock::now();
  row.schedule = model.ranking(collective, 0, bytes, runtime::Settings{}).front().name;
  row.choice_ms = ms_since(begin);
  const runtime::Choice choice{row.schedule};
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    runtime::PlanCache plans(rank, machine.ranks);
    const std::size_t before = allocated;
    most = before;
    begin = Clock::now();
    const runtime::Plan& plan = plans.find(collective, 0, choice, &model);
    const double ms = ms_since(begin);
    row.program_ms = repeat == 0 ? ms : std::min(row.program_ms, ms);
    row.most_mb = static_cast<double>(most - before) / 1e6;
    row.operations = operations_of(plan);
  }
  row.moves = compose::RankParts(*model.composite(collective, 0, row.schedule)).of(rank).messages.size();
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty())
    names = {"16*dgx-a100", "8*mi250x", "256*dgx-a100", "128*mi250x", "256*mi250x", "2048*dgx-a100", "1024*mi250x"};
  try {
    std::printf(
        "# One rank's program on large clusters\n\n"
        "`build/release/bench/bench_rank_program > docs/results/rank_program.md` on %s; one thread.\n\n"
        "Calls with 64 MiB in the larger of a rank's buffers. *Choice*: the first call of a collective plans and "
        "verifies the composites and takes the one that is predicted fastest; later sizes only compare. *Program*: "
        "verified again, lowered for the rank in the middle of the cluster, least of %d runs. *Peak*: memory allocated "
        "meanwhile and not yet freed, the finished program included.\n\n",
        processor().c_str(), kRepeats);
    std::printf(
        "| cluster | ranks | collective | schedule | choice, ms | program, ms | peak, MB | sends and receives | "
        "operations |\n|---|---|---|---|---|---|---|---|---|\n");
    for (const std::string& name : names) {
      const topology::Topology machine = topology::preset(name);
      runtime::ScheduleModel model(machine, portfolio::Pipeline{});
      for (const Collective collective : kCollectives) {
        const Row row = measure(machine, model, collective, machine.ranks / 2);
        std::printf("| %s | %d | %s | %s | %.1f | %.1f | %.1f | %zu | %zu |\n", name.c_str(), machine.ranks,
                    std::string(info(collective).name).c_str(), row.schedule.c_str(), row.choice_ms, row.program_ms,
                    row.most_mb, row.moves, row.operations);
        std::fflush(stdout);
      }
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "rank_program: %s\n", error.what());
    return 1;
  }
  return 0;
}
