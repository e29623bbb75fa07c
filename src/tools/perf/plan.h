// The measurements of `sccl perf`: one row per size, type and operation, with nccl-tests' conventions of size and
// bandwidth.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "tools/launch/slow_link.h"
#include "tools/perf/arrival.h"

namespace sccl::tools {

struct PerfCollective {
  const char* name;  // "all_reduce"
  Collective collective;
  bool reduces;
  bool rooted;
  bool has_in_place;
  // Elements a call moves per `count` of the row's buffer: nccl-tests counts the largest buffer, the call one share.
  bool divided;
};

const std::vector<PerfCollective>& perf_collectives();

// "all_reduce all_gather ..."
std::string perf_collective_names();

inline constexpr int kPerfOps = 6;  // ReduceOp::sum .. ReduceOp::premul_sum

struct PerfOptions {
  const PerfCollective* collective = nullptr;
  int ranks = 2;
  std::size_t least_bytes = 8;
  std::size_t most_bytes = std::size_t{32} << 20;
  double factor = 2;
  std::vector<DataType> types{DataType::float32};
  std::vector<ReduceOp> ops{ReduceOp::sum};
  int warmup = 5;
  int iterations = 20;
  bool check = true;
  bool threads = false;
  int hosts = 1;            // network namespaces; ranks are dealt out in blocks
  LinkShape shape;          // of what joins them
  bool registered = false;  // buffers of ncclMemAlloc
  // A barrier after every rooted call. Other collectives tell the ranks each other's times, which tuning needs.
  bool join_rooted_calls = false;
  std::optional<ArrivalPattern> arrival{};  // none: all ranks make their calls as they come
};

struct Row {
  std::size_t bytes = 0;  // of the largest buffer
  std::size_t count = 0;  // the argument of the call
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
};

std::vector<Row> perf_rows(const PerfOptions& options);

// What one rank measured for one row, out of place and in place.
struct Measurement {
  double us[2] = {0, 0};
  std::size_t wrong[2] = {0, 0};
  // With an arrival pattern `us` is the time from the last arrival to the last exit. Means of the calls, all ranks':
  double in_call_us[2] = {0, 0};
  double spread_us[2] = {0, 0};  // from the first arrival to the last
  double message_us = 0;         // of one message of the row's size
};

// busbw = algbw * factor (nccl-tests, PERFORMANCE.md); with one rank no data passes a bus.
double bus_factor(const PerfCollective& collective, int ranks);

}  // namespace sccl::tools
