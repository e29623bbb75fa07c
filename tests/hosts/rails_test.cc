// Hosts with several interfaces use all of them for large messages.
#include <algorithm>

#include "checks.h"

using namespace hosts_test;

namespace {

long long sent_bytes(const Hosts& hosts, int host, int interface) {
  return std::stoll(hosts.run(host, "cat /sys/class/net/eth" + std::to_string(interface) + "/statistics/tx_bytes"));
}

// As much as fits one of two ranks.
const std::string kLarge = "allreduce 4000000";

}  // namespace

TEST_CASE("two interfaces of two hosts share large messages, and data are right", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"}, {2, 2});
  Job job(hosts, {0, 1, 1, 0}, {{"SCCL_NET", "ucx"}});
  check_all_ok(job.init());
  check_all_ok(job.ask(kLarge));
  check_all_ok(job.ask("data 3001"));
  const long long first = sent_bytes(hosts, 0, 0);
  const long long second = sent_bytes(hosts, 0, 1);
  CAPTURE(first, second);
  CHECK(second > 4'000'000);
  CHECK(std::max(first, second) < 2 * std::min(first, second));
  check_all_ok(job.ask("destroy"));
}

TEST_CASE("hosts with different numbers of interfaces work together", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta", "gamma"}, {1, 2, 3});
  Job job(hosts, {0, 1, 2, 2, 1}, {{"SCCL_NET", "ucx"}});
  check_all_ok(job.init());
  check_all_ok(job.ask("data 3001"));
  check_all_ok(job.ask(kLarge));
  CHECK(sent_bytes(hosts, 1, 1) > 1'000'000);
  check_all_ok(job.ask("destroy"));
}

TEST_CASE("only interfaces that NCCL_SOCKET_IFNAME allows share messages", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"}, {2, 2});
  Job job(hosts, {0, 1}, {{"SCCL_NET", "ucx"}, {"NCCL_SOCKET_IFNAME", "=eth1"}});
  check_all_ok(job.init());
  check_all_ok(job.ask(kLarge));
  CHECK(sent_bytes(hosts, 0, 0) < 100'000);
}

TEST_CASE("an interface that does not reach the other host is left out", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"}, {2, 2});
  // Nothing that goes to eth1 of beta arrives.
  hosts.run(0, "ip neigh replace " + hosts.address(1, 1) + " lladdr 02:00:00:00:00:99 dev eth1 nud permanent");
  Job job(hosts, {0, 1}, {{"SCCL_NET", "ucx"}});
  check_all_ok(job.init());
  check_all_ok(job.ask(kLarge));
}

TEST_CASE("an interface that loses its cable is named by the ranks that miss what comes over it", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"}, {2, 2});
  Job job(hosts, {0, 1}, {{"SCCL_NET", "ucx"}, {"SCCL_HOST_TIMEOUT_MS", "1500"}});
  check_all_ok(job.init());
  check_all_ok(job.ask(kLarge));
  hosts.set_link(1, false, 1);
  const std::vector<std::string> answers = job.ask(kLarge);
  bool any_named = false;
  for (const std::string& answer : answers) {
    CHECK_THAT(answer, Catch::StartsWith("error"));
    any_named = any_named ||
                (answer.find("on host ") != std::string::npos && answer.find("eth1 (10.77.1.") != std::string::npos);
  }
  CAPTURE(answers);
  CHECK(any_named);
}
