// Synthesis finds what the paper's tables promise, refutes what cuts and solver refute, and says so.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "schedule/proof/verify.h"
#include "synth/synthesize.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::synth;

namespace {

struct Row {
  const char* machine;
  Collective collective;
  Size size;
};

Answer ask(const Row& row, int seconds = 60) {
  return synthesize(topology::preset(row.machine), row.collective, 0, row.size,
                    Limits{Deadline::in(std::chrono::seconds(seconds)), nullptr});
}

void describe(const Row& row, std::string& text) {
  text = fmt::format("{} {} {},{},{}", row.machine, info(row.collective).name, row.size.chunks, row.size.steps,
                     row.size.rounds);
}

void check_sat(const Row& row) {
  std::string text;
  describe(row, text);
  INFO(text);
  const Answer answer = ask(row);
  REQUIRE(answer.outcome == Outcome::sat);
  schedule::verify(*answer.schedule);
  CHECK(answer.schedule->collective == row.collective);
  CHECK(answer.schedule->chunks_per_rank == row.size.chunks);
  CHECK(answer.schedule->steps <= row.size.steps);
  CHECK(std::accumulate(answer.schedule->rounds.begin(), answer.schedule->rounds.end(), 0) <= row.size.rounds);
}

void check_unsat(const Row& row) {
  std::string text;
  describe(row, text);
  INFO(text);
  const Answer answer = ask(row);
  CHECK(answer.outcome == Outcome::unsat);
  CHECK(!answer.reason.empty());
}

std::string refusal(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

using enum Collective;

}  // namespace

TEST_CASE("rows of the paper's Table 4 are found on DGX-1, in every direction of the collective") {
  const std::vector<Size> gathers{{1, 2, 2}, {2, 2, 3}, {3, 4, 4}, {6, 7, 7}, {6, 3, 7}};
  for (const Size& row : gathers) {
    check_sat({"dgx1v", allgather, row});
    check_sat({"dgx1v", reducescatter, {8 * row.chunks, row.steps, row.rounds}});
    check_sat({"dgx1v", allreduce, {8 * row.chunks, 2 * row.steps, 2 * row.rounds}});
    check_sat({"dgx1v", gather, row});
    check_sat({"dgx1v", scatter, {8 * row.chunks, row.steps, row.rounds}});
  }
  for (const Size& row : std::vector<Size>{{2, 2, 2}, {6, 3, 3}, {12, 4, 4}, {18, 5, 5}, {6, 3, 5}}) {
    check_sat({"dgx1v", broadcast, row});
    check_sat({"dgx1v", reduce, row});
  }
  for (const Size& row : std::vector<Size>{{8, 3, 3}, {8, 2, 3}, {24, 8, 8}, {24, 2, 8}})
    check_sat({"dgx1v", alltoall, row});
}

TEST_CASE("points that dominate rows of the paper exist") {
  check_sat({"dgx1v", broadcast, {7, 3, 3}});
  check_sat({"dgx1v", broadcast, {13, 4, 4}});
  check_sat({"dgx1v", gather, {6, 2, 7}});
  check_sat({"dgx1v", allgather, {3, 3, 4}});
}

TEST_CASE("rows of the paper's Table 5 are found on the Z52") {
  for (const Size& row : std::vector<Size>{{1, 4, 4}, {2, 7, 7}, {2, 4, 7}}) {
    check_sat({"z52", allgather, row});
    check_sat({"z52", allreduce, {8 * row.chunks, 2 * row.steps, 2 * row.rounds}});
  }
  for (const Size& row : std::vector<Size>{{2, 4, 4}, {4, 5, 5}, {6, 6, 6}, {8, 7, 7}, {10, 8, 8}})
    check_sat({"z52", broadcast, row});
  check_sat({"z52", gather, {2, 4, 7}});
  check_sat({"z52", alltoall, {8, 4, 8}});
}

TEST_CASE("the neighbours of optimal rows are refuted") {
  for (const Size& row : std::vector<Size>{{3, 2, 4}, {4, 2, 5}, {5, 2, 6}, {6, 2, 7}, {7, 7, 8}, {1, 1, 9}})
    check_unsat({"dgx1v", allgather, row});
  for (const Size& row : std::vector<Size>{{3, 2, 2}, {4, 2, 3}, {5, 2, 4}, {8, 3, 3}})
    check_unsat({"dgx1v", broadcast, row});
  for (const Size& row : std::vector<Size>{{8, 2, 2}, {16, 2, 5}}) check_unsat({"dgx1v", alltoall, row});
  for (const Size& row : std::vector<Size>{{1, 3, 3}, {3, 4, 10}}) check_unsat({"z52", allgather, row});
  for (const Size& row : std::vector<Size>{{9, 7, 7}, {11, 8, 8}}) check_unsat({"z52", broadcast, row});
  check_unsat({"z52", alltoall, {8, 4, 7}});
  check_unsat({"dgx1v", allreduce, {24, 4, 8}});
  check_unsat({"dgx1v", reduce, {3, 2, 2}});
}

TEST_CASE("what no schedule with a symmetry of the machine has is found among those without") {
  for (const Size& row : std::vector<Size>{{2, 2, 2}, {6, 3, 3}}) {
    check_sat({"dgx1p", broadcast, row});
    check_sat({"dgx1p", reduce, row});
  }
}

TEST_CASE("switches and shared sets bound what hops carry together") {
  // Four cards under one bridge: each receives three chunks over one lane.
  check_sat({"pcie4", allgather, {1, 1, 3}});
  check_unsat({"pcie4", allgather, {1, 2, 2}});
  // All to all between two sockets: sixteen chunks cross the one link each way.
  check_sat({"pcie8", alltoall, {8, 1, 16}});
  check_unsat({"pcie8", alltoall, {8, 3, 15}});
  // One transfer a round for all PCIe paths of a socket.
  check_sat({"z52-full", broadcast, {1, 3, 3}});
  check_unsat({"z52-full", allgather, {1, 3, 3}});
}

TEST_CASE("an absurd question is answered at once") {
  CHECK(refusal([] { ask({"dgx1v", allgather, {0, 2, 2}}); }).find("0 chunks") != std::string::npos);
  CHECK(refusal([] { ask({"dgx1v", alltoall, {7, 2, 2}}); }).find("multiple of 8") != std::string::npos);
  CHECK(refusal([] { ask({"dgx1v", allgather, {1, -1, 2}}); }).find("-1 steps") != std::string::npos);
  CHECK(refusal([&] { Synthesizer(topology::preset("dgx1v"), broadcast, 8); }).find("root 8") != std::string::npos);
  CHECK(refusal([&] { Synthesizer(topology::preset("dgx1v"), sendrecv, 0); }) != "");
  check_unsat({"dgx1v", allgather, {1000000, 2, 2}});
  const Answer large = ask({"dgx1v", allgather, {1000000, 4, 2000000}}, 5);
  CHECK(large.outcome == Outcome::unknown);
  CHECK(large.reason.find("chunks") != std::string::npos);
  // Islands.
  const std::vector<int> apart{0, 6};
  const topology::Topology islands = topology::subset(topology::preset("dgx1v"), apart);
  for (const Collective collective : {allgather, allreduce, broadcast, alltoall, reduce}) {
    const int chunks = Synthesizer(islands, collective, 0).chunk_multiple();
    const Answer answer = synthesize(islands, collective, 0, {chunks, 5, 5}, Limits{});
    CHECK(answer.outcome == Outcome::unsat);
    CHECK(answer.reason.find("not connected") != std::string::npos);
  }
}

TEST_CASE("one rank has nothing to send") {
  for (const Collective collective :
       {allgather, allreduce, broadcast, reduce, gather, scatter, alltoall, reducescatter}) {
    const Answer answer = synthesize(topology::host(1), collective, 0, {1, 0, 0}, Limits{});
    REQUIRE(answer.outcome == Outcome::sat);
    CHECK(answer.schedule->sends.empty());
  }
}

TEST_CASE("a search that may not go on says unknown") {
  std::atomic<bool> stop = true;
  const Answer stopped =
      synthesize(topology::preset("dgx1v"), allgather, 0, {6, 3, 7}, Limits{Deadline::never(), &stop});
  CHECK(stopped.outcome == Outcome::unknown);
  const Answer late = synthesize(topology::preset("dgx1v"), allreduce, 0, {48, 6, 14},
                                 Limits{Deadline::in(std::chrono::milliseconds(0)), nullptr});
  CHECK(late.outcome == Outcome::unknown);
  CHECK(!late.schedule);
}

TEST_CASE("effort that is counted in conflicts gives the same answer every time") {
  const Effort little{1};
  const Effort some{20000};
  Synthesizer first(topology::preset("dgx1v"), allgather, 0);
  CHECK(first.find({6, 3, 7}, little, {}).outcome == Outcome::unknown);
  const Answer one = first.find({6, 3, 7}, some, {});
  Synthesizer second(topology::preset("dgx1v"), allgather, 0);
  const Answer other = second.find({6, 3, 7}, some, {});
  REQUIRE(one.outcome == Outcome::sat);
  REQUIRE(other.outcome == Outcome::sat);
  REQUIRE(one.schedule->sends.size() == other.schedule->sends.size());
  const auto same = [](const schedule::Send& a, const schedule::Send& b) {
    return a.chunk == b.chunk && a.src == b.src && a.dst == b.dst && a.step == b.step;
  };
  CHECK(std::equal(one.schedule->sends.begin(), one.schedule->sends.end(), other.schedule->sends.begin(), same));
}

TEST_CASE("questions pay for their conflicts, and without effort only what is known is answered") {
  constexpr std::int64_t kMost = 20000;
  std::int64_t left = kMost;
  const Effort shared{kMost, &left};
  Synthesizer synthesizer(topology::preset("dgx1v"), allgather, 0);
  CHECK(synthesizer.find({1, 1, 1}, shared, {}).outcome == Outcome::unsat);
  CHECK(left == kMost);
  REQUIRE(synthesizer.find({6, 3, 7}, shared, {}).outcome == Outcome::sat);
  CHECK(left < kMost - 100);
  CHECK(left > kMost - 5000);
  const std::int64_t before = left;
  CHECK(synthesizer.find({6, 3, 7}, shared, {}).outcome == Outcome::sat);
  CHECK(left == before);
  left = 0;
  CHECK(shared.spent());
  CHECK(synthesizer.find({6, 3, 7}, shared, {}).outcome == Outcome::sat);
  CHECK(synthesizer.find({5, 3, 6}, shared, {}).outcome == Outcome::unknown);
  const std::vector<Size> easy = synthesizer.easy_sizes(2);
  REQUIRE(!easy.empty());
  CHECK(synthesizer.find(easy.front(), shared, {}).outcome == Outcome::sat);
  left = kMost;
  CHECK(Synthesizer(topology::preset("pcie8"), allgather, 0).find({1, 1, 7}, shared, {}).outcome == Outcome::unsat);
  CHECK(left > kMost - 100);  // several formulas, hardly any conflict
  left = 50;
  CHECK(synthesizer.find({6, 3, 8}, shared, {}).outcome != Outcome::unsat);
  CHECK(left > -50);
}

TEST_CASE("a formula that is too large to be built costs nothing") {
  constexpr std::int64_t kMost = 20000;
  std::int64_t left = kMost;
  Synthesizer synthesizer(topology::preset("dgx1v"), allgather, 0);
  Limits limits;
  limits.most_literals = 1;
  CHECK(synthesizer.find({6, 3, 7}, Effort{kMost, &left}, limits).outcome == Outcome::unknown);
  CHECK(left == kMost);
}

TEST_CASE("what is refuted for more steps is not tried again with fewer") {
  std::int64_t left = 20000;
  const Effort shared{20000, &left};
  Synthesizer both(topology::preset("pcie8"), broadcast, 0);
  REQUIRE(both.find({2, 2, 3}, shared, {}).outcome == Outcome::unsat);
  const std::int64_t first = 20000 - left;
  CHECK(first > 0);
  left = 20000;
  REQUIRE(both.find({2, 3, 3}, shared, {}).outcome == Outcome::unsat);
  const std::int64_t second = 20000 - left;
  left = 20000;
  Synthesizer one(topology::preset("pcie8"), broadcast, 0);
  REQUIRE(one.find({2, 3, 3}, shared, {}).outcome == Outcome::unsat);
  CHECK(second < 20000 - left);
}

TEST_CASE("an AllReduce of unequal halves begins with the shorter one, which is sooner refuted") {
  std::int64_t left = 20000;
  Synthesizer synthesizer(topology::preset("pcie8"), Collective::allreduce, 0);
  CHECK(synthesizer.find({24, 3, 42}, Effort{20000, &left}, {}).outcome == Outcome::unsat);
  CHECK(left > 20000 - 500);  // the AllGather of two steps takes two thousand
}

TEST_CASE("links that lead one way only are used backwards by what combines") {
  topology::Topology ring = topology::host(4);
  std::erase_if(ring.links, [](const topology::Link& link) { return link.dst != (link.src + 1) % 4; });
  for (const Collective collective : {allgather, broadcast, reduce, gather}) {
    const Answer answer = synthesize(ring, collective, 1, {1, 3, 3}, Limits{});
    REQUIRE(answer.outcome == Outcome::sat);
  }
  CHECK(synthesize(ring, reducescatter, 0, {4, 3, 3}, Limits{}).outcome == Outcome::sat);
  CHECK(synthesize(ring, allreduce, 0, {4, 6, 6}, Limits{}).outcome == Outcome::sat);
  CHECK(synthesize(ring, allreduce, 0, {4, 5, 9}, Limits{}).outcome == Outcome::unsat);
}

TEST_CASE("a Gather takes as many rounds as the Scatter that is its inverse: no solver is asked for fewer") {
  for (const char* name : {"pcie4", "pcie8", "dgx1v", "z52", "2*pcie4"}) {
    const topology::Topology machine = topology::preset(name);
    INFO(name);
    const Ratio of_gather = Synthesizer(machine, gather, 3).least_rounds_per_chunk();
    const Ratio of_scatter = Synthesizer(machine, scatter, 3).least_rounds_per_chunk();
    CHECK(of_gather.numerator * of_scatter.denominator == of_scatter.numerator * machine.ranks * of_gather.denominator);
  }
}
