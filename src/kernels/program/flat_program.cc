#include "kernels/program/flat_program.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/bytes.h"
#include "base/error.h"
#include "kernels/gpu/connection.h"

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
  begin(program.scratch_slots, 0);
  for (const schedule::Lane& lane : program.lanes) {
    add_lane(lane.order);
    for (const schedule::Op& op : lane.ops) add(op);
  }
}

void FlatProgram::begin(int scratch_slots, std::size_t ops) {
  ops_.clear();
  operands_.clear();
  destinations_.clear();
  dependencies_.clear();
  lanes_.clear();
  most_operands_ = most_destinations_ = 0;
  scratch_slots_ = scratch_slots;
  ops_.reserve(ops);
}

void FlatProgram::add_lane(schedule::LaneOrder order) {
  lanes_.push_back({static_cast<device::LaneOrder>(order), static_cast<u32>(ops_.size()), 0});
}

// Empty when lanes share a connection: a block may keep a copy of a connection only if a single lane uses it.
std::vector<device::Endpoint> FlatProgram::endpoints() const {
  std::map<u32, u32> lane_of;
  bool shared = false;
  const auto visit = [&](const device::Access& access, u32 lane) {
    if (access.via == device::Via::local) return;
    const auto [found, inserted] = lane_of.emplace(static_cast<u32>(access.connection), lane);
    shared = shared || found->second != lane;
  };
  for (u32 lane = 0; lane < lanes_.size(); ++lane)
    for (u32 i = 0; i < lanes_[lane].op_count; ++i) {
      const device::Op& op = ops_[lanes_[lane].op_begin + i];
      for (u32 j = 0; j < op.operand_count; ++j) visit(operands_[op.operand_begin + j], lane);
      for (u32 j = 0; j < op.destination_count; ++j) visit(destinations_[op.destination_begin + j], lane);
    }
  std::vector<device::Endpoint> all;
  if (!shared)
    for (const auto& [connection, lane] : lane_of) all.push_back({connection, lane});
  return all;
}

device::Program FlatProgram::packed(std::uint64_t base, std::vector<std::byte>& block, std::size_t most_bytes) const {
  const std::vector<device::Endpoint> all = most_bytes == 0 ? std::vector<device::Endpoint>() : endpoints();
  const device::Program program = packed(base, block, all);
  if (all.empty() || block.size() + all.size() * sizeof(device::gpu::DeviceConnection) <= most_bytes) return program;
  return packed(base, block, {});
}

device::Program FlatProgram::packed(std::uint64_t base, std::vector<std::byte>& block,
                                    const std::vector<device::Endpoint>& endpoints) const {
  const auto renamed = [&](std::vector<device::Access> accesses) {
    if (endpoints.empty()) return accesses;
    for (device::Access& access : accesses) {
      if (access.via == device::Via::local) continue;
      const auto found =
          std::lower_bound(endpoints.begin(), endpoints.end(), static_cast<u32>(access.connection),
                           [](const device::Endpoint& entry, u32 wanted) { return entry.connection < wanted; });
      access.connection = static_cast<int>(found - endpoints.begin());
    }
    return accesses;
  };
  block.clear();
  const auto place = [&]<typename T>(const std::vector<T>& entries) {
    const std::size_t offset = (block.size() + 15) / 16 * 16;
    block.resize(offset + entries.size() * sizeof(T));
    if (!entries.empty()) std::memcpy(block.data() + offset, entries.data(), entries.size() * sizeof(T));
    return reinterpret_cast<const T*>(base + offset);
  };
  device::Program program{};
  program.ops = place(ops_);
  program.operands = place(renamed(operands_));
  program.destinations = place(renamed(destinations_));
  program.dependencies = place(dependencies_);
  program.lanes = place(lanes_);
  program.lane_count = static_cast<u32>(lanes_.size());
  program.endpoints = place(endpoints);
  program.endpoint_count = static_cast<u32>(endpoints.size());
  block.resize((block.size() + 15) / 16 * 16);
  program.bytes = static_cast<u32>(block.size());
  return program;
}

