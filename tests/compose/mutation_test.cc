// A composite that is changed anywhere is refused, or still right: nothing wrong becomes a program.
#include <catch2/catch.hpp>
#include <random>
#include <type_traits>

#include "base/error.h"
#include "clusters.h"
#include "compose/lowering/expand.h"
#include "programs.h"
#include "schedule/proof/check_program.h"
#include "schedule/proof/verify.h"

using namespace sccl;
using compose::Composite;
using Random = std::mt19937;

// Programs are made of verified composites only, and these do not change.
static_assert(!std::is_constructible_v<compose::RankParts, Composite>);
static_assert(!std::is_convertible_v<Composite, compose::Verified>);
static_assert(std::is_const_v<std::remove_reference_t<decltype(*std::declval<compose::Verified>())>>);

namespace {

// One of 0..count-1, or rarely a number beside them.
int any(Random& random, std::size_t count) {
  return std::uniform_int_distribution<int>(-1, static_cast<int>(count))(random);
}
std::size_t one_of(Random& random, std::size_t count) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
}

void change(schedule::Schedule& schedule, Random& random) {
  if (schedule.sends.empty()) return;
  const std::size_t position = one_of(random, schedule.sends.size());
  schedule::Send& send = schedule.sends[position];
  switch (one_of(random, 6)) {
    case 0:
      schedule.sends.erase(schedule.sends.begin() + static_cast<std::ptrdiff_t>(position));
      break;
    case 1:
      send.step = any(random, static_cast<std::size_t>(schedule.steps));
      break;
    case 2:
      send.src = any(random, static_cast<std::size_t>(schedule.ranks));
      break;
    case 3:
      send.dst = any(random, static_cast<std::size_t>(schedule.ranks));
      break;
    case 4:
      send.chunk = any(random, static_cast<std::size_t>(schedule.chunks));
      break;
    default:
      send.kind = send.kind == schedule::SendKind::copy ? schedule::SendKind::reduce : schedule::SendKind::copy;
      break;
  }
}

void change(compose::HostKind& kind, Random& random) {
  auto& turns = one_of(random, 2) == 0 ? kind.in_turns : kind.out_turns;
  auto& of_port = turns[one_of(random, turns.size())];
  switch (one_of(random, kind.has_entries() ? 8 : 6)) {
    case 6: {
      auto& entries = one_of(random, 2) == 0 ? kind.in_entries : kind.out_entries;
      auto& devices = entries[one_of(random, entries.size())];
      const int device = any(random, static_cast<std::size_t>(kind.in.ranks));
      if (devices.empty() || one_of(random, 3) == 0)
        devices.push_back(device);
      else
        devices[one_of(random, devices.size())] = device;
      break;
    }
    case 7: {
      auto home = std::make_shared<compose::HostKind>(*kind.home);
      change(*home, random);
      kind.home = std::move(home);
      break;
    }
    case 0:
      std::swap(of_port, turns[one_of(random, turns.size())]);
      break;
    case 1:
      of_port[one_of(random, of_port.size())] = any(random, static_cast<std::size_t>(kind.in.chunks));
      break;
    case 2:
      of_port.pop_back();
      break;
    case 3:
      change(kind.in, random);
      break;
    case 4:
      change(kind.out, random);
      break;
    default:
      change(kind.between, random);
      break;
  }
}

void change(compose::RootHost& root, Random& random) {
  const auto change_list = [&](std::vector<std::vector<int>>& lists) {
    if (lists.empty()) return change(root.schedule, random);
    std::vector<int>& devices = lists[one_of(random, lists.size())];
    const int device = any(random, static_cast<std::size_t>(root.schedule.ranks));
    if (devices.empty() || one_of(random, 3) == 0)
      devices.push_back(device);
    else if (one_of(random, 3) == 0)
      devices.pop_back();
    else
      devices[one_of(random, devices.size())] = device;
  };
  switch (one_of(random, 4)) {
    case 0:
      root.split = any(random, static_cast<std::size_t>(root.schedule.steps) + 1);
      break;
    case 1:
      change_list(root.exits);
      break;
    case 2:
      change_list(root.returns);
      break;
    default:
      change(root.schedule, random);
      break;
  }
}

