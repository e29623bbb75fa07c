// The vendor's library beside ours over several hosts: another build of this library serves.
#include <catch2/catch.hpp>
#include <csignal>

#include "checks.h"
#include "logs.h"

using namespace hosts_test;

namespace {

// Of ranks that want the vendor's library for all calls.
Environment with_vendor(const Logs& logs) {
  Environment variables = logs.environment();
  variables["SCCL_VENDOR"] = VENDOR_COPY;
  variables["SCCL_ALGO"] = "vendor";
  return variables;
}

constexpr const char* kServes = "serves as algorithm vendor";

}  // namespace

TEST_CASE("the vendor's library serves ranks of two hosts, and each child of a split has its own", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"left", "right"});
  Job job(hosts, {0, 0, 1, 1}, with_vendor(logs));
  check_all_ok(job.init());
  for (const char* command : {"allreduce 10", "allreduce 300000", "data 5000", "broadcast 1000 3"})
    check_all_ok(job.ask(command));
  CHECK(logs.count(kServes) == 4);
  // Ranks 0 and 2, and 1 and 3: one of each host.
  for (int rank = 0; rank < 4; ++rank) job.rank(rank).tell("split " + std::to_string(rank % 2) + " 0");
  check_all_ok(job.answers());
  check_all_ok(job.ask("allreduce 20000"));
  CHECK(logs.count(kServes) == 8);
  check_all_ok(job.ask("destroy"));
}

TEST_CASE("a host without the vendor's library is enough for all hosts to do without", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"left", "right"});
  Job job(hosts, {0, 0, 1}, with_vendor(logs), {{1, {{"SCCL_VENDOR", "never"}}}});
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 20000"));
  check_all_ok(job.ask("data 5000"));
  CHECK(logs.count(kServes) == 0);
  CHECK(logs.count("the vendor's library is left out") >= 2);
  check_all_ok(job.ask("destroy"));
}

TEST_CASE("a rank of another host that dies while the vendor's library serves is named", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"left", "right"});
  Job job(hosts, {0, 0, 1}, with_vendor(logs));
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 1000"));
  CHECK(logs.count(kServes) == 3);
  job.tell("allreduce 1000", {2});
  job.rank(2).signal(SIGKILL);
  check_all_say(job.answers({2}), {"error", "rank 2", "right"});
}
