// AlltoAll, Gather and Scatter where some pieces of blocks pass other devices on their way: shortest ways may meet on
// one link, as between the sockets of a host or near the root, beside which other links are idle.
#pragma once

#include <optional>

#include "schedule/schedule.h"

namespace sccl::portfolio {

// Every block in pieces, each on a way of its own over any number of devices. Nothing where that does not relieve the
// busiest link of shortest ways by a fiftieth, for other collectives, for more than 16 ranks, and where a device does
// not reach another one. `root` counts for Gather and Scatter only.
std::optional<schedule::Schedule> detours(const topology::Topology& links, Collective collective, Rank root = 0);

}  // namespace sccl::portfolio
