// In which order, and how far apart, the ranks entered one call: the measures of the literature on process arrival
// patterns (Faraj, Patarasuk and Yuan), and the sentence that names a rank which is last time and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sccl::runtime {

struct ArrivalSpread {
  std::size_t last = 0;               // index of the latest arrival; of equal ones the first
  std::uint64_t behind_median = 0;    // from the median, of an even number the lower one, to the latest
  std::uint64_t spread = 0;           // from the earliest to the latest: the paper's Omega
  std::uint64_t mean_difference = 0;  // of an arrival from the mean arrival: the paper's Delta
};

// `arrivals`: points of one clock, at least one; what follows has their unit. `scratch` is overwritten.
ArrivalSpread spread_of(std::span<const std::uint64_t> arrivals, std::vector<std::uint64_t>& scratch);

// How often a rank was last of all, and how long after the median in sum.
struct LastArrivals {
  std::uint64_t calls = 0;
  std::uint64_t behind_ns = 0;

  double mean_behind_us() const {
    return calls == 0 ? 0 : static_cast<double>(behind_ns) / static_cast<double>(calls) * 1e-3;
  }
};

// The index of the one that is last in most calls, where that is no accident: of n arrivals in more than 1/2 + 1/2n of
// at least kFewCalls.
inline constexpr std::uint64_t kFewCalls = 20;
std::optional<std::size_t> straggler_of(std::span<const LastArrivals> by_rank);

// "3.1 ms"
std::string duration_text(double us);

// "rank 5 was last in 93 % of 1200 calls, 3.1 ms after the median"
std::string straggler_text(int rank, const LastArrivals& its, std::uint64_t calls);

}  // namespace sccl::runtime
