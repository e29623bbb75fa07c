// By which tree each chunk leaves the root's host in a Broadcast, and which of the tree's devices sends it to which
// device of the next host. For a Reduce read backwards.
//
// Trees alternate in proportion to their rates, and NICs stay evenly busy at all times, not only in the end: what
// leaves by a NIC in a part of the time never fills it in another part. An order by time (`on_rails` false) finds the
// times itself.
//
// On rails. As far as NICs stay evenly busy, a device sends to the device at its own position. A NIC that serves few
// connections sends chunks in their order, one that serves many sends them by turns of its connections, and a chunk
// whose turn comes late delays all behind it, on the way to all hosts. An order by time does better without.
//
// The root's NIC. The root has all chunks from the beginning, so none of its connections ever waits for data: its NIC
// serves all of them by turns from the first moment. A connection with few chunks is then far ahead of its time, and
// one with many chunks falls behind, and all that wait for these with it (a Broadcast of 64 MiB on 8*z52-full took 1.37
// times the bound, 1.17 without that). So what the root sends follows the turns: at any time its connections have sent
// equally many chunks, except those that have no more to send. Trees allow few of the ways to divide chunks so; some
// are tried, and that with which the root's chunks are least late is taken.
#pragma once

#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace sccl::portfolio {

// Where a chunk goes.
struct Leaving {
  int host = 0;              // the next one, of several the last
  std::vector<int> entries;  // positions there; each gets the chunk from an exit of its own
};

struct WaysOut {
  std::vector<int> trees;               // by chunk
  std::vector<std::vector<int>> exits;  // by chunk: a device for each entry
};

// `exits_of_trees`: the devices of each tree that have the chunk early and a NIC. `turns`: trees, one for each chunk,
// whose order counts; chunks of many entries take trees of many exits. `nics`: their rates by device.
WaysOut choose_ways_out(const std::vector<std::vector<int>>& exits_of_trees, std::vector<int> turns,
                        const std::vector<Leaving>& leaving, std::span<const double> nics, Rank root, bool on_rails);

}  // namespace sccl::portfolio
