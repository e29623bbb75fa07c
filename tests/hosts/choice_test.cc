// Which schedules serve calls over hosts, as the log tells.
#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>

#include "checks.h"
#include "logs.h"

using namespace hosts_test;

namespace {

// What serves calls of so many bytes, by the lines of all ranks.
std::vector<std::string> served(const Logs& logs, const std::string& bytes) {
  const std::string lines = logs.text();
  const std::regex line("AllReduce of " + bytes + " bytes: (\\S+) \\(");
  std::vector<std::string> names;
  for (std::sregex_iterator found(lines.begin(), lines.end(), line), end; found != end; ++found)
    names.push_back((*found)[1]);
  return names;
}

}  // namespace

TEST_CASE("all ranks of two hosts take the same schedule of levels, one by leaders where calls are short",
          "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1, 1, 0, 0, 1, 1, 0}, logs.environment());
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 2"));
  check_all_ok(job.ask("allreduce 1048576"));
  CHECK(served(logs, "8") == std::vector<std::string>(8, "levels/leaders+one-hop"));
  const auto large = served(logs, "4194304");
  REQUIRE(large.size() == 8);
  CHECK_THAT(large.front(), Catch::StartsWith("levels/"));
  CHECK(std::count(large.begin(), large.end(), large.front()) == 8);
}

TEST_CASE("two hosts of one rank keep the schedules of two ranks", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1}, logs.environment());
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 2"));
  CHECK(served(logs, "8") == std::vector<std::string>(2, "all-pairs"));
}

TEST_CASE("a topology file of one host is left out over several, and one line says so", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Environment environment = logs.environment();
  environment["NCCL_TOPO_FILE"] = "/nowhere/topology.xml";
  Job job(hosts, {0, 0, 1}, environment);
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 1000"));
  CHECK_THAT(logs.text(), Catch::Contains("NCCL_TOPO_FILE=/nowhere/topology.xml: it describes one host, and the ranks "
                                          "run on 2"));
}
