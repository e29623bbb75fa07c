// Clusters whose links SCCL_TOPO names, on this host: schedules of levels serve, and every collective, type, operation
// and in-place form is right, whichever schedule is chosen.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "collective_case.h"
#include "world.h"

using namespace api_test;

namespace {

// Two hosts of four devices; hosts of three, five and two; the same with ranks dealt out over hosts in turn; four of
// eight.
constexpr const char* kTwoOfFour = "4*dgx1v:0,1,2,3,8,9,10,11";
constexpr const char* kUneven = "3*dgx1v:1,4,5,8,9,10,12,15,16,19";
constexpr const char* kDealt = "3*dgx1v:8,1,16,9,4,10,19,5,12,15";
constexpr const char* kFourOfEight = "4*dgx1v";

constexpr const char* kAlgorithms[] = {"levels/ring",       "levels/doubling",       "levels/direct",
                                       "levels/butterfly",  "levels/leaders",        "levels/two-trees",
                                       "levels/ports-ring", "levels/scattered-ring", "levels/ports-two-trees",
                                       "levels/rails",      "levels/ports-doubling", "levels/ports-leaders"};

// Whether the sum or product of small numbers has a representation in the type, on every way to it.
bool is_exact(const KindInfo& kind, const TypeInfo& type, Op op, int ranks) {
  if (!kind.reduces || !type.floating || ranks <= 8) return true;
  if (op == Op::prod) return type.exponent_bits > 5;
  return op == Op::max || op == Op::min || type.mantissa_bits > 5;
}

// The first or the last rank. Every process plans for a new root.
int root(std::size_t turn, int ranks) { return turn % 2 == 0 ? 0 : ranks - 1; }

// Every type and operation, out of place and in place, with each of the sizes; types take turns in what else differs.
std::vector<Case> all_cases(int ranks, const std::vector<std::size_t>& counts) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const KindInfo& kind : kinds())
    for (const TypeInfo& type : types())
      for (const Op op : kOps) {
        if ((!kind.reduces && op != Op::sum) || !is_exact(kind, type, op, ranks)) continue;
        for (const bool in_place : {false, true}) {
          if (in_place && !kind.has_in_place) continue;
          for (const std::size_t count : counts) {
            cases.push_back({&kind, &type, op, count, in_place, turn % 2, kind.rooted ? root(turn / 2, ranks) : 0});
            ++turn;
          }
        }
      }
  return cases;
}

// Each collective a few times: types, operations, sizes, roots and forms take turns.
std::vector<Case> some_cases(int ranks, std::size_t turn) {
  std::vector<Case> cases;
  for (const KindInfo& kind : kinds())
    for (const std::size_t count : {1, 5, 1000, 30011}) {
      ++turn;
      const TypeInfo& type = types()[(turn * 5 + 3) % types().size()];
      const Op op = kOps[kind.reduces ? turn % 6 : 0];
      if (is_exact(kind, type, op, ranks))
        cases.push_back({&kind, &type, op, count, kind.has_in_place && turn % 2 == 1, turn % 3,
                         kind.rooted ? root(turn / 2, ranks) : 0});
    }
  return cases;
}

void check_world(Mode mode, int ranks, const char* topology, const char* algorithm, const std::vector<Case>& cases) {
  INFO(name(mode) << ", " << ranks << " ranks of " << topology << ", " << algorithm << ", " << cases.size()
                  << " calls");
  ::setenv("SCCL_TOPO", topology, 1);
  ::setenv("SCCL_ALGO", algorithm, 1);
  const auto results = run_world(mode, ranks, [&](int rank, ncclComm_t comm) -> std::string {
    for (const Case& test : cases)
      if (std::string failure = run_case(test, rank, ranks, comm); !failure.empty()) return failure;
    return "";
  });
  ::unsetenv("SCCL_ALGO");
  ::unsetenv("SCCL_TOPO");
  CHECK(failures(results) == "");
}

}  // namespace

TEST_CASE("on two hosts of four devices every collective, type and operation is right", "[slow]") {
  check_world(Mode::threads, 8, kTwoOfFour, "levels", all_cases(8, {333}));
  check_world(modes().back(), 8, kTwoOfFour, "auto", all_cases(8, {3}));
}

TEST_CASE("on hosts of three, five and two devices every collective, type and operation is right", "[slow]") {
  check_world(Mode::threads, 10, kUneven, "levels", all_cases(10, {333}));
  check_world(modes().back(), 10, kDealt, "auto", all_cases(10, {3}));
}

