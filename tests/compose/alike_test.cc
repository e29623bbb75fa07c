// Composites whose hosts do alike (compose/form/alike.cc), and the order by time of one host that all of them keep.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "base/error.h"
#include "compose/lowering/by_time.h"
#include "compose/lowering/expand.h"
#include "portfolio/composites/composites.h"
#include "programs.h"
#include "schedule/proof/check_program.h"
#include "schedule/proof/verify.h"
#include "schedule/simulation/steps_by_time.h"
#include "topology/formats/load.h"

using namespace sccl;

namespace {

constexpr Collective kOfManyRoots[] = {Collective::allgather, Collective::reducescatter, Collective::allreduce};

// The candidates with an order by time, on more than 32 ranks.
template <typename Visit>
int for_each_ordered(const std::string& cluster, Collective collective, int most, const Visit& visit) {
  portfolio::CompositePlanner planner(topology::load(cluster).topology);
  int visited = 0;
  for (const portfolio::CompositeCandidate& one : planner.candidates(collective, 0)) {
    if (one.by_time == nullptr || visited == most) continue;
    INFO(cluster << ": " << info(collective).name << " by " << one.name());
    visit(one, planner);
    ++visited;
  }
  return visited;
}

// The same composite with a root host at every so many places, in the steps of its frames.
compose::Composite with_roots_apart(const compose::Composite& ordered, int places) {
  compose::Composite one = ordered;
  one.order = nullptr;
  const std::vector<int>& circle = one.tiers.front().groups.front();
  one.root_hosts.clear();
  for (std::size_t place = 0; place < circle.size(); place += static_cast<std::size_t>(places))
    one.root_hosts.push_back(circle[place]);
  one.chunks_per_rank /= places;
  return one;
}

// Of one with an order, in few chunks; entries: of hosts that data enters at several devices.
compose::Verified some_ordered(const char* cluster, Collective collective, bool entries) {
  std::optional<compose::Verified> found;
  for_each_ordered(cluster, collective, 100, [&](const portfolio::CompositeCandidate& one, const auto&) {
    if (!found && one.composite->kinds.front()->has_entries() == entries) found = one.to_run();
  });
  REQUIRE(found);
  return *found;
}

std::string name_of(const std::vector<compose::Move>& moves, const compose::Composite& composite,
                    const compose::Routes& routes, int host) {
  const auto hosts = static_cast<int>(composite.hosts.size());
  const auto& circle = composite.tiers.front().groups.front();
  const auto place = [&](int of) {
    return static_cast<int>(std::find(circle.begin(), circle.end(), of) - circle.begin());
  };
  std::set<std::string> each;
  for (const compose::Move& one : moves) {
    const int peer = routes.host_of(one.peer);
    const auto& ranks = composite.hosts[static_cast<std::size_t>(peer)].ranks;
    each.insert(fmt::format("{} {} {} {} {}; ", one.step, (place(peer) - place(host) + hosts) % hosts,
                            std::find(ranks.begin(), ranks.end(), one.peer) - ranks.begin(), one.sends,
                            static_cast<int>(one.kind)));
  }
  std::string all;
  for (const std::string& one : each) all += one;
  return all;
}

}  // namespace

// What each host does is what one of the first hosts does with the chunk in the same place.
void check_alike(const compose::Composite& composite) {
  const compose::Routes routes(composite);
  const auto& circle = composite.tiers.front().groups.front();
  const auto period = static_cast<std::size_t>(compose::hosts_that_stand_for_all(composite));
  std::vector<compose::Move> moves, of_first;
  for (std::size_t place = 0; place < circle.size(); ++place) {
    const int host = circle[place];
    const int first = circle[place % period];
    std::set<schedule::ChunkId> seen;
    for (schedule::ChunkId chunk = 0; chunk < routes.chunks(); ++chunk) {
      const schedule::ChunkId same = routes.as_first_hosts(chunk, host);
      REQUIRE(seen.insert(same).second);
      if (host == first) REQUIRE(same == chunk);
      if (chunk % 7 != host % 7) continue;
      for (std::size_t local = 0; local < composite.hosts.front().ranks.size(); ++local) {
        moves.clear();
        of_first.clear();
        routes.moves(chunk, composite.hosts[static_cast<std::size_t>(host)].ranks[local], moves);
        routes.moves(same, composite.hosts[static_cast<std::size_t>(first)].ranks[local], of_first);
        REQUIRE(name_of(moves, composite, routes, host) == name_of(of_first, composite, routes, first));
      }
    }
  }
}

