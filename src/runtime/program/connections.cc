#include "runtime/program/connections.h"

namespace sccl::runtime {

void bind_connections(schedule::Op& op, std::span<const schedule::Connection> connections, int kind, int ranks) {
  const auto bind = [&](std::vector<schedule::Access>& accesses) {
    for (schedule::Access& access : accesses) {
      if (access.connection < 0) continue;
      const schedule::Connection& end = connections[static_cast<std::size_t>(access.connection)];
      access.connection = connection_index(kind, end.direction, end.peer, ranks);
    }
  };
  bind(op.operands);
  bind(op.destinations);
}

void bind_connections(schedule::RankProgram& program, int kind, int ranks) {
  for (schedule::Lane& lane : program.lanes)
    for (schedule::Op& op : lane.ops) bind_connections(op, program.connections, kind, ranks);
}

}  // namespace sccl::runtime
