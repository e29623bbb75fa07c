// The network is interrupted for seconds, for less than a lost host takes.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "checks.h"
#include "job.h"
#include "namespaces.h"

namespace {

using namespace hosts_test;
using std::chrono::milliseconds;

// The system gives up connections in the making after 3 s. TCP sends again after 0.2, 0.6, 1.4, 3 and 6.2 s.
constexpr milliseconds kLongerThanConnecting{3500};
const Environment kPatient{{"SCCL_HOST_TIMEOUT_MS", "12000"}};

}  // namespace

TEST_CASE("data that an interrupted network holds up longer than the news of the call are waited for", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1}, kPatient);
  check_all_ok(job.init());
  check_all_ok(job.ask("broadcast 100 0"));
  hosts.set_link(1, false);
  job.tell("broadcast 100 0");
  CHECK(job.rank(0).answer() == "ok");  // it sends alone
  std::this_thread::sleep_for(kLongerThanConnecting);
  hosts.set_link(1, true);
  CHECK(job.rank(1).answer() == "ok");
  check_all_ok(job.ask("allreduce 100"));
}

TEST_CASE("connections that are made while the network is interrupted are made when it is back", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 0, 1, 1}, kPatient);
  check_all_ok(job.init());
  hosts.set_link(1, false);
  job.tell("allreduce 100");
  std::this_thread::sleep_for(kLongerThanConnecting);
  hosts.set_link(1, true);
  check_all_ok(job.answers());
  for (int round = 0; round < 3; ++round) check_all_ok(job.ask("allreduce 100"));
}
