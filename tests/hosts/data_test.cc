// Data over hosts: every collective call of client.cc, at sizes of each protocol, and ranks that leave in peace.
#include <catch2/catch.hpp>

#include "checks.h"

using namespace hosts_test;

TEST_CASE("calls over hosts move the right data at every size", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta", "gamma"});
  for (const std::vector<int>& where : std::vector<std::vector<int>>{{0, 1}, {0, 0, 1}, {0, 1, 2, 0, 1}}) {
    Job job(hosts, where);
    check_all_ok(job.init());
    for (const char* count : {"1", "2", "1000", "70000", "1000000"}) {
      CAPTURE(count, where.size());
      check_all_ok(job.ask(std::string("allreduce ") + count));
      check_all_ok(job.ask(std::string("broadcast ") + count + " 1"));
    }
    check_all_ok(job.ask("destroy"));
  }
}

TEST_CASE("a rank may leave as soon as its own calls are done", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  for (int round = 0; round < 5; ++round) {
    Job job(hosts, {0, 1, 1});
    check_all_ok(job.init());
    job.tell("broadcast 300000 0");
    job.rank(0).tell("destroy");
    check_all_ok(job.answers());
    CHECK(job.rank(0).answer() == "ok");
  }
}
