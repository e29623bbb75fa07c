// Windows, PutSignal, Signal and WaitSignal over hosts, by both engines, and what ends in the middle of them.
#include <catch2/catch.hpp>
#include <csignal>

#include "checks.h"

using namespace hosts_test;

namespace {

// Rank 0 on alpha, 1 and 2 on beta, with windows.
struct Windows {
  explicit Windows(const Environment& environment, const std::string& elements = "1000000")
      : hosts({"alpha", "beta"}), job(hosts, {0, 1, 1}, environment) {
    check_all_ok(job.init());
    for (const std::string& answer : job.ask("window " + elements)) CHECK(answer == "ok");
  }
  Hosts hosts;
  Job job;
};

// A put that takes a minute on this link: 30 million elements.
struct SlowPut : Windows {
  explicit SlowPut(const Environment& environment) : Windows(environment, "30000000") {
    CHECK(job.rank(0).ask("put 1 10 0 1") == "ok");
    CHECK(job.rank(1).ask("await 0 1") == "ok");
    hosts.set_rate(0, "16mbit");
  }
};

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

}  // namespace

TEST_CASE("a put over hosts arrives before its signal, at a rank that makes no call", "[processes]") {
  if (is_skipped()) return;
  for (const auto& [name, environment] : both_engines()) {
    INFO(name);
    Windows windows(environment, "20000000");
    Job& job = windows.job;
    // The long one has no room in the network: it ends because rank 1 takes it while it makes no call.
    CHECK(job.rank(0).ask("put 1 20000000 0 5") == "ok");
    CHECK(job.rank(0).ask("put 1 1 7 40") == "ok");
    CHECK(job.rank(0).ask("put 1 0 0 0") == "ok");
    CHECK(job.rank(0).ask("signal 1") == "ok");
    CHECK(job.rank(1).ask("await 0 4") == "ok");
    CHECK(job.rank(1).ask("check 7 0 5") == "ok");
    CHECK(job.rank(1).ask("check 1 7 40") == "ok");
    CHECK(job.rank(0).ask("put 1 20000000 0 6") == "ok");
    CHECK(job.rank(1).ask("await 0 1") == "ok");
    CHECK(job.rank(1).ask("check 20000000 0 6") == "ok");
    // One that waits before the put is made.
    job.rank(2).tell("await 0 1");
    CHECK(job.rank(2).answer(1) == "(no answer)");
    CHECK(job.rank(0).ask("put 2 1000 5 9") == "ok");
    CHECK(job.rank(2).answer() == "ok");
    CHECK(job.rank(2).ask("check 1000 5 9") == "ok");
    // And on one host.
    CHECK(job.rank(1).ask("put 2 1000 5 19") == "ok");
    CHECK(job.rank(2).ask("await 1 1") == "ok");
    CHECK(job.rank(2).ask("check 1000 5 19") == "ok");
    check_all_ok(job.ask("allreduce 1000"));
    check_all_ok(job.ask("unwindow"));
    check_all_ok(job.ask("destroy"));
  }
}

TEST_CASE("all ranks of all hosts put into all windows, in groups beside collectives", "[processes]") {
  if (is_skipped()) return;
  for (const auto& [name, environment] : both_engines())
    for (const std::vector<int>& where : std::vector<std::vector<int>>{{0, 1}, {0, 1, 1, 0}, {0, 1, 2}}) {
      INFO(name << ", " << where.size() << " ranks");
      const Hosts hosts({"alpha", "beta", "gamma"});
      Job job(hosts, where, environment);
      check_all_ok(job.init());
      for (const std::string& answer : job.ask("window 1200000")) CHECK(answer == "ok");
      for (const char* const count : {"1", "5000", "300000"})
        check_all_ok(job.ask(std::string("exchange ") + count + " 3"));
      check_all_ok(job.ask("destroy"));
    }
}

TEST_CASE("communicators that do not block put over hosts", "[processes]") {
  if (is_skipped()) return;
  for (const auto& [name, environment] : both_engines()) {
    INFO(name);
    const Hosts hosts({"alpha", "beta"});
    Job job(hosts, {0, 1, 1}, environment);
    const std::string id = job.make_id();
    for (int rank = 0; rank < 3; ++rank) job.rank(rank).tell("patient " + id + " 3 " + std::to_string(rank));
    check_all_ok(job.answers());
    for (const std::string& answer : job.ask("window 1000000")) CHECK(answer == "ok");
    check_all_ok(job.ask("exchange 100000 3"));
  }
}

TEST_CASE("what a rank put before it left arrives", "[processes]") {
  if (is_skipped()) return;
  for (const auto& [name, environment] : both_engines()) {
    INFO(name);
    Windows windows(environment);
    CHECK(windows.job.rank(0).ask("put 1 1000000 0 3") == "ok");
    CHECK(windows.job.rank(0).ask("destroy") == "ok");
    CHECK(windows.job.rank(1).ask("await 0 1") == "ok");
    CHECK(windows.job.rank(1).ask("check 1000000 0 3") == "ok");
  }
}

