// `sccl perf --arrival`: how late each rank enters each call, on purpose.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sccl::tools {

// A delay in messages is a multiple of the time of one message of the call's size, which is measured first.
class ArrivalPattern {
 public:
  // mif=20       every rank is late by chance, by up to 20 messages
  // one=20       the last rank is 20 messages late; one=3:20: rank 3
  // half=20      the upper half of the ranks is 20 messages late
  // file=PATH    a line for each call: each rank's delay in microseconds; again from the start after the last line
  // In place of 20 a duration: 500us, 3ms, 1.5s. Throws CLI::ValidationError, also where a file cannot be read.
  static ArrivalPattern parse(const std::string& text, int ranks);

  const std::string& text() const { return text_; }
  bool counts_messages() const { return unit_ == Unit::messages; }
  // How late the rank comes to call `call`, counted from 0. The same for all who ask.
  std::uint64_t delay_ns(int rank, int call, double message_ns) const;

 private:
  enum class Shape : std::uint8_t { chance, one, half, file };
  enum class Unit : std::uint8_t { messages, nanoseconds };

  void parse_amount(const std::string& text);
  void read(const std::string& path);

  std::string text_;
  Shape shape_ = Shape::chance;
  Unit unit_ = Unit::nanoseconds;
  int ranks_ = 0;
  int late_ = 0;  // of Shape::one
  double amount_ = 0;
  std::vector<std::vector<double>> delays_us_;  // by call, by rank
};

// Sleeps until a point of CLOCK_MONOTONIC.
void sleep_until_ns(std::uint64_t at_ns);

}  // namespace sccl::tools
