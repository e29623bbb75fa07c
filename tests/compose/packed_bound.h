// What tests of bounds compare: the greatest of some bounds, and the best packing of trees.
#pragma once

#include <algorithm>
#include <vector>

#include "compose/bounds/bound.h"
#include "treegen/packing/pack.h"

namespace sccl {

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

}  // namespace sccl
