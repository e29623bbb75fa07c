// The table: which fault, at which moment, with which outcome. No cell may hang, crash, leak, or name nobody.
#include <catch2/catch.hpp>
#include <random>

#include "harness.h"
#include "moments.h"

using namespace faults_test;

namespace {

struct Expectation {
  std::vector<ncclResult_t> results;  // any of them, at every survivor; with ncclSuccess the fault may go unnoticed
  std::vector<std::string> words;     // one of them in every survivor's last error; "#" stands for the victim
  double within_seconds;
};

const double kAnyTime = 1e9;
// Far less than any deadline, with room for a busy machine; bench/faults asks for two seconds.
const double kSoonSeconds = 10;
const int kInitTimeoutMs = 8000;

const Expectation kNamed{{ncclRemoteError}, {"rank # (process", "memory of rank # "}, kSoonSeconds};
// A rank that died in init is told by the root, or named missing after the deadline, or met in the first call.
const Expectation kNamedOrMissing{{ncclRemoteError, ncclSystemError},
                                  {"rank # (", "memory of rank # ", "rank # did not come"},
                                  kInitTimeoutMs * 1e-3 + kSoonSeconds};
// In a child ranks are numbered anew ("@" stands for the victim); its errors tell both numbers.
const Expectation kNamedInChild{
    {ncclRemoteError},
    {"rank # (process", "(rank # of the parent communicator, process", "memory of rank @ ", "of its parent"},
    kSoonSeconds};
const Expectation kAbortedInChild{
    {ncclInvalidUsage, ncclRemoteError}, {"rank #", "rank @", "of its parent"}, kSoonSeconds};
const Expectation kUnnoticed{{ncclSuccess}, {""}, kAnyTime};
// Who disagrees is told, and so are those who are told by a rank that was told.
const Expectation kDisagreement{{ncclInvalidUsage}, {"rank #"}, kSoonSeconds};
const Expectation kAborted{{ncclInvalidUsage, ncclRemoteError}, {"rank #"}, kSoonSeconds};

struct Row {
  Fault fault;
  Moment moment;
  Expectation expected;
};

std::vector<Row> table() {
  std::vector<Row> rows;
  for (const Moment& moment : {small_calls(), slot_calls(), large_calls(), bulk_calls(), eager_calls(), led_calls(),
                               chained_calls(), grouped_calls()}) {
    rows.push_back({Fault::kill, moment, kNamed});
    rows.push_back({Fault::stop, moment, kUnnoticed});
    rows.push_back({Fault::exit, moment, kNamed});
    rows.push_back({Fault::abort, moment, kAborted});
    rows.push_back({Fault::leave, moment, kNamed});
    rows.push_back({Fault::mismatch, moment, kDisagreement});
  }
  rows.push_back({Fault::kill, splits(), kNamedInChild});
  rows.push_back({Fault::stop, splits(), kUnnoticed});
  rows.push_back({Fault::exit, splits(), kNamedInChild});
  rows.push_back({Fault::abort, splits(), kAbortedInChild});
  rows.push_back({Fault::leave, splits(), kNamedInChild});
  rows.push_back({Fault::mismatch, splits(), kDisagreement});
  for (const Moment& moment : {finalizes(), non_blocking_calls()}) {
    rows.push_back({Fault::kill, moment, kNamedInChild});
    rows.push_back({Fault::stop, moment, kUnnoticed});
    rows.push_back({Fault::exit, moment, kNamedInChild});
    rows.push_back({Fault::abort, moment, kAbortedInChild});
    rows.push_back({Fault::leave, moment, kNamedInChild});
  }
  rows.push_back({Fault::mismatch, non_blocking_calls(), kDisagreement});
  rows.push_back({Fault::kill, init_moment(), kNamedOrMissing});
  rows.push_back({Fault::stop, init_moment(), kUnnoticed});
  rows.push_back({Fault::exit, init_moment(), kNamed});
  return rows;
}

std::string with_victim(std::string text, int victim) {
  if (const std::size_t place = text.find('#'); place != std::string::npos)
    text.replace(place, 1, std::to_string(victim));
  if (const std::size_t place = text.find('@'); place != std::string::npos)
    text.replace(place, 1, std::to_string(victim / 2));
  return text;
}

bool contains_any(const std::string& text, const std::vector<std::string>& words, int victim) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return text.find(with_victim(word, victim)) != std::string::npos;
  });
}

