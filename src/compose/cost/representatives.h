// Chunks that stand for all others where a composite's loads between hosts are added up.
#pragma once

#include <utility>
#include <vector>

#include "compose/form/composite.h"

namespace sccl::compose {

// An AllReduce whose chunks take several shapes in turn. It has few roots, so hosts are equally busy only over all of
// these.
bool by_several_trees(const Composite& composite);

// One chunk for each path that chunks take over hosts, with the bytes on this path (per byte of L). Of many roots some
// are examined: the others are equal. Not for unicast chunks, nor for a butterfly.
std::vector<std::pair<ChunkId, double>> representatives(const Composite& composite, const Routes& routes);

// Lists of hosts that pass as much as one another over all chunks, of which so many were examined. None where that is
// not known, or every host is the root of a chunk that was examined.
std::vector<std::vector<int>> equally_busy(const Composite& composite, int examined);

}  // namespace sccl::compose
