// Data between hosts: every collective, Send and Recv, in shapes of hosts and ranks.
#include <catch2/catch.hpp>
#include <csignal>

#include "checks.h"

using namespace hosts_test;

namespace {

void check_data(const std::vector<std::string>& names, const std::vector<int>& host_of,
                const Environment& environment = {}) {
  const Hosts hosts(names);
  Job job(hosts, host_of, environment);
  check_all_ok(job.init());
  for (const char* const count : {"1", "2", "1000", "5000", "100003", "700001"}) {
    INFO(count << " elements");
    job.tell(std::string("data ") + count);
    check_all_ok(job.answers({}, 60));
  }
  check_all_ok(job.ask("destroy"));
}

}  // namespace

TEST_CASE("two hosts of one rank have the right data", "[processes]") {
  if (is_skipped()) return;
  check_data({"alpha", "beta"}, {0, 1});
}

TEST_CASE("two hosts of two ranks, in any order, have the right data", "[processes]") {
  if (is_skipped()) return;
  check_data({"alpha", "beta"}, {0, 1, 1, 0});
}

TEST_CASE("two hosts of four ranks have the right data", "[processes]") {
  if (is_skipped()) return;
  check_data({"alpha", "beta"}, {0, 0, 0, 0, 1, 1, 1, 1});
}

TEST_CASE("three hosts of one, two and three ranks have the right data", "[processes]") {
  if (is_skipped()) return;
  check_data({"alpha", "beta", "gamma"}, {0, 1, 1, 2, 2, 2});
}

TEST_CASE("the children of a split over hosts have the right data", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 0, 1, 1});
  check_all_ok(job.init());
  for (int rank = 0; rank < 4; ++rank) job.rank(rank).tell("split " + std::to_string(rank % 2) + " 0");
  check_all_ok(job.answers());
  check_all_ok(job.ask("data 5000"));
}

TEST_CASE("a rank that is aborted in the middle of a long transfer is named, and nobody hangs", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1});
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 1000000"));
  job.tell("allreduce 200000000", {1});
  CHECK(job.rank(0).answer(1) == "(no answer)");
  job.rank(1).tell("abort");
  CHECK(job.rank(1).answer() == "ok");
  const std::string told = job.rank(0).answer();
  CHECK_THAT(told, Catch::StartsWith("error"));
  CHECK_THAT(told, Catch::Contains("rank 1"));
}
