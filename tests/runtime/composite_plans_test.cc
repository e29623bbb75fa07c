// Plans of composites: made for one rank alone, in proportion to what this rank does, and only of what is verified.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "compose/lowering/expand.h"
#include "compose/lowering/rank_parts.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/choice/schedule_model.h"
#include "schedule/simulation/cost.h"
#include "topology/presets.h"

using namespace sccl;
using runtime::PlanCache;
using runtime::ScheduleModel;

namespace {

constexpr Collective kCollectives[] = {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                                       Collective::broadcast, Collective::reduce,    Collective::alltoall,
                                       Collective::gather,    Collective::scatter};
constexpr std::size_t kShort = 1024;
constexpr std::size_t kLong = 1 << 20;

std::size_t operations_of(const runtime::Plan& plan) {
  const device::Program program = plan.program.view();
  std::size_t count = 0;
  for (device::u32 lane = 0; lane < program.lane_count; ++lane) count += program.lanes[lane].op_count;
  return count;
}

std::string chosen(ScheduleModel& model, Collective collective, std::size_t bytes) {
  return model.ranking(collective, 0, bytes, runtime::Settings{}).front().name;
}

}  // namespace

TEST_CASE("of thousands of ranks, one rank's plan is as large as what the rank does") {
  for (const char* name : {"256*dgx-a100", "64*mi250x", "2048*host:1"}) {
    const topology::Topology machine = topology::preset(name);
    ScheduleModel model(machine, {});
    for (const Collective collective : kCollectives)
      for (const std::size_t bytes : {kShort, kLong}) {
        const std::string schedule = chosen(model, collective, bytes);
        INFO(schedule << " for " << info(collective).name << " of " << bytes << " bytes on " << name);
        for (const Rank rank : {0, machine.ranks / 2, machine.ranks - 1}) {
          PlanCache plans(rank, machine.ranks);
          const runtime::Plan& plan = plans.find(collective, 0, {schedule}, &model);
          const schedule::RankPart part = compose::RankParts(*model.composite(collective, 0, schedule)).of(rank);
          CHECK_FALSE(plan.flat.has_value());
          CHECK(plan.chunks == part.chunks);
          // An operation moves at least one message, or copies the rank's own block.
          CHECK(operations_of(plan) <= part.messages.size() + 1);
          CHECK(plan.chunks.size() <= part.messages.size() + 1);
        }
      }
  }
}

TEST_CASE("the flat form of thousands of ranks is refused, so no plan is made of it") {
  ScheduleModel model(topology::preset("256*dgx-a100"), {});
  for (const Collective collective : {Collective::allreduce, Collective::allgather, Collective::reducescatter}) {
    // An AllReduce by several trees has few chunks, so that its flat form is not too long.
    const std::string schedule =
        collective == Collective::allreduce ? "levels/quadrupling+one-hop/8" : chosen(model, collective, kLong);
    CHECK_THROWS_WITH(model.schedule(collective, 0, schedule), Catch::Contains("ask for its form by levels"));
    CHECK_NOTHROW(PlanCache(7, 2048).find(collective, 0, {schedule}, &model));
  }
}

TEST_CASE("what protocols cost is told of composites without their flat forms") {
  ScheduleModel large(topology::preset("256*dgx-a100"), {});
  ScheduleModel model(topology::preset("9*pcie4"), {});
  for (const Collective collective : kCollectives) {
    INFO(info(collective).name);
    CHECK_NOTHROW(large.outline(collective, 0, chosen(large, collective, kLong), kLong, true));
    const std::string name = chosen(model, collective, kLong);
    const ScheduleModel::Outline outline = model.outline(collective, 0, name, kLong, true);
    const schedule::Schedule flat = model.schedule(collective, 0, name);
    CHECK(outline.layout.chunks == flat.chunks);
    CHECK(outline.layout.ranks == flat.ranks);
    if (!name.ends_with("-by-time")) CHECK(outline.steps >= flat.steps);  // an order has a step for each send
    const double busiest_us = schedule::busiest_us_per_byte(flat) * schedule::buffer_bytes(flat, kLong, 1);
    CHECK(outline.busiest_us == Approx(busiest_us).epsilon(0.15));  // unlike chunks are even on average only
    CHECK(model.outline(collective, 0, name, kLong, false).busiest_us == 0);
  }
}

