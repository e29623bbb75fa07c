#include "runtime/call/arrival_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace sccl::runtime {
namespace {

std::uint64_t calls_of(std::span<const LastArrivals> by_rank) {
  return std::accumulate(by_rank.begin(), by_rank.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const LastArrivals& one) { return sum + one.calls; });
}

}  // namespace

ArrivalSpread spread_of(std::span<const std::uint64_t> arrivals, std::vector<std::uint64_t>& scratch) {
  ArrivalSpread result;
  if (arrivals.size() == 2) {  // often, and soon done
    result.last = arrivals[1] > arrivals[0] ? 1 : 0;
    result.spread = result.behind_median = arrivals[result.last] - arrivals[1 - result.last];
    result.mean_difference = result.spread / 2;
    return result;
  }
  std::uint64_t earliest = arrivals.front();
  std::uint64_t after_first = 0;  // in sum; differences to the first are small, points of time are not
  std::uint64_t before_first = 0;
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    if (arrivals[i] > arrivals[result.last]) result.last = i;
    earliest = std::min(earliest, arrivals[i]);
    (arrivals[i] > arrivals[0] ? after_first : before_first) +=
        arrivals[i] > arrivals[0] ? arrivals[i] - arrivals[0] : arrivals[0] - arrivals[i];
  }
  const std::uint64_t count = arrivals.size();
  const std::uint64_t mean = arrivals[0] + after_first / count - before_first / count;
  for (const std::uint64_t arrival : arrivals)
    result.mean_difference += arrival > mean ? arrival - mean : mean - arrival;
  result.mean_difference /= count;
  result.spread = arrivals[result.last] - earliest;
  scratch.assign(arrivals.begin(), arrivals.end());
  const auto median = scratch.begin() + static_cast<std::ptrdiff_t>((count - 1) / 2);
  std::nth_element(scratch.begin(), median, scratch.end());
  result.behind_median = arrivals[result.last] - *median;
  return result;
}

// Were all n alike, one of them would be last in 1/n of the calls. The bound lies in the middle between that and
// always, so that it is no matter of luck for two ranks either.
std::optional<std::size_t> straggler_of(std::span<const LastArrivals> by_rank) {
  const std::uint64_t calls = calls_of(by_rank);
  if (calls < kFewCalls || by_rank.size() < 2) return std::nullopt;
  const auto most = std::max_element(by_rank.begin(), by_rank.end(),
                                     [](const LastArrivals& a, const LastArrivals& b) { return a.calls < b.calls; });
  if (2 * by_rank.size() * most->calls <= (by_rank.size() + 1) * calls) return std::nullopt;
  return static_cast<std::size_t>(most - by_rank.begin());
}

std::string duration_text(double us) {
  if (us < 1e3) return fmt::format("{:.1f} us", us);
  return us < 1e6 ? fmt::format("{:.1f} ms", us * 1e-3) : fmt::format("{:.1f} s", us * 1e-6);
}

std::string straggler_text(int rank, const LastArrivals& its, std::uint64_t calls) {
  return fmt::format("rank {} was last in {:.0f} % of {} calls, {} after the median", rank,
                     100.0 * static_cast<double>(its.calls) / static_cast<double>(calls), calls,
                     duration_text(its.mean_behind_us()));
}

}  // namespace sccl::runtime
