// Net plugins send long messages from registered buffers of the program as they lie there, and receive into them.
#include <catch2/catch.hpp>
#include <csignal>

#include "checks.h"
#include "logs.h"

using namespace hosts_test;

namespace {

// In no other registration.
constexpr const char* kBytes = "1200004";

Environment with_plugin(const Logs& logs, const std::string& fault = "") {
  return {{"SCCL_NET", "plugin"},
          {"NCCL_NET_PLUGIN", NET_PLUGIN},
          {"SCCL_TEST_NET_FAULT", fault},
          {"SCCL_TEST_NET_LOG", logs.file("plugin", "")}};
}

int told(const Logs& logs, const std::string& what) { return logs.count(what + " " + kBytes + "\n"); }
int registrations_left(const Logs& logs) { return told(logs, "\nregister") - told(logs, "deregister"); }

// The ranks exchange registered buffers of kBytes by `order`, so many times: the plugin does `what` with them, and has
// given them back.
void check_in_place(const std::vector<int>& hosts_of_ranks, const std::string& order, const std::string& what,
                    int times) {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, hosts_of_ranks, with_plugin(logs));
  check_all_ok(job.init());
  for (int time = 0; time < times; ++time) check_all_ok(job.ask(order + " registered"));
  CHECK(told(logs, what) >= 2);
  CHECK(told(logs, "\nregister") >= 2);
  CHECK(registrations_left(logs) == 0);
  check_all_ok(job.ask("data 100000"));
}

// Buffers that are not registered, and those that the plugin refuses: it does not do `what` with them.
void check_through_slots(const std::string& order, const std::string& what) {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  const bool refuses = GENERATE(false, true);
  Job job(hosts, {0, 1}, with_plugin(logs, refuses ? std::string("refuse:") + kBytes : ""));
  check_all_ok(job.init());
  check_all_ok(job.ask(order + (refuses ? " registered" : " plain")));
  CHECK(told(logs, what) == 0);
  CHECK(told(logs, "\nregister") == 0);
}

}  // namespace

TEST_CASE("a net plugin sends from registered buffers, and has given them back when the program gets them back",
          "[processes]") {
  check_in_place({0, 1, 1}, std::string("own ") + kBytes, "send from", 1);
}

TEST_CASE("a net plugin sends from memory of ncclMemAlloc, also when it was given back and made again", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1}, with_plugin(logs));
  check_all_ok(job.init());
  // Whole pages.
  for (int round = 0; round < 3; ++round) check_all_ok(job.ask("own 1212416 allocated"));
  CHECK(logs.count("send from 1212416\n") >= 2);
  // The last one of each rank ends with its communicator.
  CHECK(logs.count("\nregister 1212416\n") - logs.count("deregister 1212416\n") <= 2);
  check_all_ok(job.ask("destroy"));
  CHECK(logs.count("\nregister 1212416\n") == logs.count("deregister 1212416\n"));
}

TEST_CASE("other buffers, and those that a net plugin refuses, are sent through slots", "[processes]") {
  check_through_slots(std::string("own ") + kBytes, "send from");
}

TEST_CASE("a call that ends early takes registered buffers back from a net plugin before it returns", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  auto environment = with_plugin(logs);
  environment["SCCL_TIMEOUT_MS"] = "2000";
  Job job(hosts, {0, 1}, environment);
  check_all_ok(job.init());
  check_all_ok(job.ask("own 300000 plain"));  // connects
  job.rank(1).signal(SIGSTOP);
  const std::string answer = job.rank(0).ask("own 50000000 registered");
  CHECK_THAT(answer, Catch::StartsWith("error") && Catch::Contains("rank 1"));
  CHECK(logs.count("send from 50000000\n") >= 1);
  CHECK(logs.count("\nregister 50000000\n") == logs.count("deregister 50000000\n"));
  CHECK(job.rank(0).ask("abort") == "ok");
}

TEST_CASE("a net plugin receives into registered results, and has given them back when the program gets them back",
          "[processes]") {
  // Of two ranks only the first to call is sure to know its result when the other one's payload is announced.
  check_in_place({0, 1}, "result 600002", "receive into", 2);
}

TEST_CASE("other results, and those that a net plugin refuses, are received through slots", "[processes]") {
  check_through_slots("result 600002", "receive into");
}

TEST_CASE("a call that ends early takes registered results back from a net plugin before it returns", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  auto environment = with_plugin(logs, "stall:3");
  environment["SCCL_TIMEOUT_MS"] = "1000";
  Job job(hosts, {0, 1}, environment);
  check_all_ok(job.init());
  for (const std::string& answer : job.ask("result 10000000 registered"))
    CHECK_THAT(answer, Catch::StartsWith("error"));
  CHECK(logs.count("receive into 20000000\n") >= 1);
  CHECK(logs.count("\nregister 20000000\n") >= 1);
  CHECK(logs.count("\nregister 20000000\n") == logs.count("deregister 20000000\n"));
  check_all_ok(job.ask("abort"));
}
