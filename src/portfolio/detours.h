// AlltoAll where some blocks go in part over a third device: direct ways may meet on one link, as between the sockets
// of a host, beside which NICs and other hosts' links are idle.
#pragma once

#include <optional>

#include "schedule/schedule.h"

namespace sccl::portfolio {

// Every block in eight pieces, each directly or over one other device. Nothing where that does not relieve the busiest
// link by a fiftieth, for other collectives, for more than 16 ranks, and where a device does not reach another one.
std::optional<schedule::Schedule> detours(const topology::Topology& links, Collective collective);

}  // namespace sccl::portfolio
