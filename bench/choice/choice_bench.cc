// The choice among schedules against an exhaustive search, by simulation; prints Markdown.
//
// On every preset, for every collective and for sizes that are powers of two and sizes in between, the time of what is
// chosen for the size class, simulated at the very size, against the least time of all candidates at that size.
// Candidates include what a background search finds in the time given on the command line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "portfolio/portfolio.h"
#include "runtime/choice/tuning/ranking.h"
#include "synth/pareto.h"
#include "topology/presets.h"

using namespace sccl;

namespace {

constexpr Collective kCollectives[] = {Collective::allreduce, Collective::allgather, Collective::reducescatter,
                                       Collective::broadcast, Collective::reduce,    Collective::alltoall,
                                       Collective::gather,    Collective::scatter};
constexpr std::size_t kLeastBytes = 8;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr double kGood = 1.10;

// Like the executor's.
constexpr portfolio::Pipeline kPipeline{};

struct Tally {
  int cases = 0;
  int good = 0;
  double worst = 1;
  std::string worst_case;

  void add(double ratio, const std::string& what) {
    ++cases;
    if (ratio <= kGood) ++good;
    if (ratio <= worst) return;
    worst = ratio;
    worst_case = what;
  }
};

std::vector<std::size_t> sizes() {
  std::vector<std::size_t> result;
  for (std::size_t power = kLeastBytes; power <= kMostBytes; power *= 4)
    for (const std::size_t bytes : {power, power + power / 8, power + power / 4 * 3})
      if (bytes <= kMostBytes) result.push_back(bytes);
  return result;
}

std::vector<portfolio::Candidate> found_in_background(const topology::Topology& topology, Collective collective,
                                                      double seconds) {
  synth::Synthesizer synthesizer(topology, collective, 0);
  synth::Limits limits;
  limits.deadline = Deadline::in(std::chrono::milliseconds(static_cast<int>(seconds * 1000)));
  limits.most_literals = 4'000'000;
  std::vector<portfolio::Candidate> found;
  if (seconds <= 0 || !synthesizer.connected()) return found;
  for (synth::Point& point : synth::pareto(synthesizer, {}, limits).points)
    found.push_back({fmt::format("synth {}/{}/{}", point.size.chunks, point.size.steps, point.size.rounds),
                     portfolio::Origin::synthesis, std::move(point.schedule)});
  return found;
}

void judge(const topology::Topology& topology, Collective collective, double seconds, Tally& tally) {
  runtime::ScheduleModel schedule_model(topology, kPipeline);
  schedule_model.add(collective, 0, found_in_background(topology, collective, seconds));
  runtime::Settings settings;
  const auto kept = schedule_model.candidates(collective, 0);
  const auto& all = *kept;
  for (const std::size_t bytes : sizes()) {
    const runtime::Question question{collective, 0, topology.ranks, runtime::SizeClass::of(bytes)};
    const std::string chosen = rank_on_links(question, settings, schedule_model).front().choice.planner;
    const auto exact = portfolio::predict(all, bytes, 1, kPipeline);
    if (exact.empty()) return;  // links without figures
    for (const portfolio::Prediction& prediction : exact)
      if (all[prediction.candidate].name == chosen)
        tally.add(prediction.time_us / exact.front().time_us,
                  fmt::format("{} of {} bytes: {} instead of {}", info(collective).name, bytes, chosen,
                              all[exact.front().candidate].name));
  }
}

void presets(double seconds) {
  fmt::print(
      "## Every preset\n\nSizes 8 B to 64 MB: powers of 4, and an eighth and three quarters above each. Good: within "
      "10% of the best candidate at that very size.\n\n| preset | ranks | cases | good | worst ratio | where |\n"
      "|---|---|---|---|---|---|\n");
  int cases = 0;
  int good = 0;
  for (const topology::Preset& preset : topology::presets()) {
    const topology::Topology topology = topology::preset(std::string(preset.name));
    Tally tally;
    for (const Collective collective : kCollectives) judge(topology, collective, seconds, tally);
    cases += tally.cases;
    good += tally.good;
    fmt::print("| {} | {} | {} | {} | {:.3f} | {} |\n", preset.name, topology.ranks, tally.cases, tally.good,
               tally.worst, tally.worst_case);
    std::fflush(stdout);
  }
  fmt::print("\nAltogether {} of {} are good: {:.1f}%.\n\n", good, cases, 100.0 * good / std::max(1, cases));
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  fmt::print(
      "# The choice among schedules, by simulation\n\n`bench/choice/run.sh`: searches of {} s for each collective.\n\n",
      seconds);
  presets(seconds);
  return 0;
}
