// Which schedules serve calls over hosts, as the log tells.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "checks.h"

using namespace hosts_test;

namespace {

namespace fs = std::filesystem;

// Of all ranks, gone with it.
class Logs {
 public:
  Logs() : folder_(fs::temp_directory_path() / ("sccl_hosts_log_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~Logs() { fs::remove_all(folder_); }
  Logs(const Logs&) = delete;
  Logs& operator=(const Logs&) = delete;

  Environment environment() const {
    return {{"NCCL_DEBUG", "INFO"},
            {"NCCL_DEBUG_SUBSYS", "INIT,TUNING"},
            {"NCCL_DEBUG_FILE", (folder_ / "rank.%p").string()}};
  }
  std::string text() const {
    std::string all;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      std::ifstream file(entry.path());
      all.append(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }
  // What serves calls of so many bytes, by the lines of all ranks.
  std::vector<std::string> served(const std::string& bytes) const {
    const std::string lines = text();
    const std::regex line("AllReduce of " + bytes + " bytes: (\\S+) \\(");
    std::vector<std::string> names;
    for (std::sregex_iterator found(lines.begin(), lines.end(), line), end; found != end; ++found)
      names.push_back((*found)[1]);
    return names;
  }

 private:
  fs::path folder_;
};

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
  CHECK(logs.served("8") == std::vector<std::string>(8, "levels/leaders+one-hop"));
  const auto large = logs.served("4194304");
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
  CHECK(logs.served("8") == std::vector<std::string>(2, "all-pairs"));
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
