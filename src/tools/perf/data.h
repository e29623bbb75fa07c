// The data of the ranks' buffers in `sccl perf`, and the count of wrong results.
#pragma once

#include <cstddef>

#include "tools/perf/element.h"
#include "tools/perf/plan.h"

namespace sccl::tools {

// Small integers, mixed from rank and index so that all places and ranks differ in pattern. They are chosen for each
// operation such that its result, and every partial result in any order, is exact in the type.
class PerfData {
 public:
  PerfData(const Row& row, bool reduces, int ranks);

  // Writes the data of `rank`, beginning at index `first`.
  void fill(std::byte* buffer, std::size_t count, int rank, std::size_t first) const;

  // The number of elements that differ from the data of `rank`, beginning at index `first`.
  std::size_t wrong_copies(const std::byte* buffer, std::size_t count, int rank, std::size_t first) const;

  // The number of elements that differ from the reduction over all ranks, beginning at index `first`.
  std::size_t wrong_results(const std::byte* buffer, std::size_t count, std::size_t first) const;

  // The factor of a rank for PreMulSum.
  static unsigned scale(int rank) { return rank % 2 == 0 ? 2 : 1; }
  void store_scale(std::byte* scalar, int rank) const { codes_.store(scalar, 0, scale(rank)); }

 private:
  unsigned value(int rank, std::size_t index) const;
  unsigned reduced(std::size_t index) const;
  bool is_average(const std::byte* buffer, std::size_t index, unsigned sum) const;

  DataType type_;
  ReduceOp op_;
  int ranks_;
  ElementCodes codes_;
  // A rank's value at an index is in [least_, least_ + range_); it is least_ unless the rank is one of the
  // contributors_, which take turns over the indices.
  unsigned least_ = 0;
  unsigned range_ = 0;
  int contributors_ = 0;
};

}  // namespace sccl::tools
