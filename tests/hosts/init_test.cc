// Ranks of several hosts meet, tell one another what they do, and make communicators from communicators.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "checks.h"
#include "logs.h"
#include "occurrences.h"

using namespace hosts_test;
using sccl_test::occurrences;

namespace {

std::string status_of(Job& job, int rank) {
  return job.hosts().run(job.rank(rank).host(),
                         std::string(SCCL_COMMAND) + " status " + std::to_string(job.rank(rank).process()));
}

}  // namespace

TEST_CASE("ranks of a host whose loopback is down are told so", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha"});
  hosts.run(0, "ip link set lo down");
  Job job(hosts, {0, 0}, {{"SCCL_INIT_TIMEOUT_MS", "2000"}});
  check_all_say(job.init(), {"error", "lo is down", "ip link set lo up"});
}

TEST_CASE("ranks of several hosts meet, in any order and unevenly", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta", "gamma"});
  for (const std::vector<int>& where :
       std::vector<std::vector<int>>{{0, 1}, {1, 0, 1, 0}, {0, 0, 0, 1}, {2, 0, 1, 1, 0, 2, 2}}) {
    Job job(hosts, where);
    check_all_ok(job.init());
    check_all_ok(job.ask("destroy"));
  }
}

TEST_CASE("a host that sends by one interface and receives by another one moves data", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  hosts.add_detour(1, 0);
  Job job(hosts, {0, 1, 1});
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 1000"));
}

TEST_CASE("hosts of one name are told apart", "[processes]") {
  if (is_skipped()) return;
  const Hosts twins({"node", "node"});
  Job job(twins, {0, 1, 0, 1}, {{"SCCL_STATUS", "1"}});
  check_all_ok(job.init());
  CHECK_THAT(status_of(job, 0), Catch::Contains("node (2)"));
}

TEST_CASE("a split goes over hosts and within them", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 0, 1, 1});
  check_all_ok(job.init());
  SECTION("within hosts") {
    for (int rank = 0; rank < 4; ++rank) job.rank(rank).tell("split " + std::to_string(rank / 2) + " 0");
    check_all_say(job.answers(), {"of 2"});
    check_all_ok(job.ask("allreduce 1000"));
  }
  SECTION("over hosts") {
    for (int rank = 0; rank < 4; ++rank) job.rank(rank).tell("split " + std::to_string(rank % 2) + " 0");
    check_all_say(job.answers(), {"of 2"});
  }
  SECTION("shrinking leaves a dead rank behind") {
    job.rank(3).signal(SIGKILL);
    CHECK(job.rank(3).answer() == "(ended)");
    check_all_say(job.ask("shrink 3", {3}), {"of 3"});
    for (int rank = 0; rank < 3; ++rank) job.rank(rank).tell("split 0 0");
    check_all_say(job.answers({3}), {"of 3"});
  }
}

TEST_CASE("init over hosts tells what links take beside the limited memory", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  const Logs logs;
  Job job(hosts, {0, 1}, logs.environment());
  check_all_ok(job.init());
  const std::string text = logs.text();
  INFO(text);
  const std::size_t more = text.find(" more for each rank of another host");
  REQUIRE(more != std::string::npos);
  const long bytes = std::stol(text.substr(text.rfind(' ', more - 1)));
  constexpr long kSlots = 48 * 258048L;
  CHECK(bytes >= kSlots);
  CHECK(bytes < kSlots + kSlots / 8);
  check_all_ok(job.ask("destroy"));
}

TEST_CASE("sccl status shows the ranks of all hosts", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 0, 1}, {{"SCCL_STATUS", "1"}});
  check_all_ok(job.init());
  CHECK_THAT(status_of(job, 0),
             Catch::Contains("on alpha: between calls") && Catch::Contains("on beta: between calls"));
  job.rank(2).signal(SIGKILL);
  std::string text;
  for (int asked = 0; asked < 100 && text.find("ended") == std::string::npos; ++asked) text = status_of(job, 0);
  CHECK_THAT(text, Catch::Contains("ended"));
}

TEST_CASE("a rank that does not come, or dies in init, is told to all hosts", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 0, 1, 1}, {{"SCCL_INIT_TIMEOUT_MS", "1500"}});
  const std::string id = job.make_id();
  const auto begin = [&](int rank) { job.rank(rank).tell("init " + id + " 4 " + std::to_string(rank)); };
  SECTION("half of the ranks never come") {
    begin(0);
    begin(2);
    check_all_say(job.answers({1, 3}), {"error", "rank 1, 3 did not come"});
  }
  SECTION("a rank dies") {
    for (const int rank : {0, 1, 2}) begin(rank);
    CHECK(job.rank(2).answer(1) == "(no answer)");
    job.rank(2).signal(SIGKILL);
    check_all_say(job.answers({2, 3}), {"error", "rank 2 (10.77.0.2"});
  }
  SECTION("rank 0, which holds the root, dies") {
    for (const int rank : {0, 1, 2}) begin(rank);
    CHECK(job.rank(2).answer(1) == "(no answer)");
    job.rank(0).signal(SIGKILL);
    check_all_say(job.answers({0, 3}), {"error", "the process that made the unique id ended", "look at its output"});
  }
}

