// What ends on one host is told on the others: nobody hangs, and whoever waits learns which rank and which host.
#include <catch2/catch.hpp>
#include <csignal>

#include "checks.h"

using namespace hosts_test;

namespace {

// Ranks 0 and 1 on alpha, 2 and 3 on beta, in a call that waits for the `missing` ones.
struct Waiting {
  explicit Waiting(const std::vector<int>& missing, const Environment& environment = {})
      : hosts({"alpha", "beta"}), job(hosts, {0, 0, 1, 1}, environment), without(missing) {
    check_all_ok(job.init());
    check_all_ok(job.ask("allreduce 100"));
    job.tell("allreduce 100", without);
    CHECK(job.rank(0).answer(1) == "(no answer)");
  }

  Hosts hosts;
  Job job;
  std::vector<int> without;
};

}  // namespace

TEST_CASE("a killed rank is named by every survivor of every host", "[processes]") {
  if (is_skipped()) return;
  SECTION("one that is not its host's first") {
    Waiting waiting({3});
    waiting.job.rank(3).signal(SIGKILL);
    check_all_say(waiting.job.answers({3}), {"error", "rank 3", "beta", "ended"});
  }
  SECTION("the first of its host") {
    Waiting waiting({2});
    waiting.job.rank(2).signal(SIGKILL);
    check_all_say(waiting.job.answers({2}), {"error", "rank 2", "beta", "ended"});
  }
  SECTION("all of a host") {
    Waiting waiting({2, 3});
    waiting.job.rank(2).signal(SIGKILL);
    waiting.job.rank(3).signal(SIGKILL);
    check_all_say(waiting.job.answers({2, 3}), {"error", "beta", "ended"});
  }
}

TEST_CASE("a lost host is named with its ranks", "[processes]") {
  if (is_skipped()) return;
  Waiting waiting({2, 3}, {{"SCCL_HOST_TIMEOUT_MS", "800"}});
  SECTION("its cable is pulled") { waiting.hosts.set_link(1, false); }
  SECTION("what it sends is swallowed") { waiting.hosts.block(1, 0); }
  SECTION("all its processes are stopped") {
    waiting.job.rank(2).signal(SIGSTOP);
    waiting.job.rank(3).signal(SIGSTOP);
  }
  check_all_say(waiting.job.answers({2, 3}), {"error", "host beta with rank 2, 3 was not heard of"});
}

TEST_CASE("ranks of different hosts that disagree are told both calls", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1});
  check_all_ok(job.init());
  job.rank(0).tell("allreduce 100");
  job.rank(1).tell("allreduce 200");
  check_all_say(job.answers(), {"error", "AllReduce(count=100", "AllReduce(count=200"});
}

TEST_CASE("abort and revoke on one host end calls on the others", "[processes]") {
  if (is_skipped()) return;
  SECTION("abort") {
    Waiting waiting({3});
    CHECK(waiting.job.rank(3).ask("abort") == "ok");
    check_all_say(waiting.job.answers({3}), {"error", "rank 3", "was aborted"});
  }
  SECTION("revoke") {
    Waiting waiting({3});
    CHECK(waiting.job.rank(3).ask("revoke") == "ok");
    check_all_say(waiting.job.answers({3}), {"error", "rank 3", "revoked its communicator"});
  }
  SECTION("destroy") {
    Waiting waiting({3});
    CHECK(waiting.job.rank(3).ask("destroy") == "ok");
    check_all_say(waiting.job.answers({3}), {"error", "rank 3", "destroyed its communicator"});
  }
}

TEST_CASE("a rank that splits while others are in a call is told, and so are they", "[processes]") {
  if (is_skipped()) return;
  Waiting waiting({3});
  waiting.job.rank(3).tell("split 0 0");
  check_all_say(waiting.job.answers({3}), {"error", "splits or shrinks it"});
  CHECK_THAT(waiting.job.rank(3).answer(), Catch::Contains("error"));
}
