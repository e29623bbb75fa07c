// Kinds of networks, ranks and communicators: IPv6 alone, small packets, ranks as threads, calls that do not block,
// communicators that grow, ids that are none.
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "checks.h"

using namespace hosts_test;

namespace {

// Of three ranks on the two hosts, in short and long calls.
void check_data(const Hosts& hosts) {
  Job job(hosts, {0, 1, 1});
  check_all_ok(job.init());
  for (const char* const count : {"1", "5000", "300000"}) check_all_ok(job.ask(std::string("data ") + count));
}

}  // namespace

TEST_CASE("hosts that have IPv6 alone have the right data", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"}, Family::ipv6);
  check_data(hosts);
}

TEST_CASE("packets of 1280 bytes carry the right data", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  for (int host = 0; host < 2; ++host) hosts.run(host, "ip link set eth0 mtu 1280");
  check_data(hosts);
}

TEST_CASE("ranks that are threads meet ranks of other hosts", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1});
  const std::string id = job.make_id();
  job.rank(0).tell("threads " + id + " 5 0 2");
  job.rank(1).tell("threads " + id + " 5 2 3");
  check_all_ok(job.answers());
}

TEST_CASE("communicators that do not block span hosts", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1, 1});
  const std::string id = job.make_id();
  for (int rank = 0; rank < 3; ++rank) job.rank(rank).tell("patient " + id + " 3 " + std::to_string(rank));
  check_all_ok(job.answers());
}

TEST_CASE("a communicator grows by ranks of a host that it had, and of one that is new", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta", "gamma"});
  Job job(hosts, {0, 1, 1, 2});
  const std::string id = job.make_id();
  for (int rank = 0; rank < 2; ++rank) job.rank(rank).tell("init " + id + " 2 " + std::to_string(rank));
  check_all_ok(job.answers({2, 3}));
  const std::string more = job.rank(0).ask("growid");
  job.rank(0).tell("grow 4 " + more);
  job.rank(1).tell("grow 4");
  for (int rank = 2; rank < 4; ++rank) job.rank(rank).tell("grow 4 " + more + " " + std::to_string(rank));
  check_all_say(job.answers(), {"ok", "of 4"});
  check_all_ok(job.ask("data 5000"));
}

TEST_CASE("128 random bytes are no id, and every rank is told", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 1});
  std::string id;
  for (int i = 0; i < 128; ++i) id += "4a7e03c1f6"[static_cast<std::size_t>(i) % 10] + std::string("b");
  for (int rank = 0; rank < 2; ++rank) job.rank(rank).tell("init " + id + " 2 " + std::to_string(rank));
  const std::vector<std::string> answers = job.answers();
  check_all_say(answers, {"error", "the unique id was not made by this library"});
  CHECK_THAT(answers[1], Catch::Contains("rank 1 on host beta"));
}

TEST_CASE("hosts of one name move the right data", "[processes]") {
  if (is_skipped()) return;
  const Hosts twins({"node", "node"});
  Job job(twins, {0, 1, 0});
  check_all_ok(job.init());
  check_all_ok(job.ask("data 5000"));
}

TEST_CASE("hosts with different versions of UCX move the right data", "[processes]") {
  if (is_skipped()) return;
  // For instance that of PyPI's libucx-cu13, unpacked: SCCL_TEST_UCX=libucx/lib
  const char* const other = std::getenv("SCCL_TEST_UCX");
  if (other == nullptr) return sccl_test::skip("SCCL_TEST_UCX names no folder with another libucp.so.0");
  const Hosts hosts({"alpha", "beta", "gamma"});
  Job job(hosts, {0, 1, 1, 2}, {{"SCCL_NET", "ucx"}}, {{1, {{"LD_LIBRARY_PATH", other}}}});
  check_all_ok(job.init());
  for (const char* const count : {"1", "5000", "300000"}) check_all_ok(job.ask(std::string("data ") + count));
  job.rank(3).signal(SIGKILL);
  check_all_say(job.ask("allreduce 1000000", {3}), {"error", "rank 3"});
}

TEST_CASE("hosts on a grid meet through leaders, move the right data, and are told of an end", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta", "gamma", "delta", "epsilon"});
  Job job(hosts, {0, 1, 2, 3, 4, 4}, {{"SCCL_HOST_FANOUT", "2"}});
  check_all_ok(job.init());
  for (const char* const count : {"1", "5000"}) check_all_ok(job.ask(std::string("data ") + count));
  // Hosts alpha and epsilon are not connected: 0 1 2 / 3 4.
  job.rank(0).signal(SIGKILL);
  check_all_say(job.ask("allreduce 1000000", {0}), {"error", "rank 0", "alpha", "ended"});
}
