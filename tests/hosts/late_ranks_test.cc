// Reductions by the ranks that are there (SCCL_ARRIVAL) over several hosts: each host's ranks reduce as they come, and
// one of them joins the hosts. Right data, the same bits, and what ends is told.
#include <catch2/catch.hpp>
#include <csignal>
#include <set>
#include <sstream>

#include "checks.h"
#include "logs.h"

using namespace hosts_test;

namespace {

constexpr const char* kForms[] = {"eager", "leader", "chain"};

Environment form(const char* name) { return {{"SCCL_ARRIVAL", name}}; }

struct Shape {
  std::vector<std::string> names;
  std::vector<int> host_of;
};
const Shape kTwo{{"alpha", "beta"}, {0, 0, 0, 1, 1}};
const Shape kDealtOut{{"alpha", "beta"}, {0, 1, 1, 0}};
const Shape kThree{{"alpha", "beta", "gamma"}, {0, 1, 1, 2, 2, 2}};

// The hashes that ranks answer, each one's in one text.
std::set<std::string> different_bits(Job& job, const std::string& command) {
  const std::vector<std::string> answers = job.ask(command);
  check_all_ok(answers);
  return {answers.begin(), answers.end()};
}

// Ranks 0 and 1 on alpha, 2 and 3 on beta, in a call of `count` elements that waits for the `missing` ones.
struct Waiting {
  Waiting(const char* name, const std::string& call, const std::vector<int>& missing)
      : hosts({"alpha", "beta"}), job(hosts, {0, 0, 1, 1}, form(name)) {
    check_all_ok(job.init());
    check_all_ok(job.ask(call));
    job.tell(call, missing);
    CHECK(job.rank(0).answer(1) == "(no answer)");
  }

  Hosts hosts;
  Job job;
};

}  // namespace

TEST_CASE("ranks of several hosts reduce as they come and get the right data", "[processes]") {
  if (is_skipped()) return;
  for (const Shape& shape : {kTwo, kDealtOut, kThree}) {
    const Hosts hosts(shape.names);
    for (const char* name : kForms) {
      INFO(name << ", " << shape.host_of.size() << " ranks");
      Job job(hosts, shape.host_of, form(name));
      check_all_ok(job.init());
      for (const char* const count : {"1", "5000", "300007"}) {
        job.tell(std::string("data ") + count);
        check_all_ok(job.answers({}, 60));
      }
      check_all_ok(job.ask("destroy"));
    }
  }
}

TEST_CASE("ranks of several hosts reduce every type with every operation as they come", "[processes]") {
  if (is_skipped()) return;
  for (const Shape& shape : {kTwo, kThree}) {
    const Hosts hosts(shape.names);
    for (const char* name : kForms) {
      INFO(name << ", " << shape.host_of.size() << " ranks");
      Job job(hosts, shape.host_of, form(name));
      check_all_ok(job.init());
      for (const char* const count : {"3", "8200"}) check_all_ok(job.ask(std::string("reductions ") + count));
    }
  }
}

// 5 Mi floats go round the memory of a chain of one rank or two; a block of slices is a Mi bytes.
TEST_CASE("chains over hosts reduce buffers that are longer than their memory", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  Environment settings = form("chain");
  settings["SCCL_MEM_LIMIT"] = "16000000";  // 2 Mi floats for each rank, so that 5 Mi go round
  Job job(hosts, {0, 1, 1}, settings);
  check_all_ok(job.init());
  for (int call = 0; call < 2; ++call) {
    job.tell("allreduce 5000017");
    check_all_ok(job.answers({}, 60));
  }
}

TEST_CASE("ranks that are threads of several hosts reduce as they come", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  for (const char* name : kForms) {
    Job job(hosts, {0, 1}, form(name));
    const std::string id = job.make_id();
    job.rank(0).tell("threads " + id + " 5 0 2");
    job.rank(1).tell("threads " + id + " 5 2 3");
    check_all_ok(job.answers());
  }
}

TEST_CASE("ranks of several hosts get the same bits, over a fixed tree in every run", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts(kThree.names);
  for (const char* name : kForms) {
    INFO(name);
    std::set<std::string> bits;
    for (const char* seed : {"1", "2"}) {
      Job job(hosts, kThree.host_of, form(name));
      check_all_ok(job.init());
      for (const char* count : {"1000", "24581"}) {  // exchanged in one step, and in parts
        const auto found = different_bits(job, std::string("bits ") + count + " 8 " + seed);
        CHECK(found.size() == 1);
        bits.merge(std::set(found));
      }
    }
    if (std::string(name) != "eager") continue;
    CHECK(bits.size() == 2);  // one text for each length
    for (const std::string& text : bits) {
      std::istringstream words(text.substr(3));
      std::set<std::string> calls;
      for (std::string word; words >> word;) calls.insert(word);
      CHECK(calls.size() == 1);
    }
  }
}

