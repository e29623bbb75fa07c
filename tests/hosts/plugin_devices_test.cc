// Which devices of a net plugin the ranks of a host use.
#include <catch2/catch.hpp>

#include "checks.h"
#include "logs.h"

using namespace hosts_test;

namespace {

Environment two_devices(const Logs& logs) {
  return {{"SCCL_NET", "plugin"},
          {"NCCL_NET_PLUGIN", NET_PLUGIN},
          {"SCCL_TEST_NET_PCI", "/nowhere/a,/nowhere/b"},
          {"SCCL_TEST_NET_LOG", logs.file("plugin", "")}};
}

int listens(const Logs& logs, const std::string& device) { return logs.count("listen on device " + device + "\n"); }

}  // namespace

// The test of a plugin before its use listens on the first device.
TEST_CASE("a device that NCCL_IB_HCA allows alone is used alone", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Environment environment = two_devices(logs);
  environment["NCCL_IB_HCA"] = "=tcp1";
  Job job(hosts, {0, 1}, environment);
  check_all_ok(job.init());
  const int of_tests = listens(logs, "0");
  check_all_ok(job.ask("data 100000"));
  CHECK(listens(logs, "0") == of_tests);
  CHECK(listens(logs, "1") >= 2);
}

TEST_CASE("ranks of a host that have no device of their own take the devices in turns", "[processes]") {
  if (is_skipped()) return;
  const Logs logs;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 0, 1, 1}, two_devices(logs));
  check_all_ok(job.init());
  check_all_ok(job.ask("data 100000"));
  CHECK(listens(logs, "0") >= 2);
  CHECK(listens(logs, "1") >= 2);
}
