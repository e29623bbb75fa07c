// What tests of bounds share: links both ways, the greatest of some bounds, the best packing of trees, and that no
// schedule is foreseen to take less time.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <initializer_list>
#include <random>
#include <vector>

#include "compose/bounds/bound.h"
#include "portfolio/portfolio.h"
#include "schedule/simulation/simulate.h"
#include "treegen/packing/pack.h"

namespace sccl {

// Links of one lane both ways.
inline void join(topology::Topology& machine, topology::Node a, topology::Node b, double rate, double alpha_us,
                 topology::LinkClass kind) {
  machine.links.push_back({a, b, 1, rate, alpha_us, kind});
  machine.links.push_back({b, a, 1, rate, alpha_us, kind});
}

inline double greatest_us(const std::vector<compose::Bound>& bounds) {
  double most = 0;
  for (const compose::Bound& one : bounds) most = std::max(most, one.us);
  return most;
}

// The packing's rate is in lanes of 1 GB/s, of each rank's block for AllGather and ReduceScatter.
inline double packed_us(const topology::Topology& machine, Collective collective, double bytes) {
  const double rate = treegen::to_double(treegen::pack(machine, collective, 0).rate);
  return bytes / (collective == Collective::reducescatter ? machine.ranks : 1) / (rate * 1e3);
}

inline const std::vector<Collective> kTreeCollectives = {
    Collective::allreduce, Collective::allgather, Collective::reducescatter, Collective::broadcast, Collective::reduce};

// Simulates all candidates of the machine, from random roots. `bounds_of`: of (collective, root, bytes); there must be
// one. `number` tells which machine of a test it is.
template <class BoundsOf>
void check_that_no_schedule_beats(const topology::Topology& machine, int number, std::initializer_list<double> sizes,
                                  std::mt19937& random, BoundsOf&& bounds_of,
                                  const std::vector<Collective>& collectives = kTreeCollectives) {
  for (const Collective collective : collectives) {
    const Rank root = info(collective).rooted ? static_cast<Rank>(random() % unsigned(machine.ranks)) : 0;
    const std::vector<portfolio::Candidate> all = portfolio::candidates(machine, collective, root);
    for (const double bytes : sizes) {
      const std::vector<compose::Bound> bounds = bounds_of(collective, root, bytes);
      REQUIRE_FALSE(bounds.empty());
      for (const portfolio::Candidate& one : all)
        for (const double slice : {0.0, std::max(16384.0, bytes / 64)}) {
          // A chunk is no longer than that: it would be simulated again as one slice.
          if (slice > 0 && one.schedule->weights.empty() && bytes / one.schedule->chunks_per_rank <= slice) continue;
          schedule::SimulationOptions options{.bytes = bytes, .slice_bytes = slice};
          options.detail = schedule::Detail::totals;
          INFO(one.name << " for " << info(collective).name << " of " << bytes << " bytes, machine " << number << ": "
                        << bounds.front().why);
          CHECK(schedule::simulate(*one.schedule, options).time_us >= 0.9999 * greatest_us(bounds));
        }
    }
  }
}

}  // namespace sccl
