// Steps by time keep connections busy that steps by frames make wait.
#include "schedule/simulation/steps_by_time.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "base/splitmix.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/simulate.h"
#include "schedule/simulation/timed_layout.h"

using namespace sccl;

namespace {

// 0 -> 1 -> 2 -> 3 is slow to begin with, and 0 -> 2 is quick.
topology::Topology line() {
  topology::Topology links;
  links.name = "line";
  links.ranks = 4;
  const auto join = [&](int a, int b, double alpha_us) {
    links.links.push_back({a, b, 1, 10, alpha_us, topology::LinkClass::nvlink});
    links.links.push_back({b, a, 1, 10, alpha_us, topology::LinkClass::nvlink});
  };
  join(0, 1, 1);
  join(1, 2, 200);
  join(2, 3, 1);
  join(0, 2, 1);
  return links;
}

constexpr int kChunks = 8;

// Even chunks come to 2 by way of 1, and odd ones directly; 2 passes them on in the order of chunks.
schedule::Schedule copies() {
  std::vector<schedule::Send> sends;
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int first = 2 * chunk;
    const bool odd = chunk % 2 == 1;
    sends.push_back({chunk, 0, 1, first, schedule::SendKind::copy});
    sends.push_back({chunk, odd ? 0 : 1, 2, first + 1, schedule::SendKind::copy});
    sends.push_back({chunk, 2, 3, first + 2, schedule::SendKind::copy});
  }
  auto made = schedule::make_schedule("copies", Collective::broadcast, 0, line(), kChunks, std::move(sends));
  made.pipelined = true;
  return made;
}

schedule::Schedule sums() {
  schedule::Schedule made = copies();
  for (schedule::Send& send : made.sends) {
    std::swap(send.src, send.dst);
    send.step = made.steps - 1 - send.step;
    send.kind = schedule::SendKind::reduce;
  }
  made = schedule::make_schedule("sums", Collective::reduce, 0, line(), kChunks, std::move(made.sends));
  made.pipelined = true;
  return made;
}

schedule::Schedule by_time(schedule::Schedule schedule, double chunk_bytes) {
  const auto steps = schedule::steps_by_time(schedule, chunk_bytes).steps;
  REQUIRE(steps.size() == schedule.sends.size());
  for (std::size_t i = 0; i < steps.size(); ++i) schedule.sends[i].step = steps[i];
  auto made = schedule::make_schedule("by time", schedule.collective, schedule.root, schedule.topology,
                                      schedule.chunks_per_rank, std::move(schedule.sends));
  made.pipelined = true;
  return made;
}

}  // namespace

TEST_CASE("what is there first goes first, of copies and, backwards in time, of sums") {
  constexpr double kChunkBytes = 1e6;  // 100 us on a link
  for (const schedule::Schedule& schedule : {copies(), sums()}) {
    schedule::verify(schedule);
    const schedule::Schedule ordered = by_time(schedule, kChunkBytes);
    schedule::verify(ordered);
    const schedule::SimulationOptions options{.bytes = kChunks * kChunkBytes};
    const double before = schedule::simulate(schedule, options).time_us;
    const double after = schedule::simulate(ordered, options).time_us;
    INFO(info(schedule.collective).name << ": " << before << " us, by time " << after);
    CHECK(after < before - 50);
    // All chunks pass 2 -> 3, one link after the other.
    CHECK(after < 1.4 * kChunks * 100);
  }
}

TEST_CASE("no sends have no steps") {
  schedule::Schedule one = schedule::make_schedule("none", Collective::broadcast, 0, line(), 1, {});
  CHECK(schedule::steps_by_time(one, 1).steps.empty());
}

namespace {

// 0, 1, 2 and 3, 4, 5 behind a switch each; one lane joins the switches. 0, 1, 2 are joined directly as well, and the
// links there share two lanes.
topology::Topology two_islands() {
  topology::Topology links;
  links.name = "islands";
  links.ranks = 6;
  links.switches = 2;
  const auto join = [&](int a, int b, int lanes, double gbytes_per_s, double alpha_us) {
    links.links.push_back({a, b, lanes, gbytes_per_s, alpha_us, topology::LinkClass::pcie});
    links.links.push_back({b, a, lanes, gbytes_per_s, alpha_us, topology::LinkClass::pcie});
  };
  for (int rank = 0; rank < 6; ++rank) join(rank, rank < 3 ? 6 : 7, 2, 27, 1.25);
  join(6, 7, 1, 16, 0.5);
  topology::SharedSet set;
  set.lanes = 2;
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(1, 2)}) {
    join(a, b, 2, 20, 2.5);
    set.links.emplace_back(a, b);
    set.links.emplace_back(b, a);
  }
  links.shared.push_back(std::move(set));
  return links;
}

