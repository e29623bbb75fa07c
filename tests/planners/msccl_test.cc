// Every planner's schedule survives the way through MSCCL's XML.
#include <catch2/catch.hpp>

#include "planners/planners.h"
#include "schedule/lowering/prepare.h"
#include "schedule/msccl/msccl_export.h"
#include "schedule/msccl/msccl_import.h"
#include "schedule/simulation/cost.h"
#include "topology/presets.h"

using namespace sccl;
using namespace sccl::schedule;

TEST_CASE("every planner's schedule is exported, read back, and is the same collective") {
  int exported = 0;
  for (const char* name : {"host:1", "host:2", "host:3", "host:5", "host:8", "dgx-a100", "mi300x", "nvpairs4"}) {
    const topology::Topology machine = topology::preset(name);
    for (const planners::Planner& planner : planners::table())
      for (int i = 0; i < kCollectiveCount; ++i) {
        const auto collective = static_cast<Collective>(i);
        const Rank root = machine.ranks - 1;
        if (collective == Collective::sendrecv) continue;
        const auto schedule = planner.plan(machine, collective, info(collective).rooted ? root : 0);
        if (!schedule) continue;
        INFO(planner.name << " for " << info(collective).name << " on " << name);
        const std::string xml = to_xml(msccl_from_schedule(*schedule));
        const Schedule back = schedule_from_msccl(msccl_from_xml(xml));
        CHECK(back.collective == schedule->collective);
        CHECK(back.ranks == schedule->ranks);
        CHECK(back.chunks == schedule->chunks);
        if (machine.ranks > 1) CHECK(back.root == schedule->root);
        CHECK(back.sends.size() == schedule->sends.size());
        CHECK(back.steps <= schedule->steps);
        CHECK(to_xml(msccl_from_schedule(back)).size() > 0);
        prepare(back, 4);
        ++exported;
      }
  }
  CHECK(exported > 150);
}