// "" when the survivor did as expected.
std::string complaint(const RankReport& report, const Expectation& expected, int victim) {
  if (!report.finished) return "did not finish. " + report.afterwards;
  if (std::find(expected.results.begin(), expected.results.end(), report.result) == expected.results.end())
    return std::string("got ") + ncclGetErrorString(report.result) + ": " + report.text;
  if (report.result != ncclSuccess && !contains_any(report.text, expected.words, victim))
    return "does not name the victim: " + report.text;
  if (report.result != ncclSuccess && report.seconds_after_fault > expected.within_seconds)
    return "took " + std::to_string(report.seconds_after_fault) + " s: " + report.text;
  return report.afterwards;
}

void check_survivors(const Plan& plan, const Outcome& outcome, const Expectation& expected) {
  for (int rank = 0; rank < static_cast<int>(outcome.ranks.size()); ++rank) {
    if (rank == plan.victim && plan.fault != Fault::stop) continue;
    INFO("rank " << rank);
    CHECK(complaint(outcome.ranks[static_cast<std::size_t>(rank)], expected, plan.victim) == "");
  }
}

void check(const Plan& plan, const Expectation& expected) {
  const Outcome outcome = run(plan);
  INFO(name(plan.fault) << " of rank " << plan.victim << " of " << plan.ranks << " in " << plan.moment.name << ", seed "
                        << plan.seed);
  INFO(outcome.places);
  CHECK_FALSE(outcome.hung);
  if (outcome.ranks.empty()) return;
  INFO("the victim itself: " << outcome.ranks[static_cast<std::size_t>(plan.victim)].text);
  check_survivors(plan, outcome, expected);
}

unsigned random_seed() { return std::random_device{}(); }

}  // namespace

TEST_CASE("every fault at every moment ends as the table says", "[slow][processes]") {
  for (const Row& row : table()) {
    Plan plan{row.fault, row.moment};
    plan.seed = random_seed();
    plan.victim = static_cast<int>(plan.seed / 7 % static_cast<unsigned>(plan.ranks));
    plan.environment = {{"SCCL_INIT_TIMEOUT_MS", std::to_string(kInitTimeoutMs)}};
    check(plan, row.expected);
  }
}

TEST_CASE("one of 8 ranks killed in a large AllReduce is named by all, who go on without it", "[processes]") {
  for (int repeat = 0; repeat < 5; ++repeat) {
    Plan plan{Fault::kill, all_reduces("an AllReduce of 8 MB", 2000000, 200)};
    plan.ranks = 8;
    plan.seed = random_seed();
    plan.victim = static_cast<int>(plan.seed % 8);
    check(plan, kNamed);
  }
}

TEST_CASE("a rank that leads, comes late or works for others is told like any other when it ends", "[processes]") {
  const std::pair<Fault, const Expectation*> faults[] = {
      {Fault::kill, &kNamed}, {Fault::stop, &kUnnoticed}, {Fault::abort, &kAborted}, {Fault::exit, &kNamed}};
  for (const char* form : {"eager", "leader", "chain"})
    for (const auto& [fault, expected] : faults)
      for (int repeat = 0; repeat < 2; ++repeat) {
        INFO("SCCL_ARRIVAL=" << form);
        Plan plan{fault, late_calls(form)};
        plan.ranks = 6;
        plan.seed = random_seed();
        plan.victim = static_cast<int>(plan.seed % 6);
        check(plan, *expected);
      }
}

TEST_CASE("survivors of a killed rank shrink its communicator and go on", "[processes]") {
  for (const Moment& moment : {small_calls(), bulk_calls(), large_calls()}) {
    Plan plan{Fault::kill, moment};
    plan.ranks = 8;
    plan.seed = random_seed();
    plan.victim = static_cast<int>(plan.seed % 8);
    plan.recovery = Plan::Recovery::shrink;
    check(plan, kNamed);
  }
}

TEST_CASE("an aborted call gives its buffers back before it returns", "[processes]") {
  for (int repeat = 0; repeat < 10; ++repeat) {
    Plan plan{Fault::abort, all_reduces("an AllReduce of 32 MB", 8000000, 4)};
    plan.ranks = 4;
    plan.seed = random_seed();
    plan.recovery = Plan::Recovery::none;
    plan.abort_within_us = 50000;
    const Outcome outcome = run(plan);
    INFO("seed " << plan.seed << " " << outcome.places);
    CHECK_FALSE(outcome.hung);
    for (const RankReport& report : outcome.ranks) CHECK(report.result != ncclInternalError);
  }
}

TEST_CASE("a killed rank is named without single copies, too", "[processes]") {
  Plan plan{Fault::kill, large_calls()};
  plan.seed = random_seed();
  plan.environment = {{"SCCL_DIRECT", "0"}};
  check(plan, kNamed);
}
