// The numbers of a rank's connections in programs.
#pragma once

#include <span>

#include "base/types.h"
#include "schedule/program.h"

namespace sccl::runtime {

// Index of a rank's connection with a peer among all connections of the rank in one channel. The tables on the host and
// on devices all use this index. `kind`: the calls that the connection serves.
constexpr int connection_index(int kind, schedule::Direction direction, Rank peer, int ranks) {
  return (kind * 2 + static_cast<int>(direction)) * ranks + peer;
}
constexpr int connection_count(int kinds, int ranks) { return kinds * 2 * ranks; }

// Replaces the connection indices of a program by indices of the executor's table.
void bind_connections(schedule::RankProgram& program, int kind, int ranks);
// Likewise of one operation. `connections`: of its program.
void bind_connections(schedule::Op& op, std::span<const schedule::Connection> connections, int kind, int ranks);

}  // namespace sccl::runtime
