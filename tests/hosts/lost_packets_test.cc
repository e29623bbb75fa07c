// The network delivers what hosts tell each other, and loses long packets for ever.
#include <catch2/catch.hpp>
#include <csignal>

#include "checks.h"

using namespace hosts_test;

namespace {

const Environment kShort{{"SCCL_HOST_TIMEOUT_MS", "1000"}, {"SCCL_TIMEOUT_MS", "60000"}};
constexpr const char* kCause = "(MTU)";

}  // namespace

TEST_CASE("a group that misses what the network has lost is told the cause and both ranks", "[processes]") {
  if (is_skipped()) return;
  for (auto [engine, environment] : both_engines()) {
    CAPTURE(engine);
    environment.insert(kShort.begin(), kShort.end());
    const Hosts hosts({"alpha", "beta"});
    Job job(hosts, {0, 1}, environment);
    check_all_ok(job.init());
    check_all_ok(job.ask("circle 10"));
    hosts.lose_long_packets(0);
    SECTION("its sender has gone on") {
      job.tell("pass 20000 0 1");
      CHECK(job.rank(0).answer() == "ok");
      const std::string answer = job.rank(1).answer();
      CHECK_THAT(answer, Catch::StartsWith("error") && Catch::Contains("rank 1 on beta waits in a group of Send") &&
                             Catch::Contains("what rank 0 on alpha has sent does not come") && Catch::Contains(kCause));
      CHECK_THAT(job.rank(0).ask("pass 10 1 0"), Catch::StartsWith("error") && Catch::Contains(kCause));
    }
    SECTION("its sender waits, too") {
      check_all_say(job.ask("pass 20000000 0 1"), {"error", "what rank 0 on alpha has sent does not come", kCause});
    }
    SECTION("both send") {
      check_all_say(job.ask("circle 20000000"), {"error", "what rank 0 on alpha has sent does not come", kCause});
    }
  }
}

TEST_CASE("calls of which no rank has sent all are told the cause, too", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1, 1}, kShort);
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 10"));
  hosts.lose_long_packets(0);
  check_all_say(job.ask("allreduce 10000000"), {"error", "on alpha", kCause});
}

// Nothing comes through any more, neither the data nor signs of life.
TEST_CASE("a rank that waits for data of a completed call is told how their sender left", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1}, {{"SCCL_HOST_TIMEOUT_MS", "2000"}});
  check_all_ok(job.init());
  check_all_ok(job.ask("broadcast 10 0"));
  hosts.lose_long_packets(0);
  job.tell("broadcast 20000 0");
  CHECK(job.rank(0).answer() == "ok");
  CHECK(job.rank(1).answer(1) == "(no answer)");  // it hears that rank 0 has completed the call
  SECTION("its cable is pulled") {
    hosts.set_link(1, false);
    CHECK_THAT(job.rank(1).answer(),
               Catch::StartsWith("error") && Catch::Contains("host alpha with rank 0 was not heard of"));
  }
  SECTION("it aborts") {
    CHECK(job.rank(0).ask("abort") == "ok");
    CHECK_THAT(job.rank(1).answer(),
               Catch::StartsWith("error") && Catch::Contains("rank 0") && Catch::Contains("was aborted"));
  }
}

TEST_CASE("a rank whose long packets are lost while ranks meet is told the cause", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  hosts.lose_long_packets(1);
  Job job(hosts, {0, 1}, {{"SCCL_INIT_TIMEOUT_MS", "3000"}});
  const std::vector<std::string> answers = job.init();
  CHECK_THAT(answers[0], Catch::StartsWith("error") && Catch::Contains("rank 1 did not come in time"));
  CHECK_THAT(answers[1],
             Catch::StartsWith("error") && Catch::Contains("rank 1 on host beta") && Catch::Contains(kCause));
}

TEST_CASE("what a stopped rank has not sent is waited for", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  // Another rank of the stopped one's host tells that it is stopped.
  Job job(hosts, {0, 0, 1}, {{"SCCL_HOST_TIMEOUT_MS", "1000"}, {"UCX_TCP_SNDBUF", "32k"}, {"UCX_TCP_RCVBUF", "32k"}});
  check_all_ok(job.init());
  check_all_ok(job.ask("circle 10"));
  job.rank(1).tell("pass 20000000 1 2");
  CHECK(job.rank(1).answer(1) == "(no answer)");
  job.rank(1).signal(SIGSTOP);
  job.rank(2).tell("pass 20000000 1 2");
  CHECK(job.rank(2).answer(5) == "(no answer)");
  job.rank(1).signal(SIGCONT);
  CHECK(job.rank(1).answer() == "ok");
  CHECK(job.rank(2).answer() == "ok");
}
