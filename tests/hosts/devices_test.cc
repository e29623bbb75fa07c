// Which interfaces carry data, and what is told of settings and interfaces that cannot.
#include "checks.h"

using namespace hosts_test;

TEST_CASE("interfaces that are down or have no address are not used", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"}, {2, 2});
  hosts.run(0, "ip link set eth1 down");
  hosts.run(1, "ip addr flush dev eth1");
  Job job(hosts, {0, 1, 1}, {{"SCCL_NET", "ucx"}});
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 1000000"));
}

TEST_CASE("an interface that comes up late is waited for", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"}, {2, 2});
  hosts.run(1, "ip link set eth1 down");
  const auto begin = [](Job& job) {
    const std::string id = job.make_id();
    for (int rank = 0; rank < job.ranks(); ++rank)
      job.rank(rank).tell("init " + id + " " + std::to_string(job.ranks()) + " " + std::to_string(rank));
  };
  for (const char* const variable : {"NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES"}) {
    CAPTURE(variable);
    const Environment late{{variable, "eth1"}, {"SCCL_NET", "ucx"}};
    SECTION(std::string(variable) + ", and comes") {
      Job job(hosts, {0, 1, 1}, {}, {{0, late}, {1, late}});
      begin(job);
      CHECK(job.rank(0).answer(1) == "(no answer)");
      hosts.run(1, "ip link set eth1 up");
      check_all_ok(job.answers());
      check_all_ok(job.ask("allreduce 1000000"));
    }
    SECTION(std::string(variable) + ", and does not come") {
      Environment short_of_time = late;
      short_of_time["SCCL_INIT_TIMEOUT_MS"] = "3000";
      Job job(hosts, {0, 1, 1}, {}, {{0, short_of_time}, {1, short_of_time}});
      begin(job);
      const std::vector<std::string> answers = job.answers();
      check_all_say(answers, {"error"});
      check_all_say({answers[1], answers[2]}, {std::string(variable) + "=eth1", "eth1 is down"});
    }
  }
}

TEST_CASE("devices that UCX_NET_DEVICES names and that are not there are told at init with those that are",
          "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  const auto answers_with = [&](const std::string& devices) {
    Job job(hosts, {0, 1, 1}, {{"SCCL_NET", "ucx"}}, {{1, {{"UCX_NET_DEVICES", devices}}}});
    return job.init();
  };
  check_all_say(answers_with("mlx5_7:1,eth7"),
                {"error", "rank 1 on host beta", "UCX_NET_DEVICES=mlx5_7:1,eth7", "eth7 is not there", "eth0, lo"});
  check_all_ok(answers_with("eth7,eth0"));
  check_all_ok(answers_with("all"));
}

TEST_CASE("a range of ports that is too small for UCX is an error, never a hang", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  const auto answers_with = [&](const std::string& range) {
    Job job(hosts, {0, 0, 0, 0, 1}, {{"SCCL_NET", "ucx"}, {"UCX_TCP_PORT_RANGE", range}});
    return job.init();
  };
  check_all_say(answers_with("21000-21001"),
                {"error", "on host alpha", "UCX_TCP_PORT_RANGE=21000-21001 has 0 free ports"});
  check_all_ok(answers_with("21000-21003"));
}

// UCX looks for a port for ever where the system has none.
TEST_CASE("a system without free ports is an error, never a hang", "[processes]") {
  if (is_skipped()) return;
  int told = 0;
  for (const int ports : {4, 6, 8}) {
    INFO(ports << " ports");
    const Hosts hosts({"alpha", "beta"});
    const std::string range = "40000 " + std::to_string(40000 + ports - 1);
    hosts.run(1, "sh -c \"echo " + range + " > /proc/sys/net/ipv4/ip_local_port_range\"");
    Job job(hosts, {0, 1, 1}, {{"SCCL_NET", "ucx"}, {"SCCL_INIT_TIMEOUT_MS", "10000"}});
    for (const std::string& answer : job.init()) {
      CHECK(answer != "(no answer)");
      told +=
          answer.find("on host beta") != std::string::npos && answer.find("ip_local_port_range") != std::string::npos;
    }
  }
  CHECK(told > 0);
}

TEST_CASE("settings of UCX that leave nothing that reaches another host are told at init", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  const auto check = [&](const Environment& of_beta, const std::vector<std::string>& parts) {
    Job job(hosts, {0, 1, 1}, {{"SCCL_NET", "ucx"}}, {{1, of_beta}});
    check_all_say(job.init(), parts);
  };
  for (const char* const transports : {"self", "sm,self", "^tcp"})
    check({{"UCX_TLS", transports}}, {"error", "rank 1 on host beta", std::string("UCX_TLS=") + transports,
                                      "none of which reaches another host", "add tcp"});
  check({{"UCX_TLS", "nothing_known"}}, {"error", "rank 1 on host beta", "UCX_TLS=nothing_known"});
  // Where UCX was not asked for, the setting is still the cause, and not that no engine is installed.
  Job job(hosts, {0, 1, 1}, {}, {{1, {{"UCX_TLS", "self"}}}});
  for (const std::string& answer : job.init())
    CHECK_THAT(answer, Catch::Contains("UCX_TLS=self has self") && Catch::Contains("leave the setting out") &&
                           !Catch::Contains("install UCX"));
  check({{"UCX_NET_DEVICES", "lo"}}, {"error", "rank 1 on host beta", "lo reaches no other host", "eth0"});
}
