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

TEST_CASE("a topology file that a host cannot use is told at all ranks with host and file", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1, 1}, logs.environment(), {{1, {{"NCCL_TOPO_FILE", "/nowhere/topology.xml"}}}});
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 1000"));
  const std::string text = logs.text();
  for (const char* const rank : {"rank 0", "rank 1", "rank 2"})
    CHECK_THAT(text, Catch::Contains(std::string(rank) + ": host beta: NCCL_TOPO_FILE: topology file "
                                                         "/nowhere/topology.xml cannot be read"));
}

TEST_CASE("every host reads its own topology file, and data are right on links of different hosts", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta", "gamma"});
  // A ring of three on one host, a chain of two on another, none on the third.
  const std::string ring = logs.file("ring.xml", R"(<system version="1"><cpu numaid="0">
    <pci busid="0000:01:00.0"><gpu dev="0" sm="80"><nvlink target="0000:02:00.0" count="1"/></gpu></pci>
    <pci busid="0000:02:00.0"><gpu dev="1" sm="80"><nvlink target="0000:03:00.0" count="1"/></gpu></pci>
    <pci busid="0000:03:00.0"><gpu dev="2" sm="80"><nvlink target="0000:01:00.0" count="1"/></gpu></pci>
    </cpu></system>)");
  const std::string pair = logs.file("pair.xml", R"(<system version="1"><cpu numaid="0">
    <pci busid="0000:01:00.0"><gpu dev="0" sm="80"><nvlink target="0000:02:00.0" count="4"/></gpu></pci>
    <pci busid="0000:02:00.0"><gpu dev="1" sm="80"/></pci></cpu></system>)");
  Job job(hosts, {1, 0, 2, 0, 1, 0, 2}, logs.environment(),
          {{0, {{"NCCL_TOPO_FILE", ring}}}, {1, {{"NCCL_TOPO_FILE", pair}}}});
  check_all_ok(job.init());
  check_all_ok(job.ask("data 3001"));
  check_all_ok(job.ask("allreduce 1000000"));
  CHECK_THAT(logs.text(), Catch::Contains("(3 devices; 6 directed lanes of nvlink) from NCCL_TOPO_FILE=" + ring) &&
                              Catch::Contains("(2 devices; 8 directed lanes of nvlink) from NCCL_TOPO_FILE=" + pair));
  CHECK_THAT(logs.text(), !Catch::Contains("continuing without it"));
}
