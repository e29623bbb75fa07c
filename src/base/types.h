// Names of ranks, collectives, types and operations, each with its table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/scalar_types.h"

namespace sccl {

using Rank = int;

enum class Collective : std::uint8_t {
  allreduce,
  allgather,
  reducescatter,
  broadcast,
  reduce,
  alltoall,
  gather,
  scatter,
  sendrecv,
};
inline constexpr int kCollectiveCount = 9;

// The operations a caller can name; `premul_sum` is one the user created with a scalar.
enum class ReduceOp : std::uint8_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4, premul_sum = 5 };

struct CollectiveInfo {
  Collective collective;
  std::string_view name;       // as in schedule files: "allreduce"
  std::string_view call_name;  // as in messages: "AllReduce"
  bool rooted;
  bool reduces;
};
struct DataTypeInfo {
  DataType type;
  std::string_view name;  // as on the command line: "float"
  std::size_t size_bytes;
  bool floating;
};

const CollectiveInfo& info(Collective collective);
const DataTypeInfo& info(DataType type);
std::string_view name(ReduceOp op);

std::optional<Collective> collective_from_name(std::string_view name);
std::optional<DataType> data_type_from_name(std::string_view name);
std::optional<ReduceOp> reduce_op_from_name(std::string_view name);

inline std::size_t size_bytes(DataType type) { return info(type).size_bytes; }

}  // namespace sccl