// Each chunk takes a tree of its own: copies down, sums up, or first sums and then copies.
schedule::Schedule by_trees(Collective collective, std::uint64_t seed, int chunks) {
  std::uint64_t draw = splitmix64(seed);
  const topology::Topology links = two_islands();
  const int ranks = links.ranks;
  std::vector<schedule::Send> sends;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    std::vector<int> depth(static_cast<std::size_t>(ranks), 0);
    for (int rank = 1; rank < ranks; ++rank) {
      draw = splitmix64(draw);
      const int parent = static_cast<int>(draw % static_cast<std::uint64_t>(rank));
      const int down = depth[static_cast<std::size_t>(rank)] = depth[static_cast<std::size_t>(parent)] + 1;
      const int first = chunk / 4;
      if (collective != Collective::reduce)
        sends.push_back({chunk, parent, rank, first + ranks + down, schedule::SendKind::copy});
      if (collective != Collective::broadcast)
        sends.push_back({chunk, rank, parent, first + ranks - down, schedule::SendKind::reduce});
    }
  }
  auto made = schedule::make_schedule("trees", collective, 0, links, chunks, std::move(sends));
  made.pipelined = true;
  return made;
}

}  // namespace

TEST_CASE("a layout takes as long as its simulation, and no longer than the steps that were given") {
  constexpr int kChunks = 64;
  constexpr double kChunkBytes = schedule::kLaneBytes;
  for (const Collective collective : {Collective::broadcast, Collective::reduce, Collective::allreduce})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const schedule::Schedule given = by_trees(collective, seed, kChunks);
      const auto timed = schedule::steps_by_time(given, kChunkBytes);
      const schedule::Schedule ordered = by_time(given, kChunkBytes);
      schedule::verify(ordered);
      schedule::SimulationOptions options{.bytes = kChunks * kChunkBytes};
      options.slots = 4;
      options.short_slots = options.network_slots = schedule::kShortSlots;
      options.lane_bytes = schedule::kLaneBytes;
      INFO(info(collective).name << " by trees of " << seed);
      CHECK(std::abs(schedule::simulate(ordered, options).time_us - timed.us) < 1e-6);
      CHECK(timed.us <= schedule::simulate(given, options).time_us);
    }
}

TEST_CASE("a layout that may take just as long as it does is the same as without a limit, and ends with a lower one") {
  using schedule::timed::Direction, schedule::timed::Passing;
  for (const Collective collective : {Collective::broadcast, Collective::reduce, Collective::allreduce})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const schedule::Schedule given = by_trees(collective, seed, 32);
      const schedule::timed::Network network(schedule::timed::Sends(given), schedule::kLaneBytes);
      const std::vector<int> order = schedule::order_by_step(given);
      for (const Direction direction : {Direction::forwards, Direction::backwards}) {
        const schedule::timed::Waits waits(schedule::timed::Sends(given), network, order, direction);
        std::vector<int> in_turn = order;
        if (direction == Direction::backwards) std::ranges::reverse(in_turn);
        const auto lay = [&](Passing passing, double most) {
          return schedule::timed::lay(network, waits, in_turn, passing, most);
        };
        for (const Passing passing : {Passing::what_is_there, Passing::in_order}) {
          INFO(info(collective).name << " by trees of " << seed);
          const auto free = lay(passing, schedule::timed::kNever);
          const auto limited = lay(passing, free.time);
          CHECK(limited.time == free.time);
          CHECK(limited.begun == free.begun);
          CHECK(lay(passing, free.time - 1).time == schedule::timed::kNever);
        }
      }
    }
}

TEST_CASE("what has the longest way before it goes first, whichever order the layouts begin with") {
  // Chunk 0 ends at 1. Chunk 1 goes on from there.
  const auto made = schedule::make_schedule("two ways", Collective::broadcast, 0, line(), 2,
                                            {{0, 0, 1, 0, schedule::SendKind::copy},
                                             {0, 0, 2, 0, schedule::SendKind::copy},
                                             {0, 2, 3, 1, schedule::SendKind::copy},
                                             {1, 0, 1, 1, schedule::SendKind::copy},
                                             {1, 1, 2, 2, schedule::SendKind::copy},
                                             {1, 2, 3, 3, schedule::SendKind::copy}});
  const auto begins_later = [&](schedule::Urgency urgency) {
    const auto steps = schedule::steps_by_time(made, 1e6, urgency).steps;
    schedule::Step step[2] = {};
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (const schedule::Send& send = made.sends[i]; send.src == 0 && send.dst == 1) step[send.chunk] = steps[i];
    return step[1] > step[0];
  };
  CHECK_FALSE(begins_later(schedule::Urgency::first_step));
  CHECK_FALSE(begins_later(schedule::Urgency::longest_way));
}
