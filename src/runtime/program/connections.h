// How programs number the connections of a rank.
#pragma once

#include "base/types.h"
#include "schedule/program.h"

namespace sccl::runtime {

// Index of a rank's connection with a peer among all its connections of one channel: tables on the host and on devices
// are laid out by it, and nothing else says where a connection lies. `kind`: which calls it serves.
constexpr int connection_index(int kind, schedule::Direction direction, Rank peer, int ranks) {
  return (kind * 2 + static_cast<int>(direction)) * ranks + peer;
}
constexpr int connection_count(int kinds, int ranks) { return kinds * 2 * ranks; }

// Replaces the connection indices of a program by those of the executor's table.
void bind_connections(schedule::RankProgram& program, int kind, int ranks);

}  // namespace sccl::runtime
