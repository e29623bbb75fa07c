// In which order a rank's stream runs the operations of its lanes.
//
// A stream has one order, and where it waits everything behind waits too, so the order must not deadlock together with
// those of the other ranks. For a collective every rank plays the programs of all ranks, with the slots that
// connections have, and notes in which order its own operations could run: a total order of all ranks' operations in
// which each comes after what it needs. The first operation in it that has not run finds everything before it done, its
// own stream's and the others', so it can run; so all do. The order holds for any sizes with so many slices or fewer:
// an operation without elements moves no message at either end, which only frees slots earlier.
//
// Of a batch of transfers a rank knows its own only. All ranks run rounds: the k-th message of every connection that
// goes out, then the k-th of every connection that comes in. Message k needs a slot that message k - 4 has left, which
// is received in round k - 4, and the order of rounds, sending before receiving, is the same at all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device/program.h"
#include "schedule/program.h"

namespace sccl::runtime {

struct StreamTurn {
  std::uint32_t lane = 0;
  std::uint32_t op = 0;  // of the lane
  std::uint64_t slice = 0;
};

// Of `rank`, whose lanes are as in the program it executes. Throws internal_error for a program that needs more slots.
std::vector<StreamTurn> order_collective(const schedule::Program& program, Rank rank, std::uint64_t slices, int slots);

// `chunks` tell how many slices an operation has.
std::vector<StreamTurn> order_transfers(const device::Program& program, const device::Chunk* chunks,
                                        std::uint64_t slice_elements);

}  // namespace sccl::runtime