// The hosts of ranks 1 and 2 look for each other in vain, for 15 s.
TEST_CASE("a rank that dies while the hosts connect is told at once, with its host", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta", "gamma"});
  hosts.block(1, 2);
  hosts.block(2, 1);
  Job job(hosts, {0, 1, 2});
  const std::string id = job.make_id();
  for (int rank = 0; rank < 3; ++rank) job.rank(rank).tell("init " + id + " 3 " + std::to_string(rank));
  CHECK(job.rank(0).answer(1) == "(no answer)");
  job.rank(1).signal(SIGKILL);
  check_all_say(job.answers({1}), {"error", "rank 1 (10.77.0.2", "on beta) ended during init"});
}

TEST_CASE("a host that is lost while ranks meet is told, with its rank", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 0, 1, 1}, {{"SCCL_HOST_TIMEOUT_MS", "1000"}});
  const std::string id = job.make_id();
  for (const int rank : {0, 1, 2}) job.rank(rank).tell("init " + id + " 4 " + std::to_string(rank));
  CHECK(job.rank(0).answer(1) == "(no answer)");
  hosts.set_link(1, false);
  for (const int rank : {0, 1})
    CHECK_THAT(job.rank(rank).answer(), Catch::StartsWith("error") && Catch::Contains("rank 2 (10.77.0.2") &&
                                            Catch::Contains("on beta) was not heard of during init"));
  CHECK_THAT(job.rank(2).answer(), Catch::StartsWith("error") && Catch::Contains("or its host is lost"));
}

TEST_CASE("hosts that do not reach each other are named with the addresses that were tried", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta", "gamma"});
  hosts.block(1, 2);
  hosts.block(2, 1);
  Job job(hosts, {0, 1, 2}, {{"SCCL_INIT_TIMEOUT_MS", "4000"}});
  check_all_say(job.init(),
                {"error", "host beta (rank 1) cannot reach host gamma (rank 2) at 10.77.0.3:", "NCCL_SOCKET_IFNAME"});
}

TEST_CASE("a setting that one host cannot serve is told at all ranks with that host", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  SECTION("a limit on memory") {
    Job job(hosts, {0, 1, 1}, {}, {{1, {{"SCCL_MEM_LIMIT", "1000"}}}});
    check_all_say(job.init(), {"error", "SCCL_MEM_LIMIT=1000 on host beta", "allow "});
  }
  SECTION("an interface") {
    Job job(hosts, {0, 1, 1}, {}, {{1, {{"NCCL_SOCKET_IFNAME", "=nosuch"}}}});
    check_all_say(job.init(), {"error", "on host beta", "NCCL_SOCKET_IFNAME==nosuch", "unset"});
  }
}

TEST_CASE("engines that cannot serve are refused by all ranks with the same text", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  SECTION("none") {
    Job job(hosts, {0, 1}, {{"SCCL_NET", "none"}});
    check_all_say(job.init(), {"error", "rank 0 on host alpha", "SCCL_NET=none"});
  }
  SECTION("a plugin that is not there") {
    Job job(hosts, {0, 1, 1}, {{"NCCL_NET_PLUGIN", "/nowhere/libnccl-net.so"}});
    check_all_say(job.init(), {"error", "rank 0 on host alpha", "/nowhere/libnccl-net.so"});
  }
}

TEST_CASE("a profiler plugin sees which rank of another host a call sends to and receives from", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  const auto told = std::filesystem::temp_directory_path() / ("sccl-profiler-told-" + std::to_string(::getpid()));
  for (const char* const plugin : {PROFILER_PLUGIN_3, PROFILER_PLUGIN_6}) {
    Job job(hosts, {0, 1}, {{"NCCL_PROFILER_PLUGIN", plugin}, {"TEST_PLUGIN_LOG", told}});
    check_all_ok(job.init());
    check_all_ok(job.ask("allreduce 10"));
    std::stringstream text;
    text << std::ifstream(told).rdbuf();
    std::filesystem::remove(told);
    CAPTURE(plugin);
    for (const char* const peer : {"0", "1"})
      CHECK_THAT(text.str(), Catch::Contains(std::string("kind 8 parent 2 to ") + peer + " complete\n") &&
                                 Catch::Contains(std::string("kind 8 parent 2 from ") + peer + " complete\n"));
    // "In progress" since version 4; before, "done" of a send and of a receive.
    const bool old = plugin == std::string(PROFILER_PLUGIN_3);
    CHECK_THAT(text.str(), Catch::Contains(old ? " kind 8 is 3\n" : " kind 8 is 19\n"));
    if (old) CHECK_THAT(text.str(), Catch::Contains(" kind 8 is 7\n"));
    CHECK(occurrences(text.str(), " start ") == occurrences(text.str(), " stop "));
  }
}

TEST_CASE("a tuner plugin is told on how many hosts the ranks are", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  const auto told = std::filesystem::temp_directory_path() / ("sccl-tuner-told-" + std::to_string(::getpid()));
  Job job(hosts, {0, 1, 1}, {{"NCCL_TUNER_PLUGIN", TUNER_PLUGIN}, {"TEST_PLUGIN_LOG", told}});
  check_all_ok(job.init());
  std::stringstream text;
  text << std::ifstream(told).rdbuf();
  std::filesystem::remove(told);
  CHECK_THAT(text.str(), Catch::Contains("init 3 2\n"));
}
