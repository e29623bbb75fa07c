// Every collective, type and operation against a plain reference. The suite runs a covering subset; with
// SCCL_FULL_MATRIX=1 the whole product runs.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "collective_case.h"
#include "world.h"

using namespace api_test;

namespace {

constexpr std::size_t kLargeCount = 1 << 20;

bool full_matrix() {
  const char* value = std::getenv("SCCL_FULL_MATRIX");
  return value != nullptr && std::string(value) == "1";
}

template <typename Visit>
void for_each_call(const KindInfo& kind, std::size_t count, int root, Visit&& visit) {
  for (const TypeInfo& type : types())
    for (const Op op : kOps) {
      if (!kind.reduces && op != Op::sum) continue;
      for (const bool in_place : {false, true}) {
        if (in_place && !kind.has_in_place) continue;
        for (const std::size_t offset : {0, 1}) visit(Case{&kind, &type, op, count, in_place, offset, root});
      }
    }
}

std::vector<Case> small_cases(int ranks) {
  std::vector<Case> cases;
  for (const KindInfo& kind : kinds())
    for (const std::size_t count : {0, 1, 3, 1023})
      for_each_call(kind, count, kind.rooted ? ranks - 1 : 0, [&](const Case& test) {
        // Unaligned buffers matter where data is moved in bulk.
        if (test.offset == 0 || test.count == 1023 || full_matrix()) cases.push_back(test);
      });
  return cases;
}

// Around the sizes at which protocols and schedules change; types and operations take turns.
std::vector<Case> middle_cases(int ranks) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const KindInfo& kind : kinds())
    for (const std::size_t count : {127, 2048, 4099, 20000, 40000})
      for (int repeat = 0; repeat < 4; ++repeat, ++turn)
        cases.push_back({&kind, &types()[turn % types().size()], kOps[kind.reduces ? turn % 6 : 0], count,
                         kind.has_in_place && turn % 2 == 1, turn % 3,
                         kind.rooted ? static_cast<int>(turn) % ranks : 0});
  return cases;
}

std::vector<Case> large_cases(int ranks) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const KindInfo& kind : kinds()) {
    if (full_matrix()) {
      for_each_call(kind, kLargeCount, 0, [&](const Case& test) { cases.push_back(test); });
      continue;
    }
    for (const std::size_t offset : {0, 1}) {
      const TypeInfo& type = types()[(turn * 5 + 7) % types().size()];
      cases.push_back({&kind, &type, kOps[kind.reduces ? turn % 6 : 0], kLargeCount / static_cast<std::size_t>(ranks),
                       kind.has_in_place && offset == 1, offset, kind.rooted ? ranks / 2 : 0});
      ++turn;
    }
  }
  return cases;
}

// What is taken for all that the caches hold, and calls whose buffers are more.
constexpr const char* kStreamBytes = "1000000";
std::vector<Case> cases_beyond_caches(int ranks, std::size_t turn) {
  constexpr std::size_t kAllBytes = 5 << 20;
  std::vector<Case> cases;
  for (const KindInfo& kind : kinds()) {
    const TypeInfo& type = types()[(turn * 5 + 7) % types().size()];
    const bool per_rank = !(kind.kind == Kind::allreduce || kind.kind == Kind::reduce || kind.kind == Kind::broadcast);
    const std::size_t bytes = kAllBytes / static_cast<std::size_t>(per_rank ? ranks * ranks : ranks);
    cases.push_back({&kind, &type, kOps[kind.reduces ? turn % 6 : 0], bytes / type.bytes + turn % 3,
                     kind.has_in_place && turn % 2 == 1, turn % 3, kind.rooted ? ranks / 2 : 0});
    ++turn;
  }
  return cases;
}

