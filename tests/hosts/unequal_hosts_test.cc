// Hosts that are not alike: other versions, settings or engines. One line says which hosts have what, and what to do.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "checks.h"
#include "logs.h"

using namespace hosts_test;

namespace {

constexpr const char* kRemedy = "set it alike on all hosts";

Environment with_plugin(const char* path) { return {{"SCCL_NET", "plugin"}, {"NCCL_NET_PLUGIN", path}}; }

std::string library_path() {
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  return path == nullptr ? "" : path;
}

}  // namespace

TEST_CASE("a host with another version of the library is told at all ranks with both versions", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  for (const int other : {0, 1}) {
    CAPTURE(other);
    Job job(hosts, {0, 1, 1}, {}, {{other, {{"LD_LIBRARY_PATH", OTHER_VERSION}}}});
    check_all_say(job.init(), {"error", "on host ", "runs libsccl 98.76.54", "use one version on all hosts"});
  }
}

TEST_CASE("settings in which hosts differ are told once with hosts and values, and rank 0's count", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1, 1}, logs.environment(),
          {{0, {{"SCCL_PROTO", "simple"}, {"SCCL_HOST_TIMEOUT_MS", "5000"}}},
           {1, {{"SCCL_PROTO", "ll"}, {"SCCL_SLOT_BYTES", "65536"}, {"SCCL_TOPO", "host:4"}}}});
  check_all_ok(job.init());
  check_all_ok(job.ask("data 3001"));
  for (const char* const line :
       {"SCCL_PROTO differs: simple on alpha (rank 0), ll on beta (rank 1, 2): rank 0's counts at all ranks: ",
        "SCCL_SLOT_BYTES differs: 258048 on alpha (rank 0), 65536 on beta (rank 1, 2): the least counts at all ranks: ",
        "SCCL_TOPO differs: unset on alpha (rank 0), host:4 on beta (rank 1, 2): rank 0's counts at all ranks: ",
        "SCCL_HOST_TIMEOUT_MS differs: 5000 on alpha (rank 0), 4500 on beta (rank 1, 2): rank 0's counts at all "
        "ranks: "})
    CHECK(logs.count(std::string(line) + kRemedy) == 1);
  CHECK(logs.count(" differs: ") == 4);
}

TEST_CASE("hosts whose settings are alike have no line about them", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1}, logs.environment());
  check_all_ok(job.init());
  CHECK(logs.count("differ") == 0);
}

TEST_CASE("hosts that were told to use different engines are named with them at all ranks", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1, 1}, {}, {{0, with_plugin(NET_PLUGIN)}, {1, {{"SCCL_NET", "ucx"}}}});
  check_all_say(job.init(), {"error", "different engines", "plugin:TestTCP on alpha (rank 0), ucx on beta (rank 1, 2)",
                             "set SCCL_NET, NCCL_NET and NCCL_NET_PLUGIN", "alike on all hosts"});
}

TEST_CASE("different versions of a net plugin work together, and a line names hosts and versions", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1}, logs.environment(), {{0, with_plugin(NET_PLUGIN)}, {1, with_plugin(NET_PLUGIN_9)}});
  check_all_ok(job.init());
  for (const char* const count : {"1", "300000"}) check_all_ok(job.ask(std::string("data ") + count));
  CHECK(logs.count("TestTCP (net plugin v11) on alpha (rank 0), TestTCP (net plugin v9) on beta (rank 1): install one "
                   "version") == 1);
}

TEST_CASE("a plugin that is found unasked and cannot be used, on one host alone or at all, is told beside UCX",
          "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  const Logs logs;
  SECTION("it cannot be loaded") {
    logs.file("libnccl-net.so", "no library\n");
    Job job(hosts, {0, 1, 1}, logs.environment(), {{1, {{"LD_LIBRARY_PATH", logs.folder() + ":" + library_path()}}}});
    check_all_ok(job.init());
    CHECK(logs.count("rank 1: does not serve between hosts: ") == 1);
    CHECK_THAT(logs.text(), Catch::Contains("libnccl-net.so: file too short"));
  }
  SECTION("another host has none") {
    std::filesystem::create_symlink(NET_PLUGIN, logs.folder() + "/libnccl-net.so");
    Job job(hosts, {0, 1, 1}, logs.environment(), {{1, {{"LD_LIBRARY_PATH", logs.folder() + ":" + library_path()}}}});
    check_all_ok(job.init());
    CHECK(logs.count("rank 1: does not serve between hosts: TestTCP") == 1);
    CHECK_THAT(logs.text(), Catch::Contains("rank 0 on host alpha does not have it"));
  }
  // Not by rank 2, too. A plugin that nobody named and that is not there is no news.
  CHECK(logs.count("does not serve between hosts") == 1);
  CHECK(logs.count(": between hosts: UCX") == 3);
}
