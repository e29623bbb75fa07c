#include "runtime/choice/tuning/miad.h"

#include <algorithm>

namespace sccl::runtime {
namespace {

// The times of equal calls on a quiet machine differ by about this much. A time within this range counts as no slower.
constexpr std::uint64_t kTolerancePercent = 3;
constexpr int kDecreaseParts = 8;
constexpr std::size_t kSliceUnit = 4096;
constexpr int kMostProposals = 19;
constexpr std::size_t kReviewed = 3;  // slices that run again
constexpr int kReviewedRuns = 5;      // of each of these slices, earlier runs included

}  // namespace

Miad::Miad(SliceRange range) : range_(range) {
  if (!range_.tunable()) phase_ = Phase::steady;
}

Miad::Point& Miad::point(std::size_t slice) {
  for (Point& known : points_)
    if (known.slice == slice) return known;
  return points_.emplace_back(Point{slice, 0, 0, 0});
}

const Miad::Point* Miad::best() const {
  const Point* found = nullptr;
  for (const Point& known : points_)
    if (known.measured > 0 && (found == nullptr || known.least_ns < found->least_ns)) found = &known;
  return found;
}

std::size_t Miad::best_slice() const {
  const Point* found = best();
  return found == nullptr ? range_.least : found->slice;
}

std::uint64_t Miad::best_ns() const {
  const Point* found = best();
  return found == nullptr ? 0 : found->least_ns;
}

bool Miad::all_known() const {
  return std::all_of(points_.begin(), points_.end(),
                     [](const Point& one) { return one.measured > 0 || one.asked == 0; });
}

bool Miad::worse(const Point& point) const {
  return point.measured > 0 && point.least_ns * 100 > best_ns() * (100 + kTolerancePercent);
}

// A slice that was slow once is measured once more, because a disturbance may have slowed the call.
std::optional<std::size_t> Miad::next_in_increase() {
  std::size_t last = 0;
  for (std::size_t slice = range_.least; slice <= range_.most; slice *= 2) {
    Point& here = point(slice);
    last = slice;
    if (here.asked == 0) return slice;
    // The increase ends only if a smaller slice is faster. If a larger one is faster, it goes on.
    if (!worse(here) || best_slice() > slice) continue;
    if (here.asked < 2) return slice;
    if (here.measured < 2) return std::nullopt;
    turning_ = slice;
    phase_ = Phase::decrease;
    return std::nullopt;
  }
  if (all_known()) {
    turning_ = last;
    phase_ = best_slice() == last ? Phase::review : Phase::decrease;
  }
  return std::nullopt;
}

std::optional<std::size_t> Miad::next_in_decrease() {
  const std::size_t step = std::max(turning_ / kDecreaseParts / kSliceUnit * kSliceUnit, kSliceUnit);
  const std::size_t floor = turning_ / 2;
  std::uint64_t before = 0;
  for (std::size_t slice = turning_; slice > floor + step / 2 && slice > step; slice -= step) {
    Point& here = point(slice);
    if (here.asked == 0) return slice;
    if (here.measured == 0) return std::nullopt;
    if (before != 0 && here.least_ns * 100 > before * (100 + kTolerancePercent)) break;
    before = here.least_ns;
  }
  if (all_known()) phase_ = Phase::review;
  return std::nullopt;
}

std::optional<std::size_t> Miad::next_in_review() {
  std::vector<const Point*> order;
  for (const Point& one : points_)
    if (one.measured > 0) order.push_back(&one);
  std::sort(order.begin(), order.end(), [](const Point* a, const Point* b) {
    return a->least_ns != b->least_ns ? a->least_ns < b->least_ns : a->slice < b->slice;
  });
  order.resize(std::min(order.size(), kReviewed));
  // A program's first calls become faster from call to call, which favours the slice that runs last. So every second
  // pass has the reverse order.
  const auto less_often = [](const Point* a, const Point* b) { return a->asked < b->asked; };
  std::sort(order.begin(), order.end(), [](const Point* a, const Point* b) { return a->slice < b->slice; });
  if (!order.empty() && (*std::min_element(order.begin(), order.end(), less_often))->asked % 2 != 0)
    std::reverse(order.begin(), order.end());
  const auto fewest = std::min_element(order.begin(), order.end(), less_often);
  if (fewest != order.end() && (*fewest)->asked < kReviewedRuns) return (*fewest)->slice;
  phase_ = Phase::steady;
  return std::nullopt;
}

std::size_t Miad::propose() {
  std::optional<std::size_t> slice;
  if (proposals_ >= kMostProposals) phase_ = Phase::steady;
  if (phase_ == Phase::increase) slice = next_in_increase();
  if (phase_ == Phase::decrease) slice = next_in_decrease();
  if (phase_ == Phase::review) slice = next_in_review();
  const std::size_t proposed = slice.value_or(best_slice());  // without a new slice the best one runs again
  ++point(proposed).asked;
  ++proposals_;
  unanswered_.push_back(proposed);
  return proposed;
}

void Miad::measured(std::uint64_t ns) {
  if (unanswered_.empty()) return;
  Point& here = point(unanswered_.front());
  unanswered_.erase(unanswered_.begin());
  ++here.measured;
  if (here.least_ns == 0 || ns < here.least_ns) here.least_ns = ns;
}

}  // namespace sccl::runtime
