// The fast encoding and the paper's own agree wherever both finish.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "schedule/proof/verify.h"
#include "synth/reference/smt.h"
#include "synth/synthesize.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::synth;

namespace {

constexpr auto kPatience = std::chrono::seconds(1);

Limits patience() { return Limits{Deadline::in(kPatience), nullptr}; }

// What SAT says without bounds and symmetries.
Outcome plain_outcome(const Problem& problem, int steps, int rounds) {
  const std::vector<Action> all = actions(problem, {});
  Encoding encoding(problem, all.back(), rounds,
                    std::vector<RoundsRange>(static_cast<std::size_t>(steps), {1, rounds - steps + 1}));
  return encoding.solve(0, patience());
}

schedule::Schedule schedule_of(const topology::Topology& topology, Collective collective, const Problem& problem,
                               int chunks, const std::vector<TimedHop>& hops) {
  std::vector<schedule::Send> sends;
  for (const TimedHop& one : hops) {
    const Hop hop = problem.hops[static_cast<std::size_t>(one.hop)];
    sends.push_back({one.chunk, hop.src, hop.dst, one.step, schedule::SendKind::copy});
  }
  return schedule::make_schedule("reference", collective, 0, topology, chunks, std::move(sends));
}

struct Tally {
  int sat = 0;
  int unsat = 0;
  int unfinished = 0;
};

void compare(const topology::Topology& topology, Collective collective, int pieces, int steps, int rounds,
             Tally& tally) {
  const int chunks = pieces * chunks_per_piece(collective, topology.ranks);
  INFO(topology.name << " " << info(collective).name << " " << chunks << "," << steps << "," << rounds);
  const Problem problem = make_problem(topology, collective, 0, chunks);
  const Found reference = solve_reference(problem, steps, rounds, patience());
  const Answer fast = synthesize(topology, collective, 0, {chunks, steps, rounds}, patience());
  if (reference.outcome == Outcome::unknown || fast.outcome == Outcome::unknown) {
    ++tally.unfinished;
    return;
  }
  CHECK(reference.outcome == fast.outcome);
  if (Bounds(problem).least_steps() <= steps && rounds >= steps) {
    const Outcome plain = plain_outcome(problem, steps, rounds);
    if (plain != Outcome::unknown) CHECK(plain == reference.outcome);
  }
  if (reference.outcome == Outcome::sat) {
    ++tally.sat;
    schedule::verify(schedule_of(topology, collective, problem, chunks, reference.sends));
  } else {
    ++tally.unsat;
  }
}

// Directed links of random lanes, sometimes a switch that some ranks share, sometimes a shared set.
topology::Topology random_topology(std::mt19937& random, int ranks) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  topology::Topology topology;
  topology.name = "random";
  topology.ranks = ranks;
  std::set<std::pair<int, int>> joined;
  const auto join = [&](int a, int b, int lanes) {
    if (a == b || !joined.emplace(a, b).second) return;
    topology.links.push_back({a, b, lanes, 10, 1, topology::LinkClass::nvlink});
  };
  const int chords = 1 + below(2 * ranks);
  for (int rank = 0; rank < ranks; ++rank) join(rank, (rank + 1) % ranks, 1 + below(2));
  for (int i = 0; i < chords; ++i) join(below(ranks), below(ranks), 1 + below(2));
  if (below(3) == 0) {
    topology.switches = 1;
    topology.switch_kinds.clear();
    for (int rank = 0; rank < ranks; rank += 1 + below(2)) {
      join(rank, ranks, 1 + below(2));
      join(ranks, rank, 1 + below(2));
    }
  }
  if (below(3) == 0) {
    topology::SharedSet set{1 + below(2), {}};
    for (const topology::Link& link : topology.links)
      if (below(3) == 0) set.links.emplace_back(link.src, link.dst);
    if (!set.links.empty()) topology.shared.push_back(std::move(set));
  }
  return topology;
}

}  // namespace

TEST_CASE("both encodings agree on small rows of the machines of the paper") {
  Tally tally;
  const auto gathers = {Collective::allgather, Collective::gather, Collective::broadcast, Collective::scatter};
  for (const Collective collective : gathers)
    for (const auto& [steps, rounds] : {std::pair{1, 1}, {2, 2}, {2, 3}, {3, 3}})
      compare(topology::preset("dgx1v"), collective, 1, steps, rounds, tally);
  compare(topology::preset("dgx1v"), Collective::allgather, 2, 2, 2, tally);
  compare(topology::preset("dgx1v"), Collective::broadcast, 3, 2, 2, tally);
  compare(topology::preset("z52"), Collective::allgather, 1, 4, 4, tally);
  compare(topology::preset("z52"), Collective::allgather, 1, 3, 4, tally);
  compare(topology::preset("z52-full"), Collective::broadcast, 1, 3, 3, tally);
  compare(topology::preset("pcie4"), Collective::allgather, 1, 2, 3, tally);
  compare(topology::preset("nvpairs4"), Collective::allgather, 1, 2, 3, tally);
  compare(topology::preset("nvpairs4"), Collective::alltoall, 1, 2, 3, tally);
  CHECK(tally.sat > 5);
  CHECK(tally.unsat > 3);
  CHECK(tally.unfinished < 6);
}

TEST_CASE("both encodings agree on random topologies with switches and shared sets", "[slow]") {
  constexpr unsigned kSeed = 20211;
  constexpr int kTopologies = 40;
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  Tally tally;
  const std::vector<Collective> collectives{Collective::allgather, Collective::broadcast, Collective::alltoall,
                                            Collective::gather, Collective::scatter};
  for (int i = 0; i < kTopologies; ++i) {
    const topology::Topology topology = random_topology(random, 3 + static_cast<int>(random() % 3));
    const Collective collective = collectives[random() % collectives.size()];
    const int pieces = 1 + static_cast<int>(random() % 2);
    const int least =
        Bounds(make_problem(topology, collective, 0, chunks_per_piece(collective, topology.ranks))).least_steps();
    const int steps = least + static_cast<int>(random() % 2);
    for (int rounds = steps; rounds < steps + 4; ++rounds) compare(topology, collective, pieces, steps, rounds, tally);
  }
  CHECK(tally.sat > 20);
  CHECK(tally.unsat > 20);
  CHECK(tally.unfinished < tally.sat + tally.unsat);
}

TEST_CASE("the reference says unknown when its time is up") {
  const Problem problem = make_problem(topology::preset("dgx1v"), Collective::alltoall, 0, 24);
  CHECK(solve_reference(problem, 8, 8, Limits{Deadline::in(std::chrono::milliseconds(50)), nullptr}).outcome ==
        Outcome::unknown);
}
