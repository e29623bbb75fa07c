// The tuner of slices finds what an exhaustive search finds, in few calls, also when times are disturbed.
#include "runtime/choice/tuning/miad.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <functional>
#include <random>

using sccl::runtime::Miad;
using sccl::runtime::SliceRange;

namespace {

using Curve = std::function<double(std::size_t)>;  // microseconds by slice

constexpr SliceRange kRange{16 * 1024, 1024 * 1024};

// `bytes` through `hops` hops: small slices pay for each one, large ones fill the pipeline slowly.
Curve pipelined(double bytes, double hops, double us_per_slice, double bytes_per_us) {
  return [=](std::size_t slice) {
    const auto size = static_cast<double>(slice);
    return (std::ceil(bytes / size) + hops - 1) * (us_per_slice + size / bytes_per_us);
  };
}

double best_of(const Curve& curve) {
  double best = 1e30;
  for (std::size_t slice = kRange.least; slice <= kRange.most; slice += 4096) best = std::min(best, curve(slice));
  return best;
}

struct Course {
  int calls = 0;
  std::size_t slice = 0;
};

// Times become known `late` calls after the call.
Course run(const Curve& curve, int late) {
  Miad miad(kRange);
  std::deque<double> under_way;
  Course course;
  while (!miad.steady() && course.calls < 100) {
    if (static_cast<int>(under_way.size()) > late) {
      miad.measured(static_cast<std::uint64_t>(under_way.front() * 1000));
      under_way.pop_front();
    }
    under_way.push_back(curve(miad.propose()));
    if (!miad.steady()) ++course.calls;
  }
  course.slice = miad.best_slice();
  return course;
}

const std::vector<Curve> kCurves{
    pipelined(1 << 20, 1, 1, 8000),
    pipelined(1 << 20, 7, 1, 8000),
    pipelined(8 << 20, 3, 5, 5000),
    pipelined(64 << 20, 7, 10, 9000),
    pipelined(64 << 20, 1, 0.3, 5000),
    pipelined(1 << 20, 3, 20, 9000),
    [](std::size_t slice) { return slice <= 64 * 1024 ? 100.0 : 130.0; },      // falls out of a cache
    [](std::size_t) { return 100.0; },                                         // no difference
    [](std::size_t slice) { return 1e7 / static_cast<double>(slice); },        // the larger the better
    [](std::size_t slice) { return 100 + static_cast<double>(slice) / 1e4; },  // the smaller the better
};

// The larger the better up to `edge`, which no doubling meets, and slow beyond.
Curve best_at(std::size_t edge) {
  return [edge](std::size_t slice) { return (100 + 2e7 / static_cast<double>(slice)) * (slice > edge ? 9 : 1); };
}

}  // namespace

TEST_CASE("MIAD finds a best slice that lies between two doublings") {
  for (const int late : {0, 1, 2})
    for (const std::size_t edge : {112u * 1024, 224u * 1024, 448u * 1024, 896u * 1024}) {
      CAPTURE(late, edge);
      const Curve curve = best_at(edge);
      const Course course = run(curve, late);
      CHECK(course.calls < 20);
      CHECK(course.slice == edge);
      CHECK(curve(course.slice) <= 1.05 * best_of(curve));
    }
}

TEST_CASE("MIAD comes within 5% of the best fixed slice in fewer than 20 calls") {
  for (const int late : {0, 1, 2})
    for (std::size_t i = 0; i < kCurves.size(); ++i) {
      CAPTURE(late, i);
      const Course course = run(kCurves[i], late);
      CHECK(course.calls < 20);
      CHECK(kCurves[i](course.slice) <= 1.05 * best_of(kCurves[i]));
    }
}

TEST_CASE("MIAD is not led astray by calls that are disturbed") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::exponential_distribution<double> jitter(1 / 0.01);
  std::bernoulli_distribution spike(0.1);
  int bad = 0;
  constexpr int kRuns = 300;
  for (int i = 0; i < kRuns; ++i) {
    const Curve& exact = kCurves[static_cast<std::size_t>(i) % kCurves.size()];
    const Curve noisy = [&](std::size_t slice) {
      return exact(slice) * (1 + jitter(random)) * (spike(random) ? 3 : 1);
    };
    const Course course = run(noisy, 1);
    CHECK(course.calls < 20);
    if (exact(course.slice) > 1.1 * best_of(exact)) ++bad;
  }
  CHECK(bad < kRuns / 10);
}

TEST_CASE("where one slice holds everything there is nothing to tune") {
  Miad miad({65536, 65536});
  CHECK(miad.steady());
  CHECK(miad.propose() == 65536);
  miad.measured(5);
  CHECK(miad.best_slice() == 65536);
  CHECK(Miad({}).steady());
}

TEST_CASE("an answer nobody asked for is not taken") {
  Miad miad(kRange);
  miad.measured(1);
  CHECK(miad.best_ns() == 0);
}