TEST_CASE("on four hosts of eight devices every collective, type and operation is right", "[slow]") {
  check_world(Mode::threads, 32, kFourOfEight, "levels", all_cases(32, {37}));
  check_world(modes().back(), 32, kFourOfEight, "auto", some_cases(32, 0));
}

TEST_CASE("whichever schedule of levels is asked for, every collective is right", "[slow]") {
  std::size_t turn = 0;
  for (const char* algorithm : kAlgorithms) {
    check_world(Mode::threads, 8, kTwoOfFour, algorithm, some_cases(8, turn));
    check_world(Mode::threads, 10, turn % 2 == 0 ? kUneven : kDealt, algorithm, some_cases(10, turn + 7));
    if (turn % 4 == 0) check_world(Mode::threads, 32, kFourOfEight, algorithm, some_cases(32, turn + 3));
    ++turn;
  }
}

// Only more than 32 ranks have them: of some hosts one is the root, of those with entries several are.
TEST_CASE("an AllReduce by several trees of hosts is right on 40 ranks", "[slow]") {
  for (const auto& [topology, algorithm] :
       {std::pair{"10*nvpairs4", "levels/trees-2-deep"}, {"5*z52-full", "levels/two-trees"}}) {
    std::vector<Case> cases = some_cases(40, 1);
    std::erase_if(cases, [](const Case& one) { return one.kind->kind != Kind::allreduce; });
    CHECK(cases.size() >= 3);
    check_world(Mode::threads, 40, topology, algorithm, cases);
  }
}

namespace {

// A topology file that is removed at the end: hosts on switches of their own, each joined to the next one by a link of
// 5 GB/s, and the last to the first.
class RingOfHosts {
 public:
  RingOfHosts(int hosts, int devices) : path_(std::filesystem::temp_directory_path() / ("ring_of_hosts_" + unique())) {
    const int ranks = hosts * devices;
    std::string links;
    const auto join = [&](int a, int b, int rate, const char* kind) {
      for (const auto& [src, dst] : {std::pair(a, b), std::pair(b, a)})
        links += std::string(links.empty() ? "" : ",") + R"({"src":)" + std::to_string(src) + R"(,"dst":)" +
                 std::to_string(dst) + R"(,"lanes":1,"gbytes_per_s":)" + std::to_string(rate) +
                 R"(,"alpha_us":1,"class":")" + kind + "\"}";
    };
    for (int host = 0; host < hosts; ++host) {
      for (int device = 0; device < devices; ++device) {
        join(host * devices + device, ranks + host, 100, "nvlink");
        join(host * devices + device, ranks + hosts + host, 10, "net");
      }
      join(ranks + hosts + host, ranks + hosts + (host + 1) % hosts, 5, "net");
    }
    std::ofstream(path_) << R"({"name":"ring of hosts","ranks":)" << ranks << R"(,"switches":)" << 2 * hosts
                         << R"(,"links":[)" << links << "]}";
  }
  ~RingOfHosts() { std::filesystem::remove(path_); }
  RingOfHosts(const RingOfHosts&) = delete;
  RingOfHosts& operator=(const RingOfHosts&) = delete;

  std::string path() const { return path_.string(); }

 private:
  static std::string unique() {
    static int number = 0;
    return std::to_string(::getpid()) + "_" + std::to_string(number++) + ".json";
  }
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("on hosts that are joined in a ring every collective, type and operation is right, each root with its trees",
          "[slow]") {
  const RingOfHosts four(4, 2);
  check_world(Mode::threads, 8, four.path().c_str(), "levels/packed", all_cases(8, {333}));
  check_world(modes().back(), 8, four.path().c_str(), "auto", all_cases(8, {3}));
  const RingOfHosts three(3, 3);
  check_world(Mode::threads, 9, three.path().c_str(), "levels", some_cases(9, 5));
  std::vector<Case> long_calls;
  for (const KindInfo& kind : kinds())
    long_calls.push_back({&kind, &types()[7], Op::sum, std::size_t{1000000} / (kind.kind == Kind::alltoall ? 10 : 1),
                          kind.has_in_place, 1, kind.rooted ? 4 : 0});
  check_world(modes().back(), 8, four.path().c_str(), "levels/packed", long_calls);
}

TEST_CASE("calls of several slices through levels are right", "[slow]") {
  for (const char* algorithm : {"levels/ring", "levels/butterfly", "levels/two-trees"}) {
    std::vector<Case> cases;
    for (const KindInfo& kind : kinds())
      cases.push_back({&kind, &types()[7], Op::sum, std::size_t{1000000} / (kind.kind == Kind::alltoall ? 10 : 1),
                       kind.has_in_place, 1, kind.rooted ? 4 : 0});
    check_world(modes().back(), 10, kUneven, algorithm, cases);
  }
}