void check_world(Mode mode, int ranks, const std::vector<Case>& cases) {
  INFO(name(mode) << ", " << ranks << " ranks, " << cases.size() << " calls");
  const auto results = run_world(mode, ranks, [&](int rank, ncclComm_t comm) -> std::string {
    for (const Case& test : cases)
      if (std::string failure = run_case(test, rank, ranks, comm); !failure.empty()) return failure;
    return "";
  });
  CHECK(failures(results) == "");
}

void check_mode(Mode mode) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    check_world(mode, ranks, small_cases(ranks));
    check_world(mode, ranks, middle_cases(ranks));
    check_world(mode, ranks, large_cases(ranks));
  }
}

}  // namespace

TEST_CASE("every collective, type and operation is right with ranks as threads", "[slow][threads]") {
  check_mode(Mode::threads);
}

TEST_CASE("every collective, type and operation is right with ranks as processes", "[slow][processes]") {
  check_mode(Mode::processes);
}

TEST_CASE("every planner and protocol gives right results", "[slow][processes]") {
  for (const char* algorithm : {"ring", "one-hop", "all-pairs", "recursive", "binomial"})
    for (const char* protocol : {"simple", "ll", "direct"}) {
      ::setenv("SCCL_ALGO", algorithm, 1);
      ::setenv("SCCL_PROTO", protocol, 1);
      INFO(algorithm << " " << protocol);
      for (const int ranks : {2, 3, 4}) check_world(Mode::processes, ranks, middle_cases(ranks));
      ::unsetenv("SCCL_ALGO");
      ::unsetenv("SCCL_PROTO");
    }
}

TEST_CASE("calls beyond the caches give right results through slots, whichever planner serves them", "[slow]") {
  ::setenv("SCCL_PROTO", "simple", 1);
  ::setenv("SCCL_STREAM_BYTES", kStreamBytes, 1);
  for (const char* algorithm : {"auto", "ring"}) {
    ::setenv("SCCL_ALGO", algorithm, 1);
    INFO(algorithm);
    for (const int ranks : {2, 3})
      for (const std::size_t turn : {0, 1, 2}) check_world(modes().back(), ranks, cases_beyond_caches(ranks, turn));
  }
  ::unsetenv("SCCL_STREAM_BYTES");
  ::unsetenv("SCCL_ALGO");
  ::unsetenv("SCCL_PROTO");
}

TEST_CASE("calls of one shape and of changing shapes follow one another with other buffers and factors") {
  for (const Mode mode : modes())
    CHECK(failures(run_world(mode, 2, [](int rank, ncclComm_t comm) -> std::string {
            float factor = 0;
            ncclRedOp_t scaled;
            if (ncclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat32, ncclScalarDevice, comm) != ncclSuccess)
              return "create";
            std::string wrong;
            for (int call = 0; call < 40; ++call) {
              // Runs of equal shapes, other sizes in between, a transfer now and then; both protocols.
              const std::size_t count = call % 7 == 6 ? 5000 : call % 5 == 4 ? 3 : 2;
              std::vector<float> in(count, static_cast<float>(call + rank)), out(count, -1);
              factor = static_cast<float>(call % 3 + 1);
              const ncclRedOp_t op = call % 2 == 0 ? ncclSum : scaled;
              if (ncclAllReduce(in.data(), out.data(), count, ncclFloat32, op, comm, nullptr) != ncclSuccess)
                return "call";
              const float expected = static_cast<float>(2 * call + 1) * (call % 2 == 0 ? 1 : factor);
              if (out.front() != expected || out.back() != expected) wrong += " call " + std::to_string(call);
              if (call % 11 != 10) continue;
              float told = static_cast<float>(rank), heard = -1;
              ncclGroupStart();
              ncclSend(&told, 1, ncclFloat32, 1 - rank, comm, nullptr);
              ncclRecv(&heard, 1, ncclFloat32, 1 - rank, comm, nullptr);
              if (ncclGroupEnd() != ncclSuccess || heard != static_cast<float>(1 - rank)) wrong += " transfer";
            }
            ncclRedOpDestroy(scaled, comm);
            return wrong;
          })) == "");
}
