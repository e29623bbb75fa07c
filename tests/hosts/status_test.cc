// What sccl status shows of ranks that wait for another host.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "checks.h"

using namespace hosts_test;

TEST_CASE("sccl status shows which of the slots for short messages a rank waits at", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta", "gamma"});
  Job job(hosts, {0, 1, 2}, {{"SCCL_STATUS", "1"}, {"SCCL_PROTO", "simple"}, {"SCCL_ALGO", "ring"}});
  check_all_ok(job.init());
  constexpr const char* kShort = "allreduce 4096";  // in a ring of three, two messages to each rank
  for (int call = 0; call < 6; ++call) check_all_ok(job.ask(kShort));
  Client& waiting = job.rank(1);
  waiting.tell(kShort);
  const std::string command = std::string(SCCL_COMMAND) + " status " + std::to_string(waiting.process()) + " 2>&1";
  std::string text;
  for (int asked = 0; asked < 200 && text.find(", slot ") == std::string::npos; ++asked) {
    text = hosts.run(waiting.host(), command);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK_THAT(text, Catch::Contains(": rank 0, slot 12\n"));
  INFO(text);
  job.tell(kShort, {1});
  check_all_ok(job.answers());
  check_all_ok(job.ask("destroy"));
}
