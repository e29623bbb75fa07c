#include "kernels/program/flat_program.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/device/connection.h"

namespace sccl::kernels {
namespace {

using device::u32;

static_assert(static_cast<int>(device::Via::remote) == static_cast<int>(schedule::Via::remote));
static_assert(static_cast<int>(device::Buffer::scratch) == static_cast<int>(schedule::Buffer::scratch));
static_assert(static_cast<int>(device::OpKind::drain) == static_cast<int>(schedule::OpKind::drain));
static_assert(static_cast<int>(device::LaneOrder::op_major) == static_cast<int>(schedule::LaneOrder::op_major));

device::Access flatten(const schedule::Access& access) {
  return {static_cast<device::Via>(access.via), static_cast<device::Buffer>(access.place.buffer), access.connection,
          static_cast<u32>(access.place.index)};
}

template <typename From, typename To, typename Convert>
std::pair<u32, u32> append_range(const std::vector<From>& from, std::vector<To>& to, Convert&& convert) {
  const auto begin = static_cast<u32>(to.size());
  for (const From& entry : from) to.push_back(convert(entry));
  return {begin, static_cast<u32>(from.size())};
}

}  // namespace

void FlatProgram::assign(const schedule::RankProgram& program) {
  ops_.clear();
  operands_.clear();
  destinations_.clear();
  dependencies_.clear();
  lanes_.clear();
  most_operands_ = most_destinations_ = 0;
  scratch_slots_ = program.scratch_slots;
  for (const schedule::Lane& lane : program.lanes) append(lane);
}

device::Program FlatProgram::packed(std::uint64_t base, std::vector<std::byte>& block) const {
  block.clear();
  const auto place = [&]<typename T>(const std::vector<T>& entries) {
    const std::size_t offset = (block.size() + 15) / 16 * 16;
    block.resize(offset + entries.size() * sizeof(T));
    if (!entries.empty()) std::memcpy(block.data() + offset, entries.data(), entries.size() * sizeof(T));
    return reinterpret_cast<const T*>(base + offset);
  };
  device::Program program{};
  program.ops = place(ops_);
  program.operands = place(operands_);
  program.destinations = place(destinations_);
  program.dependencies = place(dependencies_);
  program.lanes = place(lanes_);
  program.lane_count = static_cast<u32>(lanes_.size());
  return program;
}

bool FlatProgram::may_lend() const {
  std::map<int, device::u32> sends;  // of a slice, by connection
  bool several = false;
  for (const device::Lane& lane : lanes_) {
    if (lane.order != device::LaneOrder::slice_major) return false;
    for (u32 i = 0; i < lane.op_count; ++i) {
      const device::Op& op = ops_[lane.op_begin + i];
      u32 slots = 0;
      for (u32 j = 0; j < op.destination_count; ++j) {
        const device::Access& access = destinations_[op.destination_begin + j];
        if (access.via != device::Via::slot) continue;
        ++slots;
        if (++sends[access.connection] > device::kSlotCount) return false;
      }
      several = several || slots > 1;
    }
  }
  return several;
}

void FlatProgram::append(const schedule::Lane& lane) {
  lanes_.push_back(
      {static_cast<device::LaneOrder>(lane.order), static_cast<u32>(ops_.size()), static_cast<u32>(lane.ops.size())});
  for (const schedule::Op& op : lane.ops) {
    const auto [operand_begin, operand_count] = append_range(op.operands, operands_, flatten);
    const auto [destination_begin, destination_count] = append_range(op.destinations, destinations_, flatten);
    const auto [dependency_begin, dependency_count] =
        append_range(op.dependencies, dependencies_, [](const schedule::Dependency& wait) {
          return device::Dependency{static_cast<u32>(wait.lane), static_cast<u32>(wait.op),
                                    static_cast<u32>(wait.distance)};
        });
    ops_.push_back({static_cast<device::OpKind>(op.kind), op.completes, static_cast<u32>(op.chunk), operand_begin,
                    operand_count, destination_begin, destination_count, dependency_begin, dependency_count});
    most_operands_ = std::max(most_operands_, op.operands.size());
    most_destinations_ = std::max(most_destinations_, op.destinations.size());
  }
}

}  // namespace sccl::kernels
