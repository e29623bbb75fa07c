// The table of `sccl perf`: nccl-tests' columns, CSV, JSON.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tools/perf_plan.h"

namespace sccl::tools {

class PerfReport {
 public:
  PerfReport(const PerfOptions& options, const std::string& csv_path, bool as_json);
  ~PerfReport();
  PerfReport(const PerfReport&) = delete;
  PerfReport& operator=(const PerfReport&) = delete;

  void progress(std::size_t row, std::size_t rows);
  // `measurements` of all ranks: the slowest rank's time counts, wrong elements add up.
  void add(const Row& row, const std::vector<Measurement>& measurements);
  // Returns the number of wrong elements.
  std::size_t finish();

 private:
  void print_half(double us, std::size_t bytes, std::size_t wrong);

  const PerfOptions& options_;
  bool as_json_;
  bool on_terminal_;
  std::FILE* csv_ = nullptr;
  std::string json_;
  double bus_sum_ = 0;
  int bus_count_ = 0;
  std::size_t wrong_ = 0;
};

}  // namespace sccl::tools