namespace {

struct Sizes {
  std::uint64_t ops, operands, destinations, dependencies, lanes, most_operands, most_destinations, scratch_slots;
};

}  // namespace

void FlatProgram::append_to(std::vector<std::byte>& bytes) const {
  const auto put = [&](const auto& entries) { append_values(bytes, entries.data(), entries.size()); };
  const Sizes sizes{ops_.size(),   operands_.size(), destinations_.size(), dependencies_.size(),
                    lanes_.size(), most_operands_,   most_destinations_,   static_cast<std::uint64_t>(scratch_slots_)};
  append_values(bytes, &sizes, 1);
  put(ops_);
  put(operands_);
  put(destinations_);
  put(dependencies_);
  put(lanes_);
}

FlatProgram FlatProgram::unpacked(std::span<const std::byte> bytes) {
  const auto take = [&](auto* to, std::uint64_t count) {
    if (!take_values(bytes, to, count)) fail(ErrorCode::internal_error, "a packed program ends too early");
  };
  const auto fill = [&](auto& entries, std::uint64_t count) {
    entries.resize(std::min<std::uint64_t>(count, bytes.size()));
    take(entries.data(), count);
  };
  Sizes sizes{};
  take(&sizes, 1);
  FlatProgram program;
  fill(program.ops_, sizes.ops);
  fill(program.operands_, sizes.operands);
  fill(program.destinations_, sizes.destinations);
  fill(program.dependencies_, sizes.dependencies);
  fill(program.lanes_, sizes.lanes);
  program.most_operands_ = sizes.most_operands;
  program.most_destinations_ = sizes.most_destinations;
  program.scratch_slots_ = static_cast<int>(sizes.scratch_slots);
  if (!bytes.empty() || !program.is_sound()) fail(ErrorCode::internal_error, "what is unpacked is no program");
  return program;
}

// Every range lies within its array.
bool FlatProgram::is_sound() const {
  const auto within = [](std::uint64_t begin, std::uint64_t count, std::size_t size) { return begin + count <= size; };
  const bool lanes = std::all_of(lanes_.begin(), lanes_.end(), [&](const device::Lane& lane) {
    return within(lane.op_begin, lane.op_count, ops_.size());
  });
  return lanes && std::all_of(ops_.begin(), ops_.end(), [&](const device::Op& op) {
           return within(op.operand_begin, op.operand_count, operands_.size()) &&
                  within(op.destination_begin, op.destination_count, destinations_.size()) &&
                  within(op.dependency_begin, op.dependency_count, dependencies_.size());
         });
}

bool FlatProgram::may_lend() const {
  std::map<int, device::u32> sends;  // messages of a slice, by connection
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

void FlatProgram::add(const schedule::Op& op) {
  const auto [operand_begin, operand_count] = append_range(op.operands, operands_, flatten);
  const auto [destination_begin, destination_count] = append_range(op.destinations, destinations_, flatten);
  const auto [dependency_begin,
              dependency_count] = append_range(op.dependencies, dependencies_, [](const schedule::Dependency& wait) {
    return device::Dependency{static_cast<u32>(wait.lane), static_cast<u32>(wait.op), static_cast<u32>(wait.distance)};
  });
  const auto in_slot = [](const schedule::Access& access) { return access.via == schedule::Via::slot; };
  ops_.push_back(
      {static_cast<device::OpKind>(op.kind), op.completes, std::any_of(op.operands.begin(), op.operands.end(), in_slot),
       std::any_of(op.destinations.begin(), op.destinations.end(), in_slot), static_cast<u32>(op.chunk), operand_begin,
       operand_count, destination_begin, destination_count, dependency_begin, dependency_count});
  ++lanes_.back().op_count;
  most_operands_ = std::max(most_operands_, op.operands.size());
  most_destinations_ = std::max(most_destinations_, op.destinations.size());
}

}  // namespace sccl::kernels
