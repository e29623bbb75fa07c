// A composite may take all ranks of a cluster as one host: it is proved on all links, and its programs are right.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "clusters.h"
#include "compose/lowering/by_time.h"
#include "compose/lowering/expand.h"
#include "programs.h"
#include "schedule/proof/check_program.h"
#include "schedule/proof/verify.h"

using namespace sccl;
using compose::Composite;

namespace {

template <typename Check>
int for_every_one_of_one_host(const topology::Topology& machine, Collective collective, Check&& check) {
  int found = 0;
  portfolio::CompositePlanner planner(machine);
  for (const portfolio::CompositeCandidate& one : planner.candidates(collective, 0))
    if (one.composite->hosts.size() == 1) {
      INFO(one.composite->name << " for " << info(collective).name);
      check(one.composite);
      ++found;
    }
  return found;
}

}  // namespace

TEST_CASE("composites of one host of all ranks have right flat forms and programs") {
  const auto check = [](const compose::Verified& one) {
    CHECK(one->order != nullptr);
    const schedule::Schedule flat = compose::expand(*one);
    CHECK_NOTHROW(schedule::verify(flat));
    for (const auto placement : {schedule::Placement::in_place, schedule::Placement::out_of_place}) {
      const schedule::Program program = programs(compose::RankParts(one), schedule::Forwarding::within(3));
      CHECK_NOTHROW(schedule::check_program(flat, program, {3, 2, placement, 7}));
    }
  };
  CHECK(for_every_one_of_one_host(slow_beside_fast(), Collective::allreduce, check) > 0);
  for (const Collective collective : {Collective::allgather, Collective::reducescatter}) {
    CHECK(for_every_one_of_one_host(far_from_nics(), collective, check) == 2);
    CHECK(for_every_one_of_one_host(topology::preset("2*dgx-a100"), collective, check) == 0);  // no less busy
  }
}

TEST_CASE("a host of all ranks must hold each rank once, and use links that exist") {
  const topology::Topology machine = slow_beside_fast();
  for_every_one_of_one_host(machine, Collective::allreduce, [&](const compose::Verified& one) {
    const auto refused = [&](const auto& change) {
      Composite changed = *one;
      changed.order = nullptr;
      change(changed);
      CHECK_THROWS_AS(compose::verify(changed), Error);
    };
    Composite without_order = *one;
    without_order.order = nullptr;
    CHECK_NOTHROW(compose::verify(without_order));
    refused([](Composite& changed) { changed.hosts.front().ranks.pop_back(); });
    refused([](Composite& changed) { changed.hosts.front().ranks.back() = 0; });
    refused([](Composite& changed) {
      auto kind = std::make_shared<compose::HostKind>(*changed.kinds.front());
      kind->in.sends.pop_back();
      changed.kinds = {kind};
    });
    refused([](Composite& changed) {
      auto kind = std::make_shared<compose::HostKind>(*changed.kinds.front());
      kind->out.topology.links.push_back({0, 7, 1, 1, 1, topology::LinkClass::nvlink});
      kind->out.topology.links.push_back({7, 0, 1, 1, 1, topology::LinkClass::nvlink});
      changed.kinds = {kind};
    });
    // Two hosts of the cluster cannot be told as one of them.
    refused([&](Composite& changed) {
      changed.hosts.push_back(changed.hosts.front());
      changed.hosts.front().ranks.resize(4);
      changed.hosts.back().ranks = {4, 5, 6, 7};
    });
  });
}