void change(compose::Tier& tier, Random& random) {
  auto& group = tier.groups[one_of(random, tier.groups.size())];
  if (!tier.leaves.empty() && one_of(random, 3) == 0) {
    tier.leaves[one_of(random, tier.leaves.size())] = any(random, group.size());
    if (one_of(random, 4) == 0) tier.leaves.pop_back();
    return;
  }
  std::vector<compose::Tree>& trees = tier.of_roots.empty() || one_of(random, 4) == 0
                                          ? tier.shapes.begin()->second
                                          : tier.of_roots[one_of(random, tier.of_roots.size())];
  compose::Tree& tree = trees[one_of(random, trees.size())];
  const std::size_t position = one_of(random, tree.parent.size());
  switch (one_of(random, tier.of_roots.empty() ? 5 : 7)) {
    case 5:
      trees.pop_back();
      break;
    case 6:
      if (one_of(random, 2) == 0)
        tier.of_roots.pop_back();
      else
        std::swap(tier.of_roots.front(), tier.of_roots.back());
      break;
    case 0:
      std::swap(group.front(), group.back());
      break;
    case 1:
      group[one_of(random, group.size())] = any(random, group.size());
      break;
    case 2:
      tree.parent[position] = any(random, tree.parent.size());
      break;
    case 3:
      tree.step[position] = any(random, static_cast<std::size_t>(tree.steps));
      break;
    default:
      if (!tree.children.empty()) tree.children[one_of(random, tree.children.size())] = any(random, tree.parent.size());
      break;
  }
}

void change(compose::Host& host, Random& random) {
  switch (one_of(random, 6)) {
    case 0:
      host.ports[one_of(random, host.ports.size())] = any(random, host.ranks.size());
      break;
    case 1:
      if (host.all_own()) host.near.resize(host.ranks.size());
      host.near[one_of(random, host.near.size())].push_back(any(random, host.ranks.size()));
      break;
    case 2:
      std::swap(host.ranks.front(), host.ranks.back());
      break;
    case 3:
      host.rails.resize(host.ranks.size());
      host.rails[one_of(random, host.rails.size())] = any(random, 20);
      break;
    case 4:
      host.pace = any(random, 20);
      break;
    default:
      host.kind = any(random, 2);
      break;
  }
}

// Changes one thing.
Composite mutant(const Composite& good, Random& random) {
  Composite composite = good;
  const auto ranks = static_cast<std::size_t>(good.ranks());
  switch (one_of(random, 10)) {
    case 0:
    case 1: {
      auto& kind = composite.kinds[one_of(random, composite.kinds.size())];
      auto changed = std::make_shared<compose::HostKind>(*kind);
      change(*changed, random);
      kind = std::move(changed);
      break;
    }
    case 2:
    case 3:
      if (!composite.tiers.empty()) change(composite.tiers[one_of(random, composite.tiers.size())], random);
      break;
    case 4:
      change(composite.hosts[one_of(random, composite.hosts.size())], random);
      break;
    case 5:
      if (!composite.root_hosts.empty())
        composite.root_hosts[one_of(random, composite.root_hosts.size())] = any(random, composite.hosts.size());
      break;
    case 6:
      composite.chunks_per_rank += one_of(random, 2) == 0 ? 1 : -1;
      break;
    case 7:
      composite.frames = any(random, 9);
      composite.staggered = !composite.staggered;
      break;
    case 8:
      composite.root = any(random, ranks);
      break;
    default:
      if (composite.at_root && one_of(random, 2) == 0) {
        composite.root_turns[one_of(random, composite.root_turns.size())] =
            any(random, static_cast<std::size_t>(composite.at_root->schedule.chunks));
      } else if (composite.at_root) {
        change(*composite.at_root, random);
      } else if (one_of(random, 2) == 0) {
        composite.rails_of_pairs = !composite.rails_of_pairs;
      } else {
        composite.source_is_near = !composite.source_is_near;
      }
      break;
  }
  return composite;
}

}  // namespace

TEST_CASE("a changed composite is refused, or its programs are still right") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  Random random(seed);
  int refused = 0;
  int right = 0;
  for (const topology::Topology& machine :
       {topology::preset("3*nvpairs4"), topology::preset("2*pcie4"), uneven(), one_nic(),
        with_nics(topology::preset("pcie4"), {{1, 2}, {0, 2}, {1, 2}}, 20), racks(2, 2, 2),
        in_a_row(4, 2, {4, 4, 4, 4}), slow_beside_fast(), rails_of_pairs(), with_rates({20, 12, 20, 15})})
    for_every_composite_of(10'000, machine, [&](const Composite& good) {
      for (int round = 0; round < 8; ++round) {
        const Composite changed = mutant(good, random);
        std::optional<compose::Verified> verified;
        try {
          verified.emplace(changed);
        } catch (const Error& error) {
          CHECK(error.code() == ErrorCode::invalid_argument);
          ++refused;
          continue;
        }
        ++right;
        const schedule::Schedule flat = compose::expand(**verified);
        CHECK_NOTHROW(schedule::verify(flat));
        const schedule::Program program =
            programs(compose::RankParts(*std::move(verified)), schedule::Forwarding::within(3));
        CHECK_NOTHROW(schedule::check_program(flat, program, {3, 2, schedule::Placement::in_place, 7}));
      }
    });
  CHECK(refused > 100);
  CHECK(right > 100);
}