TEST_CASE("a put beyond the window is an error of its caller alone", "[processes]") {
  if (is_skipped()) return;
  for (const auto& [name, environment] : both_engines()) {
    INFO(name);
    Windows windows(environment);
    Job& job = windows.job;
    CHECK_THAT(job.rank(0).ask("put 1 2 999999 1"), Catch::StartsWith("error 4"));
    CHECK_THAT(job.rank(0).ask("put 1 1 1000001 1"), Catch::StartsWith("error 4"));
    CHECK_THAT(job.rank(0).ask("put 3 1 0 1"), Catch::StartsWith("error 4"));
    CHECK(job.rank(0).ask("put 1 1 999999 1") == "ok");
    CHECK(job.rank(1).ask("await 0 1") == "ok");
    CHECK(job.rank(1).ask("check 1 999999 1") == "ok");
    check_all_ok(job.ask("allreduce 10"));
  }
}

TEST_CASE("windows of different sizes over hosts are refused at all ranks", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1});
  check_all_ok(job.init());
  job.rank(0).tell("window 10");
  job.rank(1).tell("window 20");
  check_all_say(job.answers(), {"error 4", "give all ranks' windows one size"});
}

TEST_CASE("a put to a rank of another host ends when that rank does", "[processes]") {
  if (is_skipped()) return;
  for (const auto& [name, environment] : both_engines()) {
    DYNAMIC_SECTION(name) {
      SlowPut slow(with(environment, "SCCL_HOST_TIMEOUT_MS", "3000"));
      Job& job = slow.job;
      job.rank(0).tell("put 1 30000000 0 1");
      CHECK(job.rank(0).answer(1) == "(no answer)");
      SECTION("killed") {
        job.rank(1).signal(SIGKILL);
        CHECK_THAT(job.rank(0).answer(10),
                   Catch::StartsWith("error") && Catch::Contains("rank 1") && Catch::Contains("ended"));
      }
      SECTION("aborted") {
        CHECK(job.rank(1).ask("abort") == "ok");
        CHECK_THAT(job.rank(0).answer(10),
                   Catch::StartsWith("error") && Catch::Contains("rank 1") && Catch::Contains("was aborted"));
      }
      SECTION("its host lost") {
        slow.hosts.set_link(1, false);
        CHECK_THAT(job.rank(0).answer(10),
                   Catch::StartsWith("error") && Catch::Contains("rank 1") && Catch::Contains("not heard of"));
      }
    }
  }
}

TEST_CASE("a rank that waits for a signal of another host is told when none can come", "[processes]") {
  if (is_skipped()) return;
  for (const auto& [name, environment] : both_engines()) {
    DYNAMIC_SECTION(name) {
      SlowPut slow(with(environment, "SCCL_HOST_TIMEOUT_MS", "3000"));
      Job& job = slow.job;
      job.rank(0).tell("put 1 30000000 0 1");
      job.rank(1).tell("await 0 1");
      CHECK(job.rank(1).answer(1) == "(no answer)");
      SECTION("the source is killed in the middle of its put") {
        job.rank(0).signal(SIGKILL);
        CHECK_THAT(job.rank(1).answer(10),
                   Catch::StartsWith("error") && Catch::Contains("rank 0") && Catch::Contains("ended"));
      }
      SECTION("its host is lost") {
        slow.hosts.set_link(0, false);
        CHECK_THAT(job.rank(1).answer(10),
                   Catch::StartsWith("error") && Catch::Contains("rank 0") && Catch::Contains("not heard of"));
      }
    }
  }
}

TEST_CASE("an abort in the middle of a put over hosts ends it, and is told", "[processes]") {
  if (is_skipped()) return;
  for (const auto& [name, environment] : both_engines()) {
    INFO(name);
    SlowPut slow(environment);
    slow.job.rank(1).tell("await 0 1");
    CHECK_THAT(slow.job.rank(0).ask("putabort 1 30000000 0 1"),
               Catch::StartsWith("error") && Catch::Contains("was aborted"));
    CHECK_THAT(slow.job.rank(1).answer(10),
               Catch::StartsWith("error") && Catch::Contains("rank 0") && Catch::Contains("aborted"));
  }
}

TEST_CASE("a rank that was revoked is not waited for by those that need its signal or its window", "[processes]") {
  if (is_skipped()) return;
  Windows windows({}, "1000");
  Job& job = windows.job;
  job.rank(0).tell("await 1 1");
  CHECK(job.rank(0).answer(1) == "(no answer)");
  CHECK(job.rank(1).ask("revoke") == "ok");
  job.rank(2).tell("window 1000");
  check_all_say(job.answers({1}), {"error", "rank 1", "beta", "revoked its communicator"});
  check_all_say(job.ask("shrink 1", {1}), {"of 2"});
}
