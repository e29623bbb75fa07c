// The tables behind the names; each is indexed by its enumeration.
#include "base/types.h"

#include <array>

namespace sccl {
namespace {

constexpr std::array<CollectiveInfo, kCollectiveCount> kCollectives{{
    {Collective::allreduce, "allreduce", "AllReduce", false, true},
    {Collective::allgather, "allgather", "AllGather", false, false},
    {Collective::reducescatter, "reducescatter", "ReduceScatter", false, true},
    {Collective::broadcast, "broadcast", "Broadcast", true, false},
    {Collective::reduce, "reduce", "Reduce", true, true},
    {Collective::alltoall, "alltoall", "AlltoAll", false, false},
    {Collective::gather, "gather", "Gather", true, false},
    {Collective::scatter, "scatter", "Scatter", true, false},
    {Collective::sendrecv, "sendrecv", "SendRecv", false, false},
}};

constexpr std::array<DataTypeInfo, kDataTypeCount> kDataTypes{{
    {DataType::int8, "int8", 1, false},
    {DataType::uint8, "uint8", 1, false},
    {DataType::int32, "int32", 4, false},
    {DataType::uint32, "uint32", 4, false},
    {DataType::int64, "int64", 8, false},
    {DataType::uint64, "uint64", 8, false},
    {DataType::float16, "half", 2, true},
    {DataType::float32, "float", 4, true},
    {DataType::float64, "double", 8, true},
    {DataType::bfloat16, "bfloat16", 2, true},
    {DataType::float8e4m3, "f8e4m3", 1, true},
    {DataType::float8e5m2, "f8e5m2", 1, true},
}};

constexpr std::array<std::string_view, 6> kReduceOps{"sum", "prod", "max", "min", "avg", "mulsum"};

}  // namespace

const CollectiveInfo& info(Collective collective) { return kCollectives[static_cast<std::size_t>(collective)]; }
const DataTypeInfo& info(DataType type) { return kDataTypes[static_cast<std::size_t>(type)]; }
std::string_view name(ReduceOp op) { return kReduceOps[static_cast<std::size_t>(op)]; }

std::optional<Collective> collective_from_name(std::string_view name) {
  for (const auto& entry : kCollectives)
    if (entry.name == name) return entry.collective;
  return std::nullopt;
}

std::optional<DataType> data_type_from_name(std::string_view name) {
  for (const auto& entry : kDataTypes)
    if (entry.name == name) return entry.type;
  return std::nullopt;
}

std::optional<ReduceOp> reduce_op_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kReduceOps.size(); ++i)
    if (kReduceOps[i] == name) return static_cast<ReduceOp>(i);
  return std::nullopt;
}

}  // namespace sccl