// Flat forms of the order are right and take the time of the share, and programs are right.
void check_order(const compose::Verified& ordered, const schedule::HostShare& share) {
  REQUIRE(ordered->order != nullptr);
  const schedule::Schedule flat = compose::expand(*ordered);
  schedule::verify(flat);
  for (const double bytes : {1e6, 64e6}) {
    schedule::SimulationOptions options{.bytes = flat.collective == Collective::allgather ? bytes / flat.ranks : bytes};
    options.slots = schedule::kSlots;
    options.short_slots = options.network_slots = schedule::kShortSlots;
    options.lane_bytes = schedule::kLaneBytes;
    CHECK(schedule::Simulator(share).run(options).time_us ==
          Approx(schedule::simulate(flat, options).time_us).epsilon(0.02));
  }
  const compose::RankParts parts(ordered);
  CHECK_NOTHROW(schedule::check_program(flat, programs(parts, schedule::Forwarding::within(3)),
                                        {3, 1, schedule::Placement::in_place, 7}));
}

TEST_CASE("where hosts do alike, each does what the first one does with the chunk in the same place") {
  const std::string cluster = GENERATE("5*z52-full", "9*nvpairs4", "3*mi250x", "5*dgx1v");
  const auto collective = GENERATE(from_range(std::begin(kOfManyRoots), std::end(kOfManyRoots)));
  const int checked =
      for_each_ordered(cluster, collective, 4, [](const auto& one, const auto&) { check_alike(*one.composite); });
  CHECK(checked > 0);
}

TEST_CASE("the order of one host is one for all: flat forms are right, take the same time, and programs, too") {
  const std::string cluster = GENERATE("5*z52-full", "9*nvpairs4", "5*dgx1v", "5*pcie8");
  const auto collective = GENERATE(from_range(std::begin(kOfManyRoots), std::end(kOfManyRoots)));
  const int checked = for_each_ordered(cluster, collective, 2, [](const auto& one, const auto&) {
    const compose::Verified ordered = one.to_run();
    CHECK(ordered->name == one.name());
    const schedule::HostShare* const share = one.by_time->share();
    REQUIRE(share != nullptr);
    check_order(ordered, *share);
  });
  CHECK(checked > 0);
}

TEST_CASE("where root hosts are some places apart, as many hosts stand for all, and their order is one for all") {
  const bool entries = GENERATE(false, true);
  const int places = GENERATE(2, 3);
  const char* const cluster = "6*z52-full";
  const compose::Composite apart = with_roots_apart(*some_ordered(cluster, Collective::allreduce, entries), places);
  CHECK(compose::hosts_that_stand_for_all(apart) == places);
  const compose::Verified by_frames(apart);
  check_alike(apart);
  portfolio::CompositePlanner planner(topology::load(cluster).topology);
  auto share = planner.shares()->of(apart);
  REQUIRE(share);
  CHECK(share->schedule.ranks == 8 * places);
  const auto order = compose::order_by_time(apart, *share, schedule::kLaneBytes);
  REQUIRE(order != nullptr);
  check_order(compose::Verified(by_frames, order), *share);
  auto wrong = std::make_shared<compose::Order>(*order);
  std::ranges::reverse(wrong->sums);
  CHECK_THROWS_WITH(compose::Verified(by_frames, wrong), Catch::Contains("turns round"));
}

TEST_CASE("an order of one host that turns round what its ranks do, or lacks steps, is refused") {
  const bool entries = GENERATE(false, true);
  const compose::Verified good = some_ordered("5*z52-full", Collective::allreduce, entries);
  compose::Composite plain = *good;
  plain.order = nullptr;
  const compose::Verified by_frames(plain);
  CHECK_NOTHROW(compose::Verified(by_frames, good->order));
  const auto refused = [&](const auto& change, const char* why) {
    auto order = std::make_shared<compose::Order>(*good->order);
    change(*order);
    CHECK_THROWS_WITH(compose::Verified(by_frames, order), Catch::Contains(why));
  };
  refused([](compose::Order& order) { std::ranges::reverse(order.copies); }, "turns round");
  refused([](compose::Order& order) { std::ranges::fill(order.sums, 0); }, "turns round");
  refused([](compose::Order& order) { order.copies.pop_back(); }, "steps for");
  refused([](compose::Order& order) { order.sums.clear(); }, "no step for");
  refused([](compose::Order& order) { --order.steps; }, "its order has step");
}

