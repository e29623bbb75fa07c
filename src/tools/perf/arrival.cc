#include "tools/perf/arrival.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>

#include "base/splitmix.h"
#include "tools/input/decimal.h"

namespace sccl::tools {
namespace {

constexpr double kMostMessages = 1e6;
constexpr double kMostDelayNs = 60e9;
constexpr std::uint64_t kSecondNs = 1000000000;

[[noreturn]] void refuse(const std::string& why) { throw CLI::ValidationError("--arrival: " + why); }

// From 0 to 1.
double chance(std::uint64_t value) { return static_cast<double>(mix(value) >> 11) * 0x1p-53; }

}  // namespace

ArrivalPattern ArrivalPattern::parse(const std::string& text, int ranks) {
  if (ranks < 2) refuse("one rank has nobody to be late for: give -n 2 or more");
  ArrivalPattern made;
  made.text_ = text;
  made.ranks_ = ranks;
  made.late_ = ranks - 1;
  const std::size_t equals = text.find('=');
  const std::string shape = text.substr(0, equals);
  std::string amount = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (shape == "file") {
    made.shape_ = Shape::file;
    made.read(amount);
    return made;
  }
  if (shape == "one") {
    made.shape_ = Shape::one;
    if (const std::size_t colon = amount.find(':'); colon != std::string::npos) {
      char* end = nullptr;
      const std::string rank = amount.substr(0, colon);
      const long late = std::strtol(rank.c_str(), &end, 10);
      if (rank.empty() || *end != '\0' || late < 0 || late >= ranks)
        refuse(fmt::format("'{}' is no rank of {}: use 0 to {}", rank, ranks, ranks - 1));
      made.late_ = static_cast<int>(late);
      amount = amount.substr(colon + 1);
    }
  } else if (shape == "half") {
    made.shape_ = Shape::half;
  } else if (shape != "mif") {
    refuse(fmt::format("'{}' is no pattern: use mif=20, one=20, one=RANK:3ms, half=20 or file=PATH", text));
  }
  made.parse_amount(amount);
  return made;
}

void ArrivalPattern::parse_amount(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit(end);
  const bool is_number = end != text.c_str() && !is_hexadecimal(text) && std::isfinite(number) && number >= 0;
  if (is_number && unit.empty() && number <= kMostMessages) {
    unit_ = Unit::messages;
    amount_ = number;
    return;
  }
  const double unit_ns = unit == "us" ? 1e3 : unit == "ms" ? 1e6 : unit == "s" ? 1e9 : 0;
  if (!is_number || unit_ns == 0 || number * unit_ns > kMostDelayNs)
    refuse(fmt::format("'{}' is no delay: use a number of messages (20), or a duration up to 60 s (500us, 3ms)", text));
  amount_ = number * unit_ns;
}

void ArrivalPattern::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) refuse(fmt::format("'{}' cannot be read: give a file of delays", path));
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    std::istringstream words(line);
    std::vector<double> delays;
    for (std::string word; words >> word;) {
      char* end = nullptr;
      const double us = std::strtod(word.c_str(), &end);
      if (*end != '\0' || is_hexadecimal(word) || !(us >= 0) || us * 1e3 > kMostDelayNs)
        refuse(fmt::format("{}:{}: '{}' is no delay in microseconds, of at most 60 s", path, number, word));
      delays.push_back(us);
    }
    if (delays.empty()) continue;
    if (delays.size() != static_cast<std::size_t>(ranks_))
      refuse(fmt::format("{}:{}: {} delays for {} ranks: give one for each rank", path, number, delays.size(), ranks_));
    delays_us_.push_back(std::move(delays));
  }
  if (delays_us_.empty()) refuse(fmt::format("'{}' holds no delays: give a line for each call", path));
}

std::uint64_t ArrivalPattern::delay_ns(int rank, int call, double message_ns) const {
  const double whole = amount_ * (unit_ == Unit::messages ? message_ns : 1);
  double delay = 0;
  switch (shape_) {
    case Shape::chance:
      delay = whole * chance(static_cast<std::uint64_t>(call) << 20 | static_cast<std::uint64_t>(rank) | 1ull << 60);
      break;
    case Shape::one:
      delay = rank == late_ ? whole : 0;
      break;
    case Shape::half:
      delay = rank >= ranks_ - ranks_ / 2 ? whole : 0;
      break;
    case Shape::file:
      delay = 1e3 * delays_us_[static_cast<std::size_t>(call) % delays_us_.size()][static_cast<std::size_t>(rank)];
      break;
  }
  return static_cast<std::uint64_t>(std::min(delay, kMostDelayNs));
}

void sleep_until_ns(std::uint64_t at_ns) {
  const timespec at{static_cast<time_t>(at_ns / kSecondNs), static_cast<long>(at_ns % kSecondNs)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
  }
}

}  // namespace sccl::tools
