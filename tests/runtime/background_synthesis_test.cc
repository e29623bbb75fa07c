// Schedules found in the background: taken up by all ranks at the same call, ended by whoever destroys the
// communicator.
#include "runtime/choice/tuning/background_synthesis.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <thread>

#include "base/settings/log.h"
#include "rank_threads.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/group.h"
#include "synth/cache.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::runtime;

namespace {

namespace fs = std::filesystem;

class Surroundings {
 public:
  Surroundings() {
    std::string pattern = fs::temp_directory_path() / "sccl-deepening-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    ::setenv("SCCL_CACHE_DIR", folder_.c_str(), 1);
  }
  ~Surroundings() {
    for (const char* name :
         {"SCCL_CACHE_DIR", "SCCL_SYNTH_MS", "SCCL_TOPO", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"})
      ::unsetenv(name);
    log::reset();
    fs::remove_all(folder_);
  }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

struct SharedBoard {
  std::vector<std::max_align_t> memory{ScheduleUpdates::kBytes / sizeof(std::max_align_t)};
  ScheduleUpdates& board = *new (memory.data()) ScheduleUpdates;
};

topology::Topology first_of(const char* preset, int ranks) {
  std::vector<int> devices(static_cast<std::size_t>(ranks));
  std::iota(devices.begin(), devices.end(), 0);
  return topology::subset(topology::preset(preset), devices);
}

void announce_when_found(BackgroundSynthesis& searching, const SharedBoard& board, std::uint64_t call) {
  for (int i = 0; i < 6000 && board.board.announced.load() == 0; ++i) {
    searching.announce(call);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(board.board.announced.load() == 1);
}

int times_taken_up(const fs::path& log_file) {
  std::ifstream log(log_file);
  int times = 0;
  for (std::string line; std::getline(log, line);)
    times += line.find("from the cache take part") != std::string::npos ? 1 : 0;
  return times;
}

}  // namespace

TEST_CASE("what was found is taken up one call after it was announced, by all alike") {
  const Surroundings surroundings;
  SharedBoard board;
  const auto topology = first_of("dgx1v", 4);
  BackgroundSynthesis searching(topology, board.board, BackgroundSynthesis::Part::searches);
  BackgroundSynthesis listening(topology, board.board, BackgroundSynthesis::Part::listens);
  searching.want(Collective::allgather, 0);
  searching.want(Collective::allgather, 0);
  listening.want(Collective::allgather, 0);
  CHECK_FALSE(listening.due(1000));
  announce_when_found(searching, board, 7);
  for (BackgroundSynthesis* one : {&searching, &listening}) {
    CHECK_FALSE(one->due(7));
    REQUIRE(one->due(8));
    const BackgroundSynthesis::Result result = one->take();
    CHECK(result.collective == Collective::allgather);
    CHECK(result.origin.starts_with("a search"));
    CHECK(result.candidates.size() >= 2);
    CHECK_FALSE(one->due(9));
  }
  CHECK(synth::Cache(surroundings.folder()).load(topology, Collective::allgather, 0));

  SharedBoard another;
  BackgroundSynthesis next_job(topology, another.board, BackgroundSynthesis::Part::searches);
  next_job.want(Collective::allgather, 0);
  announce_when_found(next_job, another, 1);
  CHECK(next_job.take().origin == "the cache");
}

TEST_CASE("a search ends with its communicator") {
  const Surroundings surroundings;
  SharedBoard board;
  auto searching =
      std::make_unique<BackgroundSynthesis>(topology::preset("dgx2"), board.board, BackgroundSynthesis::Part::searches);
  searching->want(Collective::alltoall, 0);
  searching->want(Collective::allreduce, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  searching.reset();
  CHECK(board.board.announced.load() == 0);
}

TEST_CASE("SCCL_SYNTH_MS=0 searches nothing") {
  const Surroundings surroundings;
  ::setenv("SCCL_SYNTH_MS", "0", 1);
  SharedBoard board;
  BackgroundSynthesis searching(first_of("dgx1v", 4), board.board, BackgroundSynthesis::Part::searches);
  searching.want(Collective::allgather, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  searching.announce(1);
  CHECK_FALSE(searching.due(2));
}

TEST_CASE("calls go on while their schedules change") {
  const Surroundings surroundings;
  const fs::path log_file = surroundings.folder() / "log";
  ::setenv("SCCL_TOPO", "dgx2", 1);
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "TUNING", 1);
  ::setenv("NCCL_DEBUG_FILE", log_file.c_str(), 1);
  log::reset();
  constexpr int kRanks = 9;  // portfolio/ synthesizes nothing for more than 8
  const auto machine = first_of("dgx2", kRanks);
  synth::Synthesizer synthesizer(machine, Collective::allgather, 0);
  synth::ParetoOptions options;
  options.more_steps = 1;
  synth::Limits limits;
  limits.deadline = Deadline::in(std::chrono::seconds(20));
  const auto frontier = synth::pareto(synthesizer, options, limits);
  REQUIRE_FALSE(frontier.points.empty());
  REQUIRE(synth::Cache(surroundings.folder()).store(machine, Collective::allgather, 0, frontier));

  const UniqueId id = create_unique_id();
  const auto errors = run_ranks(kRanks, [&](Rank rank) {
    const auto communicator = std::make_shared<Communicator>(CommunicatorOptions{id, rank, kRanks, 0, -1, "", true});
    submit_init(communicator);
    std::vector<std::int32_t> send(100);
    std::vector<std::int32_t> recv(100 * kRanks);
    // The search may take longer than many calls: rank 0 says with its data when all have taken up what was found.
    bool all_taken_up = false;
    const Deadline limit = Deadline::in(std::chrono::seconds(60));
    for (int call = 0; call < 1500 || !all_taken_up; ++call) {
      send.assign(100, rank * 10000 + call % 10000);
      if (rank == 0) {
        const bool enough = call % 500 == 499 && (times_taken_up(log_file) >= kRanks || limit.passed());
        send[0] = enough ? 1 : 0;
      }
      submit(communicator, {Collective::allgather, send.data(), recv.data(), 100, DataType::int32, {}, 0, nullptr});
      for (int from = 0; from < kRanks; ++from)
        if (recv[static_cast<std::size_t>(from) * 100 + 99] != from * 10000 + call % 10000)
          throw std::runtime_error("wrong data");
      all_taken_up = all_taken_up || recv[0] == 1;
    }
  });
  for (const std::string& error : errors) CHECK(error == "");
  CHECK(times_taken_up(log_file) == kRanks);
}
