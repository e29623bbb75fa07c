#include "tools/perf/plan.h"

#include <algorithm>

namespace sccl::tools {

const std::vector<PerfCollective>& perf_collectives() {
  static const std::vector<PerfCollective> all{
      {"all_reduce", Collective::allreduce, true, false, true, false},
      {"all_gather", Collective::allgather, false, false, true, true},
      {"reduce_scatter", Collective::reducescatter, true, false, true, true},
      {"broadcast", Collective::broadcast, false, true, true, false},
      {"reduce", Collective::reduce, true, true, true, false},
      {"alltoall", Collective::alltoall, false, false, false, true},
      {"gather", Collective::gather, false, true, true, true},
      {"scatter", Collective::scatter, false, true, true, true},
      {"sendrecv", Collective::sendrecv, false, false, false, false},
  };
  return all;
}

std::string perf_collective_names() {
  std::string names;
  for (const PerfCollective& known : perf_collectives()) names += (names.empty() ? "" : " ") + std::string(known.name);
  return names;
}

double bus_factor(const PerfCollective& collective, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (collective.collective) {
    case Collective::allreduce:
      return 2 * share;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::sendrecv:
      return 1.0;
    default:
      return share;
  }
}

std::vector<Row> perf_rows(const PerfOptions& options) {
  std::vector<Row> rows;
  const std::size_t shares = options.collective->divided ? static_cast<std::size_t>(options.ranks) : 1;
  for (const DataType type : options.types)
    for (const ReduceOp op : options.ops)
      for (double bytes = static_cast<double>(options.least_bytes);
           bytes <= static_cast<double>(options.most_bytes) + 0.5; bytes *= options.factor) {
        const std::size_t count = static_cast<std::size_t>(bytes) / size_bytes(type) / shares;
        rows.push_back({count * shares * size_bytes(type), count, type, op});
      }
  return rows;
}

}  // namespace sccl::tools
