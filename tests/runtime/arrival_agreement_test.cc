// Over hosts: all ranks learn in time which calls are reduced by the ranks that are there.
#include "runtime/host/choosing/arrival_agreement.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

using namespace sccl::runtime;

namespace {

using Forms = ArrivalAgreement::Forms;

constexpr std::uint64_t kMsNs = 1'000'000;

// A rank that has the word in its own memory, or in a mirror.
struct Member {
  std::atomic<std::uint64_t> word{0};
  ArrivalAgreement agreement{word};
  std::uint64_t call = 0;  // that it has ended

  // False: it must wait.
  bool begin_next() { return !agreement.is_due(call + 1) || agreement.settle(call + 1); }
};

}  // namespace

TEST_CASE("a decision holds at every rank from the point on, and ranks without it wait there") {
  Member zero;
  Member other;
  for (std::uint64_t call = 1; call < 64; ++call) CHECK_FALSE(zero.agreement.may_decide(call));
  REQUIRE(zero.agreement.may_decide(64));
  zero.agreement.decide(Forms(5), 64, kMsNs);
  CHECK_FALSE(zero.agreement.may_decide(65));
  CHECK(zero.agreement.forms() == Forms(0));
  CHECK_FALSE(other.agreement.is_due(127));
  REQUIRE(other.agreement.is_due(128));
  CHECK_FALSE(other.agreement.settle(128));
  other.word = zero.word.load();
  CHECK(other.agreement.settle(128));
  CHECK(other.agreement.forms() == Forms(5));
  CHECK_FALSE(other.agreement.is_due(129));
  CHECK_FALSE(zero.agreement.may_decide(127));
  CHECK(zero.agreement.settle(128));
  CHECK(zero.agreement.forms() == Forms(5));
}

TEST_CASE("the point moves to the first call that may be one, at all ranks") {
  Member zero;
  Member other;
  zero.agreement.decide(Forms(1), 100, kMsNs);
  other.word = zero.word.load();
  CHECK(zero.agreement.settle(140));
  CHECK(other.agreement.settle(140));
  for (Member* member : {&zero, &other}) {
    CHECK_FALSE(member->agreement.is_due(140 + 127));
    CHECK(member->agreement.is_due(140 + 128));
  }
}

TEST_CASE("points of fast calls are further apart, but not without end") {
  const auto next_point = [](std::uint64_t ns_for_each_call) {
    Member zero;
    zero.agreement.decide(Forms(), 64, kMsNs);
    REQUIRE(zero.agreement.settle(128));
    zero.agreement.decide(Forms(), 192, kMsNs + 128 * ns_for_each_call);
    REQUIRE(zero.agreement.settle(256));
    std::uint64_t call = 257;
    while (!zero.agreement.is_due(call)) ++call;
    return call - 256;
  };
  CHECK(next_point(2 * kMsNs) == 128);
  CHECK(next_point(100'000) == 1024);  // 100 ms are 1000 calls
  CHECK(next_point(1) == 4096);
}

TEST_CASE("a word that an agent has stored again late holds nobody's next decision") {
  Member zero;
  Member other;
  zero.agreement.decide(Forms(1), 64, kMsNs);
  const std::uint64_t old = zero.word;
  other.word = old;
  REQUIRE(zero.agreement.settle(128));
  REQUIRE(other.agreement.settle(128));
  zero.agreement.decide(Forms(2), 192, 2 * kMsNs);
  REQUIRE(other.agreement.is_due(256));
  CHECK_FALSE(other.agreement.settle(256));
  other.word = zero.word.load();
  other.word = old;
  CHECK_FALSE(other.agreement.settle(256));
  CHECK(other.agreement.forms() == Forms(1));
  other.word = zero.word.load();
  CHECK(other.agreement.settle(256));
  CHECK(other.agreement.forms() == Forms(2));
}

// Ranks make calls in any interleaving that leaves none a whole call ahead of another one: all calls need everyone.
TEST_CASE("ranks whose news come at any time serve every call alike") {
  std::mt19937_64 random(Catch::rngSeed());
  INFO("seed " << Catch::rngSeed());
  constexpr std::size_t kRanks = 4;
  constexpr std::uint64_t kCalls = 20'000;
  std::vector<Member> ranks(kRanks);
  std::map<std::uint64_t, unsigned long long> forms;  // by call
  std::uint64_t decisions = 0;
  std::uint64_t waits = 0;
  const auto slowest = [&] {
    std::uint64_t call = kCalls;
    for (const Member& rank : ranks) call = std::min(call, rank.call);
    return call;
  };
  for (std::uint64_t ns = 0; slowest() < kCalls; ns += 100'000) {
    const std::size_t at = random() % kRanks;
    Member& rank = ranks[at];
    if (at > 0 && random() % 500 == 0) rank.word = ranks[0].word.load();  // the agent's look
    if (rank.call > slowest()) continue;
    if (at == 0 && rank.agreement.may_decide(rank.call + 1) &&
        (random() % 50 == 0 || rank.agreement.is_due(rank.call + 1))) {
      rank.agreement.decide(Forms(random()), rank.call + 1, ns);
      ++decisions;
    }
    if (!rank.begin_next()) {
      ++waits;
      REQUIRE(at > 0);
      continue;
    }
    ++rank.call;
    const unsigned long long bits = rank.agreement.forms().to_ullong();
    const auto [entry, is_new] = forms.emplace(rank.call, bits);
    REQUIRE(entry->second == bits);
  }
  CHECK(decisions > 10);
  CHECK(waits > 0);
}