TEST_CASE("two steps of one host's order that change places are refused, or programs are still right") {
  std::mt19937 random(7);
  const compose::Verified good = some_ordered("9*nvpairs4", Collective::allreduce, false);
  compose::Composite plain = *good;
  plain.order = nullptr;
  const compose::Verified by_frames(plain);
  int right = 0;
  int wrong = 0;
  for (int trial = 0; trial < 12; ++trial) {
    auto order = std::make_shared<compose::Order>(*good->order);
    auto& steps = trial % 2 == 0 ? order->copies : order->sums;
    std::uniform_int_distribution<std::size_t> place(0, steps.size() - 1);
    for (int swaps = 0; swaps < 1 + trial / 4; ++swaps) std::swap(steps[place(random)], steps[place(random)]);
    std::optional<compose::Verified> changed;
    try {
      changed.emplace(by_frames, order);
    } catch (const Error&) {
      ++wrong;
      continue;
    }
    ++right;
    const schedule::Schedule flat = compose::expand(**changed);
    CHECK_NOTHROW(schedule::verify(flat));
    CHECK_NOTHROW(schedule::check_program(flat, programs(compose::RankParts(*changed), schedule::Forwarding::within(3)),
                                          {3, 1, schedule::Placement::in_place, 7}));
  }
  CHECK(right + wrong == 12);
  CHECK(wrong > 0);
}

TEST_CASE("hosts that cannot do alike are refused with the reason") {
  const compose::Verified good = some_ordered("5*z52-full", Collective::allreduce, true);
  compose::Composite plain = *good;
  plain.order = nullptr;
  CHECK(compose::fault_of_alike(plain).empty());
  const auto refused = [&](const auto& change, const char* why) {
    compose::Composite changed = plain;
    change(changed);
    CHECK_THAT(compose::fault_of_alike(changed), Catch::Contains(why));
    CHECK_THROWS_AS(compose::verify(changed), Error);
  };
  refused([](compose::Composite& one) { one.collective = Collective::broadcast; }, "one root, or none");
  refused([](compose::Composite& one) { one.meeting = compose::Meeting::butterfly; }, "one root, or none");
  refused([](compose::Composite& one) { one.tiers.push_back(one.tiers.front()); }, "several groups");
  refused([](compose::Composite& one) { one.tiers.front().leaves = {0}; }, "trees of their own");
  refused([](compose::Composite& one) { one.staggered = true; }, "begin in turn");
  refused([](compose::Composite& one) { one.root_hosts.pop_back(); }, "not equally far apart");
  refused([](compose::Composite& one) { one.root_hosts.front() = one.root_hosts.back(); }, "not equally far apart");
  refused([](compose::Composite& one) { one.chunks_per_rank += one.frames; }, "unlike numbers");
  refused([](compose::Composite& one) { std::ranges::reverse(one.hosts.back().ports); }, "unlike kinds");
  refused(
      [](compose::Composite& one) {
        for (auto& [members, trees] : one.tiers.front().shapes) trees.push_back(trees.front());
      },
      "several trees");
}

TEST_CASE("one host's layout takes as long as its simulation, and its order no longer than frames") {
  const std::string cluster = GENERATE("5*z52-full", "8*z52", "5*dgx1v");
  const auto collective = GENERATE(from_range(std::begin(kOfManyRoots), std::end(kOfManyRoots)));
  const int checked = for_each_ordered(cluster, collective, 2, [](const auto& one, const auto& planner) {
    auto by_frames = planner.shares()->of(*one.composite);
    REQUIRE(by_frames);
    const int chunks = by_frames->schedule.chunks;
    schedule::SimulationOptions options{.bytes = chunks * schedule::kLaneBytes};
    if (one.composite->collective == Collective::allgather) options.bytes /= one.composite->ranks();
    options.slots = schedule::kSlots;
    options.short_slots = options.network_slots = schedule::kShortSlots;
    options.lane_bytes = schedule::kLaneBytes;
    const double us_of_frames = schedule::Simulator(*by_frames).run(options).time_us;
    const schedule::TimedSteps laid = schedule::steps_by_time(*by_frames, schedule::kLaneBytes);
    schedule::HostShare ordered = *by_frames;
    for (std::size_t i = 0; i < laid.steps.size(); ++i) ordered.schedule.sends[i].step = laid.steps[i];
    ordered.schedule.steps = static_cast<int>(laid.steps.size());
    const double us = schedule::Simulator(ordered).run(options).time_us;
    CHECK(us == Approx(laid.us).epsilon(0.01));
    CHECK(us <= 1.001 * us_of_frames);
  });
  CHECK(checked > 0);
}
