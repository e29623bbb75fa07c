// How programs number the connections of a rank.
#pragma once

#include "base/types.h"
#include "schedule/program.h"

namespace sccl::runtime {

// Index of a rank's connection with a peer among all its connections; the executor's table is laid out by it.
int connection_index(int kind, schedule::Direction direction, Rank peer, int ranks);

// Replaces the connection indices of a program by those of the executor's table.
void bind_connections(schedule::RankProgram& program, int kind, int ranks);

}  // namespace sccl::runtime
