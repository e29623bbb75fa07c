// MIAD on simulated calls, where no other program disturbs the times: slices of every candidate of the portfolio on
// some presets; prints Markdown. bench/tuning/miad.py does the same on this host.
#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "portfolio/portfolio.h"
#include "runtime/choice/tuning/miad.h"
#include "schedule/simulation/cost.h"
#include "schedule/simulation/simulate.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

constexpr runtime::SliceRange kRange{16 * 1024, 1024 * 1024};
constexpr int kSlots = 4;
constexpr int kLate = 1;  // calls until a time is known to all ranks

class Curve {
 public:
  Curve(const schedule::Schedule& schedule, std::size_t bytes)
      : schedule_(schedule), bytes_(schedule::buffer_bytes(schedule, static_cast<double>(bytes), 1)) {}

  double us(std::size_t slice) {
    double& known = us_[slice];
    if (known == 0) {
      schedule::SimulationOptions options;
      options.bytes = bytes_;
      options.slice_bytes = static_cast<double>(slice);
      options.slots = kSlots;
      options.detail = schedule::Detail::totals;
      known = schedule::simulate(schedule_, options).time_us;
    }
    return known;
  }

  // Of powers of two, and what lies halfway between.
  double least_us() {
    double least = 1e30;
    for (std::size_t slice = kRange.least; slice <= kRange.most; slice *= 2)
      for (const std::size_t tried : {slice, slice / 4 * 3})
        least = std::min(least, us(std::clamp(tried, kRange.least, kRange.most)));
    return least;
  }

 private:
  const schedule::Schedule& schedule_;
  double bytes_;
  std::map<std::size_t, double> us_;
};

struct Course {
  int calls = 0;
  std::size_t slice = 0;
};

Course run(Curve& curve) {
  runtime::Miad miad(kRange);
  std::deque<double> under_way;
  Course course;
  while (!miad.steady()) {
    if (static_cast<int>(under_way.size()) > kLate) {
      miad.measured(static_cast<std::uint64_t>(under_way.front() * 1e3));
      under_way.pop_front();
    }
    under_way.push_back(curve.us(miad.propose()));
    if (!miad.steady()) ++course.calls;
  }
  course.slice = miad.best_slice();
  return course;
}

}  // namespace

int main() {
  fmt::print(
      "## Simulated\n\n`bench_tuning`: calls ({} slots, times known one call later), {} KiB to {} KiB, against "
      "the best of powers of two and the sizes between them.\n\n| preset | collective | bytes | schedule | MIAD's "
      "slice | calls | us | best fixed us | ratio |\n"
      "|---|---|---|---|---|---|---|---|---|\n",
      kSlots, kRange.least / 1024, kRange.most / 1024);
  int cases = 0;
  int good = 0;
  int most_calls = 0;
  for (const char* preset : {"dgx1p", "dgx1v", "z52", "pcie4"}) {
    const auto topology = topology::preset(preset);
    for (const Collective collective : {Collective::broadcast, Collective::allreduce, Collective::allgather})
      for (const std::size_t bytes : {std::size_t{4} << 20, std::size_t{64} << 20})
        for (const portfolio::Candidate& candidate : portfolio::candidates(topology, collective, 0)) {
          if (candidate.frames > 1) continue;  // cut by frames already
          Curve curve(*candidate.schedule, bytes);
          const Course course = run(curve);
          const double ratio = curve.us(course.slice) / curve.least_us();
          ++cases;
          if (ratio <= 1.05 && course.calls < 20) ++good;
          most_calls = std::max(most_calls, course.calls);
          fmt::print("| {} | {} | {} | {} | {} | {} | {:.1f} | {:.1f} | {:.3f} |\n", preset, info(collective).name,
                     bytes, candidate.name, course.slice, course.calls, curve.us(course.slice), curve.least_us(),
                     ratio);
        }
  }
  fmt::print("\nWithin 5% of the best fixed slice in fewer than 20 calls: {} of {}; most calls {}.\n", good, cases,
             most_calls);
  return 0;
}