TEST_CASE("a rank that ends before it comes is named on all hosts", "[processes]") {
  if (is_skipped()) return;
  const char* const name = GENERATE(from_range(std::begin(kForms), std::end(kForms)));
  // The rank that joins beta to alpha; another one; of two ranks the one that comes first and leads.
  const auto [missing, killed] = GENERATE(table<std::vector<int>, int>({{{2}, 2}, {{3}, 3}, {{3}, 2}}));
  INFO(name << ", " << killed << " is killed");
  Waiting waiting(name, "allreduce 100000", missing);
  waiting.job.rank(killed).signal(SIGKILL);
  std::vector<int> silent = missing;
  if (silent.front() != killed) silent.push_back(killed);
  check_all_say(waiting.job.answers(silent), {"error", "rank " + std::to_string(killed), "beta", "ended"});
}

// The link is slow enough that the exchange would go on for half a minute.
TEST_CASE("a rank that ends while it joins its host to another one is named on all hosts", "[processes]") {
  if (is_skipped()) return;
  const char* const name = GENERATE(from_range(std::begin(kForms), std::end(kForms)));
  const int killed = GENERATE(0, 2);
  INFO(name << ", " << killed << " is killed");
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 0, 1, 1}, form(name));
  check_all_ok(job.init());
  check_all_ok(job.ask("allreduce 100"));
  for (int host = 0; host < 2; ++host) hosts.set_rate(host, "1mbit");
  job.tell("allreduce 1000000");
  CHECK(job.rank(0).answer(1) == "(no answer)");
  job.rank(killed).signal(SIGKILL);
  // The news of the end shares the slow link; the engine may know before.
  check_all_say(job.answers({killed}), {"error", "rank " + std::to_string(killed)});
}

TEST_CASE("an abort of a rank that has come ends the call of ranks that reduce as they come on all hosts",
          "[processes]") {
  if (is_skipped()) return;
  const char* const name = GENERATE(from_range(std::begin(kForms), std::end(kForms)));
  INFO(name);
  Waiting waiting(name, "allreduce 1000", {3});
  CHECK(waiting.job.rank(3).ask("abort") == "ok");
  check_all_say(waiting.job.answers({3}), {"error", "rank 3", "was aborted"});
}

TEST_CASE("ranks of several hosts that reduce different counts as they come are told both calls", "[processes]") {
  if (is_skipped()) return;
  const char* const name = GENERATE(from_range(std::begin(kForms), std::end(kForms)));
  INFO(name);
  const Hosts hosts({"alpha", "beta"});
  Job job(hosts, {0, 0, 1, 1}, form(name));
  check_all_ok(job.init());
  for (int rank = 0; rank < 4; ++rank) job.rank(rank).tell(rank < 2 ? "allreduce 100" : "allreduce 200");
  check_all_say(job.answers(), {"error", "AllReduce(count=100", "AllReduce(count=200"});
}

// A trial has 8 turns of 128 calls. Where rank 0 is late, the arrivals of its own host open one for certain. Of another
// host's ranks rank 0 knows only the times in calls, which a busy machine makes long for all.
TEST_CASE("with auto ranks of several hosts change between forms at the same calls", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  const int late = GENERATE(0, 3);
  INFO("rank " << late << " is late");
  const Logs logs;
  Environment settings = logs.environment();
  settings["SCCL_ARRIVAL"] = "auto";
  Job job(hosts, {0, 0, 1, 1}, settings);
  check_all_ok(job.init());
  job.tell("integers 1500 " + std::to_string(late) + " 1000");
  check_all_ok(job.answers({}, 60));
  if (late == 0) CHECK(logs.count("reduced by the ranks that are there: they come") > 0);
  check_all_ok(job.ask("data 5000"));
  check_all_ok(job.ask("destroy"));
}

TEST_CASE("a rank that ends while ranks of several hosts change between forms is named on all hosts", "[processes]") {
  if (is_skipped()) return;
  const Hosts hosts({"alpha", "beta"});
  const int killed = GENERATE(0, 2, 3);
  INFO("rank " << killed << " is killed");
  Job job(hosts, {0, 0, 1, 1}, form("auto"));
  check_all_ok(job.init());
  job.tell("integers 1000000 1 200");
  CHECK(job.rank(1).answer(1) == "(no answer)");
  job.rank(killed).signal(SIGKILL);
  check_all_say(job.answers({killed}), {"error", "rank " + std::to_string(killed), "ended"});
}