TEST_CASE("composites of few ranks become plans of one rank, too, and other candidates do not") {
  const topology::Topology machine = topology::preset("2*nvpairs4");
  ScheduleModel model(machine, {});
  PlanCache plans(3, machine.ranks);
  PlanCache expanded(3, machine.ranks, nullptr, PlanCache::Composites::expanded);
  int composites = 0;
  const auto all = model.candidates(Collective::allreduce, 0);
  for (const portfolio::Candidate& one : *all) {
    const bool by_levels = one.origin == portfolio::Origin::levels;
    INFO(one.name);
    CHECK(plans.find(Collective::allreduce, 0, {one.name}, &model).flat.has_value() == !by_levels);
    CHECK(expanded.find(Collective::allreduce, 0, {one.name}, &model).flat.has_value());
    composites += by_levels ? 1 : 0;
  }
  CHECK(composites > 3);
}

TEST_CASE("candidates for all roots stay within a limit, and those that went come back the same") {
  // 8 ranks: all candidates have flat forms. 64: only composites, chosen by their closed form.
  for (const char* name : {"2*nvpairs4", "16*nvpairs4"}) {
    const topology::Topology machine = topology::preset(name);
    ScheduleModel alone(machine, {});
    const auto first = alone.ranking(Collective::broadcast, 0, kLong, {});
    const std::size_t one_root = alone.kept_bytes();
    REQUIRE(one_root > 0);

    ScheduleModel model(machine, {}, ScheduleModel::Candidacy::all, 3 * one_root);
    for (Rank root = 0; root < 8; ++root) {
      model.ranking(Collective::broadcast, root, kShort, {});
      CHECK(model.kept_bytes() <= 3 * one_root);
    }
    CHECK(model.kept_bytes() > one_root);
    const auto again = model.ranking(Collective::broadcast, 0, kLong, {});
    REQUIRE(again.size() == first.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      CHECK(again[i].name == first[i].name);
      CHECK(again[i].predicted_us == first[i].predicted_us);
    }
    CHECK(model.schedule(Collective::broadcast, 0, first.front().name).sends ==
          alone.schedule(Collective::broadcast, 0, first.front().name).sends);
  }
}

TEST_CASE("a candidate that was added outlives the limit") {
  ScheduleModel model(topology::preset("2*nvpairs4"), {}, ScheduleModel::Candidacy::all, 1);
  portfolio::Candidate found = model.candidates(Collective::broadcast, 0)->front();
  found.name = "found later";
  REQUIRE(model.add(Collective::broadcast, 0, {found}));
  CHECK_FALSE(model.add(Collective::broadcast, 0, {found}));
  const auto named_alike = [&](const std::string& name) {
    const auto all = model.candidates(Collective::broadcast, 0);
    return std::count_if(all->begin(), all->end(), [&](const auto& one) { return one.name == name; });
  };
  CHECK(named_alike("found later") == 1);
  model.candidates(Collective::broadcast, 1);  // takes the place of root 0
  CHECK(named_alike("found later") == 1);
  CHECK(model.schedule(Collective::broadcast, 0, "found later").sends == found.schedule->sends);
}

TEST_CASE("two composites never count as summing in the same order, and one always does") {
  ScheduleModel model(topology::preset("2*nvpairs4"), {});
  PlanCache mine(0, 8);
  PlanCache other(5, 8);
  const auto order = [&](PlanCache& plans, const char* name) {
    return plans.find(Collective::allreduce, 0, {name}, &model).sum_order(schedule::Stars::by_step);
  };
  CHECK(order(mine, "levels/ring+one-hop") == order(other, "levels/ring+one-hop"));
  CHECK(order(mine, "levels/ring+one-hop") != order(mine, "levels/butterfly+one-hop"));
  CHECK(order(mine, "levels/ring+one-hop") != order(mine, "ring"));
}

TEST_CASE("a wrong candidate becomes no plan, whether flat or a composite") {
  ScheduleModel model(topology::preset("2*nvpairs4"), {});
  PlanCache plans(0, 8);
  portfolio::Candidate flat = model.candidates(Collective::allreduce, 0)->front();
  flat.name = "wrong";
  flat.composite.reset();
  schedule::Schedule shorter = *flat.schedule;
  shorter.sends.pop_back();
  flat.schedule = std::move(shorter);
  std::vector<portfolio::Candidate> more;
  more.push_back(flat);
  REQUIRE(model.add(Collective::allreduce, 0, more));
  CHECK_THROWS_AS(plans.find(Collective::allreduce, 0, {"wrong"}, &model), Error);

  const auto all = *model.candidates(Collective::allreduce, 0);
  const auto good = std::find_if(all.begin(), all.end(), [](const auto& one) { return one.composite.has_value(); });
  REQUIRE(good != all.end());
  compose::Composite changed = **good->composite;
  changed.hosts[0].ports[0] = 4;
  CHECK_THROWS_WITH(compose::Verified(changed), Catch::Contains("is not one of its 4 devices"));
}
