// Profiler plugins of every version are told of groups, collectives and transfers; bad ones are left out in one line.
#include <catch2/catch.hpp>

#include "../runtime/rank_threads.h"
#include "plugin_surroundings.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/group.h"

using namespace sccl;
using namespace sccl::runtime;
using plugin_test::Surroundings;

namespace {

constexpr int kRanks = 2;

std::string plugin(const std::string& kind) { return std::string(PLUGIN_FOLDER) + "/libprofiler_" + kind + ".so"; }

// An AllReduce alone, then a group of AllGather, Send and Recv.
void run_calls() {
  const UniqueId id = create_unique_id();
  const auto errors = run_ranks(kRanks, [&](Rank rank) {
    const auto communicator =
        std::make_shared<Communicator>(CommunicatorOptions{id, rank, kRanks, 0, -1, "named", true});
    submit_init(communicator);
    std::vector<float> send(64, static_cast<float>(rank + 1)), recv(128), got(32);
    CollectiveRequest request{Collective::allreduce, send.data(), recv.data(), 64, DataType::float32, {}, 0, nullptr};
    submit(communicator, request);
    if (recv[63] != 3) throw std::runtime_error("AllReduce is wrong");
    group_start();
    request.collective = Collective::allgather;
    submit(communicator, request);
    submit(communicator, PointToPointRequest{Direction::send, send.data(), 32, DataType::float32, 1 - rank, nullptr});
    submit(communicator, PointToPointRequest{Direction::recv, got.data(), 32, DataType::float32, 1 - rank, nullptr});
    group_end();
    if (recv[127] != 2 || got[31] != static_cast<float>(2 - rank)) throw std::runtime_error("the group is wrong");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

int starts(const std::string& log) { return Surroundings::count(log, " start "); }
int stops(const std::string& log) { return Surroundings::count(log, " stop "); }

}  // namespace

TEST_CASE("a profiler plugin of every version sees groups, collectives and transfers, nested as NCCL nests them") {
  for (const int version : {1, 2, 3, 4, 5, 6}) {
    CAPTURE(version);
    Surroundings around({{"NCCL_PROFILER_PLUGIN", plugin("v" + std::to_string(version))}, {"TEST_PROFILER", ""}});
    run_calls();
    const std::string log = around.plugin_log();
    CAPTURE(log);
    const bool api = version >= 5, kernels = version >= 3;
    const auto count = [&](const std::string& part) { return Surroundings::count(log, part); };
    CHECK(count("kind 1 parent 0\n") == 2 * kRanks);  // groups
    const std::string parent = api ? "kind 2 parent 512 " : "kind 2 parent 1 ";
    CHECK(count(parent + (version == 1 ? "4 64\n" : "AllReduce 64\n")) == kRanks);
    CHECK(count(parent + (version == 1 ? "2 64\n" : "AllGather 64\n")) == kRanks);
    const std::string transfer = api ? "kind 4 parent 1024 " : "kind 4 parent 1 ";
    CHECK(count(transfer + (version == 1 ? "6 32\n" : "Send 32\n")) == kRanks);
    CHECK(count(transfer + (version == 1 ? "7 32\n" : "Recv 32\n")) == kRanks);
    CHECK(count(" kind 64 parent 2\n") == (kernels ? 2 * kRanks : 0));
    CHECK(count(" kind 64 parent 4\n") == (kernels ? 2 * kRanks : 0));
    CHECK(count(" kind 64 is 22 timed\n") == (version >= 4 ? 4 * kRanks : 0));
    CHECK(count("kind 256 parent 0\n") == (api ? 2 * kRanks : 0));
    CHECK(count("kind 512 parent 256 AllReduce 64 ncclFloat32\n") == (api ? kRanks : 0));
    CHECK(count("kind 1024 parent 256 Recv 32 ncclFloat32\n") == (api ? kRanks : 0));
    CHECK(count(" is 23\n") == (api ? 2 * kRanks : 0));
    CHECK(count("finalize\n") == kRanks);
    CHECK(starts(log) == stops(log));
    if (version >= 4) CHECK(count(" init 2 known\n") == kRanks);
  }
}

TEST_CASE("a profiler plugin gets the events of its mask, and their parents") {
  Surroundings around({{"NCCL_PROFILER_PLUGIN", plugin("v6")}, {"TEST_PROFILER_MASK", "4"}});  // transfers
  run_calls();
  const std::string log = around.plugin_log();
  CHECK(Surroundings::count(log, " start ") == stops(log));
  CHECK(Surroundings::count(log, "kind 4 parent 1024") == 2 * kRanks);
  CHECK(Surroundings::count(log, "kind 2 parent") == 0);
  CHECK(Surroundings::count(log, "kind 64 parent") == 0);
}

TEST_CASE("a profiler plugin that wants nothing is told nothing") {
  Surroundings around({{"NCCL_PROFILER_PLUGIN", plugin("v5")}, {"TEST_PROFILER_MASK", "0"}});
  run_calls();
  CHECK(starts(around.plugin_log()) == 0);
}

TEST_CASE("bad profiler plugins are left out in one line, and calls go on") {
  struct Case {
    std::string plugin, way, line;
    int lines;
  };
  for (const Case& bad : {Case{plugin("v9"), "", "has no ncclProfiler_v1 to v6", kRanks},
                          Case{plugin("null4"), "", "ncclProfiler_v4 has no init", kRanks},
                          Case{plugin("v6"), "init-error", "its init returns 5", kRanks},
                          Case{plugin("v6"), "start-error", "its startEvent returns 2", kRanks},
                          Case{plugin("v2"), "stop-error", "its stopEvent returns 1", kRanks},
                          Case{plugin("v3"), "no-handles", "is left out", 0},
                          Case{"/nowhere/p.so", "", "give the path of the plugin", 1}}) {
    CAPTURE(bad.plugin, bad.way);
    Surroundings around({{"NCCL_PROFILER_PLUGIN", bad.plugin}, {"TEST_PROFILER", bad.way}});
    run_calls();
    const std::string log = around.log();
    CAPTURE(log);
    CHECK(Surroundings::count(log, bad.line) == bad.lines);
  }
}
