// What ranks put into their buffers in `sccl perf`, and which results are wrong.
#pragma once

#include <cstddef>

#include "tools/perf/element.h"
#include "tools/perf/plan.h"

namespace sccl::tools {

// Small integers, mixed from rank and index so that no two places or ranks look alike. They are chosen for each
// operation such that its result, and every partial result in any order, is a value of the type.
class PerfData {
 public:
  PerfData(const Row& row, bool reduces, int ranks);

  // Writes what `rank` holds from `first` on.
  void fill(std::byte* buffer, std::size_t count, int rank, std::size_t first) const;

  // How many elements are not what `rank` holds from `first` on.
  std::size_t wrong_copies(const std::byte* buffer, std::size_t count, int rank, std::size_t first) const;

  // How many elements are not the reduction over all ranks from `first` on.
  std::size_t wrong_results(const std::byte* buffer, std::size_t count, std::size_t first) const;

  // PreMulSum's factor of a rank.
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
  // A rank's value at an index is in [least_, least_ + range_), and least_ where it is not one of the contributors_
  // that take turns over the indices.
  unsigned least_ = 0;
  unsigned range_ = 0;
  int contributors_ = 0;
};

}  // namespace sccl::tools
