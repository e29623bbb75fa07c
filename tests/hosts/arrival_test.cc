// The rank that comes last, where hosts share no clock.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "checks.h"

using namespace hosts_test;

namespace {

// What sccl status shows of a rank's process, after so many calls to which one rank comes late.
std::string status_of(Job& job, int asked, int late, int calls) {
  for (int call = 0; call < calls; ++call) {
    job.tell("allreduce 8192", {late});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    job.rank(late).tell("allreduce 8192");
    check_all_ok(job.answers());
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // an agent tells of it every 20 ms
  Client& client = job.rank(asked);
  return job.hosts().run(client.host(),
                         std::string(SCCL_COMMAND) + " status " + std::to_string(client.process()) + " 2>&1");
}

}  // namespace

TEST_CASE("the rank that comes last is named on its host and on the others", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1, 0, 1}, {{"SCCL_STATUS", "1"}});
  check_all_ok(job.init());
  constexpr int kLate = 3;
  for (const int asked : {0, kLate})
    CHECK_THAT(status_of(job, asked, kLate, 30),
               Catch::Contains("rank 3 was last in ") && Catch::Contains("; host beta; it waits "));
  check_all_ok(job.ask("destroy"));
}

TEST_CASE("the rank that comes last is named where leaders carry messages", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  for (const char* const carriers : {"levels/leaders", "levels/butterfly"}) {
    Job job(hosts, {0, 1, 0, 1}, {{"SCCL_STATUS", "1"}, {"SCCL_ALGO", carriers}});
    check_all_ok(job.init());
    CHECK_THAT(status_of(job, 0, 3, 30), Catch::Contains("rank 3 was last in ") && Catch::Contains("; it waits "));
    check_all_ok(job.ask("destroy"));
  }
}

TEST_CASE("of hosts with a rank each the one that comes last is named", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta", "gamma"});
  Job job(hosts, {0, 1, 2}, {{"SCCL_STATUS", "1"}});
  check_all_ok(job.init());
  CHECK_THAT(status_of(job, 0, 1, 30), Catch::Contains("rank 1 on host beta comes last in the mean of "));
  check_all_ok(job.ask("destroy"));
}
