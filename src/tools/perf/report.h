// The table of `sccl perf`: nccl-tests' columns, CSV, JSON.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/perf/plan.h"

namespace sccl::tools {

enum class Outcome { complete, broken_off };

class PerfReport {
 public:
  // Throws std::runtime_error when the CSV file cannot be written.
  PerfReport(const PerfOptions& options, const std::string& csv_path, bool as_json);

  // Shows progress on a terminal while rows are outstanding.
  void progress(std::size_t row, std::size_t rows);
  // `measurements` of all ranks: the slowest rank's time counts; wrong elements are added up.
  void add(const Row& row, const std::vector<Measurement>& measurements);
  // The footer. True when the measurement is complete and no element was wrong.
  bool finish(Outcome outcome);

 private:
  // One half of a row: out of place or in place.
  struct Half {
    const char* place;
    double us;
    double algbw_gbytes_per_s;
    double busbw_gbytes_per_s;
    std::size_t wrong;
    double in_call_us = 0;  // these three: with an arrival pattern
    double spread_us = 0;
    double message_us = 0;
  };
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void print_header() const;
  void print_arrival_heads(const char* a, const char* b, const char* c, const char* d, const char* e) const;
  void print_arrivals(const std::vector<Half>& halves) const;
  void print_half(const Half& half) const;
  void keep(const Row& row, const Half& half);
  std::string op_text(const Row& row) const;

  const PerfOptions& options_;
  bool as_json_;
  bool on_terminal_;
  std::unique_ptr<std::FILE, CloseFile> csv_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
  double busbw_sum_ = 0;
  int busbw_count_ = 0;
  std::size_t wrong_ = 0;
};

}  // namespace sccl::tools
