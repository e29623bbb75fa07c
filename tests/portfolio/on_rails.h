// Clusters whose hosts have NICs on rails, and how near plans come to their bound.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <span>
#include <utility>
#include <vector>

#include "by_closed_form.h"
#include "compose/bounds/bound.h"
#include "compose/lowering/expand.h"
#include "portfolio/composites/composites.h"
#include "schedule/simulation/simulate.h"
#include "simulation_options.h"

namespace sccl {

inline constexpr double kBytes = 64 << 20;
inline constexpr double kSlice = 128 * 1024;

inline void join(topology::Topology& machine, topology::Node a, topology::Node b, double rate,
                 topology::LinkClass kind) {
  machine.links.push_back({a, b, 1, rate, 1, kind});
  machine.links.push_back({b, a, 1, rate, 1, kind});
}

// Of each host the rails of its devices' NICs, of `nic` GB/s (-1: the device has none); links of `inner_rate` join its
// devices. A link of `joined` GB/s leads from each rail's switch to one above; 0: there is none.
inline topology::Topology on_rails(const std::vector<std::vector<int>>& hosts, double joined, double inner_rate = 200,
                                   double nic = 25) {
  topology::Topology machine;
  machine.name = "rails";
  int rails = 0;
  for (const std::vector<int>& host : hosts) {
    machine.ranks += static_cast<int>(host.size());
    rails = std::max(rails, 1 + *std::ranges::max_element(host));
  }
  machine.switches = static_cast<int>(hosts.size()) + rails + (joined > 0 ? 1 : 0);
  const topology::Node above = machine.ranks + static_cast<int>(hosts.size()) + rails;
  Rank rank = 0;
  topology::Node inner = machine.ranks;
  for (const std::vector<int>& host : hosts) {
    for (const int rail : host) {
      join(machine, rank, inner, inner_rate, topology::LinkClass::nvlink);
      if (rail >= 0) join(machine, rank, above - rails + rail, nic, topology::LinkClass::net);
      ++rank;
    }
    ++inner;
  }
  for (int rail = 0; rail < rails && joined > 0; ++rail)
    join(machine, above - rails + rail, above, joined, topology::LinkClass::net);
  return machine;
}

inline std::vector<std::vector<int>> often(const std::vector<std::vector<int>>& hosts, int times) {
  std::vector<std::vector<int>> result;
  for (int i = 0; i < times; ++i) result.insert(result.end(), hosts.begin(), hosts.end());
  return result;
}

// How many times the bound the composite takes that the closed form chooses: by the closed form, and simulated.
inline std::pair<double, double> times_bound(const topology::Topology& machine, Collective collective) {
  const auto all = portfolio::CompositePlanner(machine).candidates(collective, 1);
  const auto& best = all[sccl_test::by_closed_form(all, kBytes, kSlice).front()];
  UNSCOPED_INFO(best.composite->name);
  const double bound = compose::bounds(machine, topology::cluster_of(machine), collective, 1, kBytes).front().us;
  const double slice = best.cost.good_slice(kBytes, kSlice);
  const auto options = sccl_test::moved_in_lanes(kBytes, slice);
  const double simulated = schedule::simulate(compose::expand(*best.to_run()), options).time_us;
  return {best.cost.time_us(kBytes, slice) / bound, simulated / bound};
}

// That each takes less than `most` times the bound.
inline void check_times_bound(const topology::Topology& machine, std::span<const Collective> collectives, double most) {
  for (const Collective collective : collectives) {
    const auto [foreseen, simulated] = times_bound(machine, collective);
    INFO(info(collective).name << ": " << foreseen << " and " << simulated);
    CHECK(foreseen < most);
    CHECK(simulated < most);
  }
}

}  // namespace sccl
