// Tuner plugins of every version take part in the choice, the same at all ranks; bad ones are left out in one line.
#include <catch2/catch.hpp>

#include "../runtime/rank_threads.h"
#include "plugin_surroundings.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/group.h"

using namespace sccl;
using namespace sccl::runtime;
using plugin_test::Surroundings;

namespace {

std::string plugin(const std::string& kind) { return std::string(PLUGIN_FOLDER) + "/libtuner_" + kind + ".so"; }

// AllReduce of `count` floats at 4 ranks, then AllGather; every result is checked.
void run_calls(std::size_t count) {
  constexpr int kRanks = 4;
  const UniqueId id = create_unique_id();
  const auto errors = run_ranks(kRanks, [&](Rank rank) {
    const auto communicator = std::make_shared<Communicator>(CommunicatorOptions{id, rank, kRanks, 0, -1, "", true});
    submit_init(communicator);
    std::vector<float> send(count, static_cast<float>(rank + 1)), recv(count * kRanks);
    CollectiveRequest request{Collective::allreduce, send.data(), recv.data(), count,
                              DataType::float32,     {},          0,           nullptr};
    for (int i = 0; i < 3; ++i) {
      submit(communicator, request);
      for (std::size_t at = 0; at < count; ++at)
        if (recv[at] != 10) throw std::runtime_error("AllReduce is wrong");
    }
    request.collective = Collective::allgather;
    submit(communicator, request);
    for (std::size_t at = 0; at < count * kRanks; ++at)
      if (recv[at] != static_cast<float>(at / count + 1)) throw std::runtime_error("AllGather is wrong");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

}  // namespace

TEST_CASE("a tuner plugin of every version decides, the same at all ranks") {
  for (const int version : {2, 3, 4, 5, 6}) {
    CAPTURE(version);
    Surroundings around({{"NCCL_TUNER_PLUGIN", plugin("v" + std::to_string(version))}, {"TEST_TUNER", "0 2"}});
    run_calls(4096);
    const std::string log = around.log();
    CAPTURE(log);
    CHECK(Surroundings::count(
              log, "AllReduce of 16384 bytes: binomial (simple) serves; asked for by the tuner plugin") == 4);
    CHECK(Surroundings::count(log, "AllGather of 16384 bytes: ") == 4);
    CHECK(log.find("AllGather of 16384 bytes: binomial") == std::string::npos);  // has no trees
    CHECK(log.find(fmt::format("tuner plugin test (v{})", version)) != std::string::npos);
    CHECK(log.find("tuner of 4 ranks") != std::string::npos);  // the plugin's own line
    const std::string asked = around.plugin_log();
    CHECK(Surroundings::count(asked, "init 4 1\n") == 1);
    CHECK(Surroundings::count(asked, "finalize 1 0\n") == 1);
    CHECK(Surroundings::count(asked, "ask 4 16384\n") == 1);  // AllReduce
    CHECK(Surroundings::count(asked, "ask 2 65536\n") == 1);  // AllGather: of the larger buffer
  }
}

TEST_CASE("a tuner plugin's ring with flagged words serves, and the only entry left") {
  {
    Surroundings around({{"NCCL_TUNER_PLUGIN", plugin("v4")}, {"TEST_TUNER", "1 0"}});
    run_calls(64);
    CHECK(Surroundings::count(around.log(), "AllReduce of 256 bytes: ring (ll) serves") == 4);
  }
  Surroundings around({{"NCCL_TUNER_PLUGIN", plugin("v4")}, {"TEST_TUNER", "only 6 2"}});
  run_calls(4096);
  CHECK(Surroundings::count(around.log(), "AllGather of 16384 bytes: recursive (simple) serves") == 4);
}

TEST_CASE("what the user's settings ask for goes before the tuner plugin") {
  Surroundings around(
      {{"NCCL_TUNER_PLUGIN", plugin("v5")}, {"TEST_TUNER", "0 2"}, {"SCCL_ALGO", "ring"}, {"SCCL_PROTO", "simple"}});
  run_calls(4096);
  CHECK(Surroundings::count(around.log(), "AllReduce of 16384 bytes: ring (simple) serves") == 4);
}

TEST_CASE("a tuner plugin that changes nothing leaves the choice as it is") {
  std::string with, without;
  {
    Surroundings around({{"NCCL_TUNER_PLUGIN", plugin("v6")}, {"TEST_TUNER", "untouched"}});
    run_calls(4096);
    with = around.log();
  }
  {
    Surroundings around({{"NCCL_TUNER_PLUGIN", "none"}, {"TEST_TUNER", ""}});
    run_calls(4096);
    without = around.log();
  }
  CHECK(with.find("asked for by the tuner plugin") == std::string::npos);
  const auto serving = [](const std::string& log) {
    const std::size_t at = log.find("AllReduce of 16384 bytes: ");
    return at == std::string::npos ? "" : log.substr(at, log.find(';', at) - at);
  };
  CHECK(serving(with) != "");
  CHECK(serving(with) == serving(without));
}

TEST_CASE("a tuner plugin of version 6 decides on slices") {
  Surroundings around({{"NCCL_TUNER_PLUGIN", plugin("v6")}, {"TEST_TUNER", "chunk 8192"}});
  run_calls(1 << 16);
  CHECK(Surroundings::count(around.log(), "asked for by the tuner plugin") == 8);
}

TEST_CASE("bad tuner plugins are left out in one line") {
  struct Case {
    std::string plugin, way, line;
  };
  for (const Case& bad :
       {Case{plugin("v1"), "0 2", "has no ncclTunerPlugin_v2 to v6"},
        Case{plugin("null5"), "0 2", "ncclTunerPlugin_v5 has no init"},
        Case{plugin("null2"), "0 2", "ncclTunerPlugin_v2 has no init"}, Case{plugin("v3"), "error", "fails at "},
        Case{plugin("v2"), "error", "fails at "}, Case{plugin("v6"), "init-error", "its init returns 3"},
        Case{plugin("v6"), "nothing", "leaves nothing that can serve"},
        Case{plugin("v4"), "4 2", "decides for 0 size classes"},
        Case{"/nowhere/plugin.so", "", "give the path of the plugin"}, Case{"nobody", "", "libnccl-tuner-nobody.so"}}) {
    CAPTURE(bad.plugin, bad.way);
    Surroundings around({{"NCCL_TUNER_PLUGIN", bad.plugin}, {"TEST_TUNER", bad.way}});
    run_calls(4096);
    const std::string log = around.log();
    CAPTURE(log);
    CHECK(Surroundings::count(log, bad.line) == 1);
    CHECK(log.find("asked for by the tuner plugin") == std::string::npos);
  }
}
