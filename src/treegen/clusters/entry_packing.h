// Trees over one host along which the data of other hosts reaches every device: the best packing whose root is what is
// outside of the host.
//
// The children of `outside` in a tree are its entries: there the data enters the host, over each entry's way from the
// network. One of them is the tree's port; every device is the port of a given share of the data, since composites
// deal data out so (compose/form/composite.h).
//
// A linear program: the most data, such that every device's trees as a port carry its share of what comes from
// outside, and no link, way or shared set carries more than it can, with what the host's own data puts on it. Trees are
// generated when they pay: a cheapest tree for each port, which hangs on `outside`. It ends when no other trees of this
// form carry a ten-thousandth more, or when the linear program has done as much work as there is time for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "treegen/graph/links.h"

namespace sccl::treegen {

struct EntryTree {
  Tree tree;  // with `outside` as its root
  Rank port = 0;
  double weight = 0;  // of all data that come from outside
};

enum class EntryUse : std::uint8_t {
  one_way,   // copies go down the trees (or, where links are symmetric, sums go up)
  both_ways  // both at once
};

struct EntryDemand {
  double from_outside = 1;  // part of all data
  // What the host's own data puts on its links, for one unit of all data.
  std::map<Edge, double> own;
  std::vector<double> of_ports = {};  // by device, with the sum 1: its share as a port; empty: all alike
};

struct EntryPacking {
  double rate = 0;  // of all data, in capacity units
  std::vector<EntryTree> trees;
  double work = 0;  // in multiplications, about
};

// `one` is a host and the rank `outside`, its last rank, to which ways lead from every device and back. Nothing where a
// way is missing, for both ways where links differ by direction, and if the program does not end.
std::optional<EntryPacking> pack_entries(const Topology& one, EntryUse use, const EntryDemand& demand);

}  // namespace sccl::treegen
