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

}  // namespace

TEST_CASE("a net plugin sends from registered buffers, and has given them back when the program gets them back",
          "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1, 1}, with_plugin(logs));
  check_all_ok(job.init());
  check_all_ok(job.ask(std::string("own ") + kBytes + " registered"));
  CHECK(told(logs, "send from") >= 2);
  CHECK(told(logs, "\nregister") >= 2);
  CHECK(registrations_left(logs) == 0);
  check_all_ok(job.ask("data 100000"));
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
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  const bool refuses = GENERATE(false, true);
  Job job(hosts, {0, 1}, with_plugin(logs, refuses ? std::string("refuse:") + kBytes : ""));
  check_all_ok(job.init());
  check_all_ok(job.ask(std::string("own ") + kBytes + (refuses ? " registered" : " plain")));
  CHECK(told(logs, "send from") == 0);
  CHECK(told(logs, "\nregister") == 0);
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
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1}, with_plugin(logs));
  check_all_ok(job.init());
  check_all_ok(job.ask("result 600002 registered"));
  CHECK(told(logs, "receive into") >= 2);
  CHECK(told(logs, "\nregister") >= 2);
  CHECK(registrations_left(logs) == 0);
  check_all_ok(job.ask("data 100000"));
}

TEST_CASE("other results, and those that a net plugin refuses, are received through slots", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  const bool refuses = GENERATE(false, true);
  Job job(hosts, {0, 1}, with_plugin(logs, refuses ? std::string("refuse:") + kBytes : ""));
  check_all_ok(job.init());
  check_all_ok(job.ask(refuses ? "result 600002 registered" : "result 600002 plain"));
  CHECK(told(logs, "receive into") == 0);
  CHECK(told(logs, "\nregister") == 0);
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
