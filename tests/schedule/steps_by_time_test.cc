// Steps by time keep connections busy that steps by frames make wait.
#include "schedule/simulation/steps_by_time.h"

#include <catch2/catch.hpp>

#include "schedule/proof/verify.h"
#include "schedule/simulation/simulate.h"

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
  const auto steps = schedule::steps_by_time(schedule, chunk_bytes);
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
  CHECK(schedule::steps_by_time(one, 1).empty());
}

TEST_CASE("what has the longest way before it goes first where that is asked for") {
  // Chunk 0 ends at 1. Chunk 1 goes on from there.
  const auto made = schedule::make_schedule("two ways", Collective::broadcast, 0, line(), 2,
                                            {{0, 0, 1, 0, schedule::SendKind::copy},
                                             {0, 0, 2, 0, schedule::SendKind::copy},
                                             {0, 2, 3, 1, schedule::SendKind::copy},
                                             {1, 0, 1, 1, schedule::SendKind::copy},
                                             {1, 1, 2, 2, schedule::SendKind::copy},
                                             {1, 2, 3, 3, schedule::SendKind::copy}});
  const auto begins_later = [&](schedule::Urgency urgency) {
    const auto steps = schedule::steps_by_time(made, 1e6, urgency);
    schedule::Step step[2] = {};
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (const schedule::Send& send = made.sends[i]; send.src == 0 && send.dst == 1) step[send.chunk] = steps[i];
    return step[1] > step[0];
  };
  CHECK(begins_later(schedule::Urgency::first_step));
  CHECK_FALSE(begins_later(schedule::Urgency::longest_way));
}
