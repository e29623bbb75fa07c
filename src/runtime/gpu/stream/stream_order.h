// The order in which a rank's stream runs the operations of its lanes.
//
// A stream runs its operations in one order, and an operation that waits holds up all later operations. So the orders
// of all ranks together must not deadlock. For a collective, every rank plays the programs of all ranks, with the slots
// of their connections, and records the order in which its own operations could run. The play is a total order of all
// ranks' operations in which each operation comes after the operations that it needs. The first operation that has not
// run finds all earlier operations done, on its own stream and on the others, so it can run; by induction all run. The
// order also holds for calls with fewer slices: an operation without elements moves no message at either end, which
// only frees slots earlier.
//
// In a batch of transfers, a rank knows only its own transfers. All ranks run rounds: the k-th message of every
// outgoing connection, then the k-th message of every incoming connection. Message k needs the slot of message k - 4,
// which is received in round k - 4, and the order of rounds, sending before receiving, is the same at all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device/program.h"
#include "schedule/program.h"

namespace sccl::runtime {

struct StreamTurn {
  std::uint32_t lane = 0;
  std::uint32_t op = 0;  // index in the lane
  std::uint64_t slice = 0;
};

// The order for `rank`. Lanes are numbered as in the program that the rank executes. Throws internal_error for a
// program that needs more slots.
std::vector<StreamTurn> order_collective(const schedule::Program& program, Rank rank, std::uint64_t slices, int slots);

// `chunks` tell how many slices an operation has.
std::vector<StreamTurn> order_transfers(const device::Program& program, const device::Chunk* chunks,
                                        std::uint64_t slice_elements);

}  // namespace sccl::runtime
