// The program of a group of transfers, which serves the next group, too, if that differs in its buffers only.
#include "runtime/program/transfers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

using namespace sccl;
using namespace sccl::runtime;

namespace {

constexpr Rank kOwn = 1;
constexpr int kRanks = 4;

auto fields(const device::Chunk& chunk) {
  return std::tuple(chunk.input_offset, chunk.output_offset, chunk.elements, chunk.tag, chunk.flags);
}

auto fields(const device::Lane& lane) { return std::tuple(lane.order, lane.op_begin, lane.op_count); }

auto fields(const device::Access& access) {
  return std::tuple(access.via, access.buffer, access.connection, access.index);
}

auto fields(const device::Op& op) {
  return std::tuple(op.kind, op.chunk, op.operand_begin, op.operand_count, op.destination_begin, op.destination_count);
}

template <typename Entries>
bool same(const Entries* one, const Entries* other, std::size_t count) {
  return std::equal(one, one + count, other, [](const auto& a, const auto& b) { return fields(a) == fields(b); });
}

bool same_program(const TransferBatch& one, const TransferBatch& other) {
  const device::Program a = one.program().view();
  const device::Program b = other.program().view();
  if (a.lane_count != b.lane_count || !same(a.lanes, b.lanes, a.lane_count)) return false;
  const std::size_t ops =
      a.lane_count == 0 ? 0 : a.lanes[a.lane_count - 1].op_begin + a.lanes[a.lane_count - 1].op_count;
  if (!same(a.ops, b.ops, ops)) return false;
  for (std::size_t i = 0; i < ops; ++i)
    if (const device::Op& op = a.ops[i];
        !same(a.operands + op.operand_begin, b.operands + op.operand_begin, op.operand_count) ||
        !same(a.destinations + op.destination_begin, b.destinations + op.destination_begin, op.destination_count))
      return false;
  return true;
}

bool same(const TransferBatch& one, const TransferBatch& other) {
  return same_program(one, other) && one.most_bytes() == other.most_bytes() &&
         one.chunks().size() == other.chunks().size() &&
         same(one.chunks().data(), other.chunks().data(), one.chunks().size());
}

bool has_own(const std::vector<PointToPointRequest>& batch) {
  return std::any_of(batch.begin(), batch.end(), [](const auto& request) { return request.peer == kOwn; });
}

}  // namespace

TEST_CASE("a group of transfers after others has the program and the addresses of its own") {
  static std::byte memory[1 << 16];
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t end) { return random() % end; };
  const std::vector<std::size_t> counts{0, 1, 2, 20000};
  const std::vector<DataType> types{DataType::int8, DataType::float16};

  TransferBatch kept;
  std::vector<PointToPointRequest> batch;
  std::size_t repeated = 0;
  std::size_t kept_programs = 0;
  std::unique_ptr<TransferBatch> last;
  for (int group = 0; group < 2000; ++group) {
    // Often the group before with other buffers, sometimes with one other length.
    if (batch.empty() || below(4) == 0) {
      batch.resize(below(5));
      for (PointToPointRequest& request : batch) {
        request.direction = below(2) == 0 ? Direction::send : Direction::recv;
        request.count = counts[below(counts.size())];
        request.type = types[below(types.size())];
        request.peer = static_cast<Rank>((kOwn + 1 + below(kRanks - 1)) % kRanks);
      }
      if (below(4) == 0)
        for (const Direction direction : {Direction::send, Direction::recv})
          batch.push_back({direction, nullptr, 7, DataType::int8, kOwn});
    } else if (below(3) == 0 && !has_own(batch)) {
      batch[below(batch.size())].count = counts[below(counts.size())];
    } else {
      ++repeated;
    }
    for (PointToPointRequest& request : batch) request.buffer = memory + below(sizeof memory / 2);
    const bool direct = below(8) == 0;
    const bool is_new = kept.lower(batch, kOwn, kRanks, direct);
    auto lowered = std::make_unique<TransferBatch>();
    TransferBatch& fresh = *lowered;
    REQUIRE(fresh.lower(batch, kOwn, kRanks, direct));
    REQUIRE(same(kept, fresh));
    if (!is_new) REQUIRE(same_program(fresh, *last));
    kept_programs += is_new ? 0 : 1;
    last = std::move(lowered);
    REQUIRE(kept.overlaps() == fresh.overlaps());
  }
  CHECK(repeated > 500);
  CHECK(kept_programs > 200);
}

TEST_CASE("a group that is refused leaves nothing to the next one") {
  std::byte memory[64];
  const PointToPointRequest send{Direction::send, memory, 8, DataType::int8, 0};
  const PointToPointRequest own{Direction::send, memory, 8, DataType::int8, kOwn};
  TransferBatch kept;
  kept.lower(std::vector{send}, kOwn, kRanks, false);
  CHECK_THROWS(kept.lower(std::vector{send, own}, kOwn, kRanks, false));
  kept.lower(std::vector{send}, kOwn, kRanks, false);
  TransferBatch fresh;
  fresh.lower(std::vector{send}, kOwn, kRanks, false);
  CHECK(same(kept, fresh));
}
