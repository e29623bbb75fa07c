#include "tools/perf/data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/splitmix.h"

namespace sccl::tools {
namespace {

// 2^6 is exact in every type.
constexpr int kMostFactorsOfTwo = 6;

}  // namespace

PerfData::PerfData(const Row& row, bool reduces, int ranks)
    : type_(row.type), op_(row.op), ranks_(ranks), codes_(row.type), contributors_(ranks) {
  const unsigned most = most_exact_value(row.type);
  range_ = most + 1;
  if (!reduces || op_ == ReduceOp::max || op_ == ReduceOp::min) return;
  if (op_ == ReduceOp::prod) {
    contributors_ = std::min(ranks, kMostFactorsOfTwo);
    least_ = 1;
    range_ = 2;
    return;
  }
  const unsigned most_sum = op_ == ReduceOp::premul_sum ? most / scale(0) : most;
  contributors_ = std::min(ranks, static_cast<int>(most_sum));
  range_ = most_sum / static_cast<unsigned>(contributors_) + 1;
}

unsigned PerfData::value(int rank, std::size_t index) const {
  const auto turn = (static_cast<std::size_t>(rank) + index) % static_cast<std::size_t>(ranks_);
  if (turn >= static_cast<std::size_t>(contributors_)) return least_;
  const std::uint64_t draw = splitmix64(index) * (2 * splitmix64(static_cast<std::uint64_t>(rank)) + 1) >> 32;
  return least_ + static_cast<unsigned>(draw * range_ >> 32);
}

unsigned PerfData::reduced(std::size_t index) const {
  const bool scaled = op_ == ReduceOp::premul_sum;
  unsigned result = value(0, index) * (scaled ? scale(0) : 1);
  for (int rank = 1; rank < ranks_; ++rank) {
    const unsigned next = value(rank, index) * (scaled ? scale(rank) : 1);
    switch (op_) {
      case ReduceOp::prod:
        result *= next;
        break;
      case ReduceOp::max:
        result = std::max(result, next);
        break;
      case ReduceOp::min:
        result = std::min(result, next);
        break;
      default:
        result += next;
        break;
    }
  }
  return result;
}

// A library may compute the average with a factor 1/ranks for each operand, rounded to the type, or with a division at
// the end. If 1/ranks is a power of two, both are exact; otherwise each rank's operand may add a rounding.
bool PerfData::is_average(const std::byte* buffer, std::size_t index, unsigned sum) const {
  if (!info(type_).floating) return codes_.holds(buffer, index, sum / static_cast<unsigned>(ranks_));
  const double wanted = static_cast<double>(sum) / ranks_;
  const double roundings = std::has_single_bit(static_cast<unsigned>(ranks_)) ? 0 : ranks_ + 1;
  // A NaN counts as wrong.
  return std::fabs(load_element(type_, buffer, index) - wanted) <= roundings * half_unit(type_, wanted);
}

void PerfData::fill(std::byte* buffer, std::size_t count, int rank, std::size_t first) const {
  for (std::size_t i = 0; i < count; ++i) codes_.store(buffer, i, value(rank, first + i));
}

std::size_t PerfData::wrong_copies(const std::byte* buffer, std::size_t count, int rank, std::size_t first) const {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (!codes_.holds(buffer, i, value(rank, first + i))) ++wrong;
  return wrong;
}

std::size_t PerfData::wrong_results(const std::byte* buffer, std::size_t count, std::size_t first) const {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned wanted = reduced(first + i);
    const bool right = op_ == ReduceOp::avg ? is_average(buffer, i, wanted) : codes_.holds(buffer, i, wanted);
    if (!right) ++wrong;
  }
  return wrong;
}

}  // namespace sccl::tools
