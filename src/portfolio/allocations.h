// Which devices to give to a job. Jobs on a machine that is partly in use get what is left, and equal numbers of
// devices differ by large factors in the rate that their links allow (Blink 2.2). This asks the other way round: of the
// sets of free devices, which ones reach the highest rate.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"
#include "topology/formats/load.h"

namespace sccl::portfolio {

// Sets of devices whose links are alike.
struct Allocation {
  std::vector<int> devices;  // one of them, ascending
  double ways = 0;           // how many sets of free devices are alike
  int hosts = 0;             // that such a set uses
  // What the best packing of trees reaches: bytes of the buffer a second; AllGather and ReduceScatter: of each rank's
  // block. 0: no links join these devices.
  double gbytes_per_s = 0;
};

// All classes of sets of `count` of the `free` devices, the highest rate first, then fewer hosts. `collective` is one
// that trees are packed for; a rooted one has its root at the first device. Throws invalid_argument for devices that do
// not exist or are named twice, fewer free devices than `count`, `count` below 2, and too many classes to list.
std::vector<Allocation> rank_allocations(const topology::Machine& machine, std::span<const int> free, int count,
                                         Collective collective);

}  // namespace sccl::portfolio
