// sccl synth: one schedule of a given size, or all schedules worth having.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "schedule/json.h"
#include "synth/cache.h"
#include "synth/frontier_json.h"
#include "synth/pareto.h"
#include "synth/reference/smt.h"
#include "tools/input/candidates.h"
#include "tools/input/parse.h"
#include "tools/input/topology_argument.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

using synth::Outcome;

struct Options {
  std::string topology;
  std::vector<int> devices;
  std::string collective;
  synth::Size size;
  bool pareto = false;
  int k = -1;
  int more_steps = 4;
  Rank root = 0;
  double budget_s = 60;
  std::string out;
  bool cached = false;
  bool reference = false;
  bool as_json = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

synth::Limits limits(const Options& options) {
  return {Deadline::in(std::chrono::milliseconds(static_cast<std::int64_t>(options.budget_s * 1000))), nullptr};
}

std::string_view word(Outcome outcome) {
  return outcome == Outcome::sat ? "sat" : outcome == Outcome::unsat ? "unsat" : "unknown";
}

void write_file(const std::string& path, const nlohmann::json& json) {
  std::ofstream file(path);
  file << json.dump() << '\n';
  file.close();
  if (!file) fail(ErrorCode::invalid_argument, "'{}' cannot be written", path);
}

// The paper's own encoding, for comparison: collectives without reduction, and exactly the given number of steps.
synth::Answer ask_reference(const topology::Topology& topology, Collective collective, const Options& options) {
  const synth::Problem problem = synth::make_problem(topology, collective, options.root, options.size.chunks);
  const synth::Found found = synth::solve_reference(problem, options.size.steps, options.size.rounds, limits(options));
  if (found.outcome != Outcome::sat) return {found.outcome, std::nullopt, found.reason};
  std::vector<schedule::Send> sends;
  for (const synth::TimedHop& one : found.sends) {
    const synth::Hop hop = problem.hops[static_cast<std::size_t>(one.hop)];
    sends.push_back({one.chunk, hop.src, hop.dst, one.step, schedule::SendKind::copy});
  }
  return {Outcome::sat,
          schedule::make_schedule("synth", collective, options.root, topology, options.size.chunks, std::move(sends)),
          ""};
}

int one(const topology::Topology& topology, Collective collective, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const synth::Answer answer =
      options.reference ? ask_reference(topology, collective, options)
                        : synth::synthesize(topology, collective, options.root, options.size, limits(options));
  const double seconds = seconds_since(start);
  nlohmann::json json{{"result", word(answer.outcome)}, {"seconds", seconds}};
  if (!answer.reason.empty()) json["reason"] = answer.reason;
  if (answer.schedule) {
    json["schedule"] = schedule::to_json(*answer.schedule);
    if (!options.out.empty()) write_file(options.out, json["schedule"]);
  }
  if (options.as_json) {
    std::puts(json.dump().c_str());
  } else {
    std::printf("%s in %.3f s", std::string(word(answer.outcome)).c_str(), seconds);
    if (answer.schedule) {
      std::printf(": %d chunks per rank, %d steps, rounds", answer.schedule->chunks_per_rank, answer.schedule->steps);
      for (const int rounds : answer.schedule->rounds) std::printf(" %d", rounds);
    } else {
      std::printf(": %s", answer.reason.c_str());
    }
    std::puts("");
  }
  return answer.outcome == Outcome::sat ? kOk : kNo;
}

void print(const synth::Frontier& frontier) {
  std::puts("chunks  steps  rounds  rounds/chunk  seconds  optimal    pareto");
  for (const synth::Point& point : frontier.points)
    std::printf("%6d  %5d  %6d  %12.4f  %7.3f  %-9s  %s\n", point.size.chunks, point.size.steps, point.size.rounds,
                static_cast<double>(point.size.rounds) / point.size.chunks, point.seconds,
                std::string(synth::optimality(point)).c_str(), std::string(synth::name(point.standing)).c_str());
  std::printf("%s (%.3f s)\n", frontier.statement().c_str(), frontier.seconds);
}

synth::Frontier search(synth::Synthesizer& synthesizer, const Options& options) {
  synth::ParetoOptions pareto{options.k, options.more_steps, {}};
  if (!options.as_json && isatty(STDERR_FILENO) != 0)
    pareto.found = [](const synth::Point& point) {
      std::fprintf(stderr, "\rfound %d chunks, %d steps, %d rounds after %.2f s   ", point.size.chunks,
                   point.size.steps, point.size.rounds, point.seconds);
    };
  synth::Frontier found = synth::pareto(synthesizer, pareto, limits(options));
  if (pareto.found) std::fprintf(stderr, "\r%60s\r", "");
  return found;
}

int frontier(const topology::Topology& topology, Collective collective, const Options& options) {
  synth::Synthesizer synthesizer(topology, collective, options.root);
  if (!synthesizer.connected()) {
    const char* reason = "some rank cannot be reached over the links: there is no schedule";
    if (options.as_json)
      std::puts(
          nlohmann::json{{"frontier", nlohmann::json::array()}, {"seconds", 0}, {"reason", reason}}.dump().c_str());
    else
      std::printf("none: %s\n", reason);
    return kNo;
  }
  const std::optional<synth::Cache> cache = options.cached ? synth::Cache::of_user() : std::nullopt;
  std::optional<synth::Known> known;
  if (options.cached) known = synth::known(topology, collective, options.root);
  const synth::Frontier found = known ? std::move(known->frontier) : search(synthesizer, options);
  if (cache && !known && !cache->store(topology, collective, options.root, found))
    std::fprintf(stderr, "sccl synth: nothing could be kept in %s\n", cache->folder().c_str());
  nlohmann::json json = synth::to_json(found);
  json["source"] = !known ? "search" : known->source == synth::Source::user ? "cache" : "catalogue";
  if (!options.out.empty()) write_file(options.out, json);
  if (options.as_json)
    std::puts(json.dump().c_str());
  else
    print(found);
  return found.points.empty() ? kNo : kOk;
}

}  // namespace

int synth(int argc, char** argv) {
  CLI::App app("Synthesizes schedules for the links of a topology.", "sccl synth");
  Options options;
  app.add_option("--topo", options.topology, "a preset's name, or a file (JSON, NCCL's XML)")->required();
  app.add_option("--devices", options.devices, "only these devices, e.g. 0,1,4")->delimiter(',');
  app.add_option("--collective", options.collective, "allgather, allreduce, broadcast, ...")->required();
  auto* chunks = app.add_option("--chunks", options.size.chunks, "pieces of one rank's buffer");
  auto* steps = app.add_option("--steps", options.size.steps, "at most so many steps");
  auto* rounds = app.add_option("--rounds", options.size.rounds, "at most so many rounds in all");
  auto* pareto = app.add_flag("--pareto", options.pareto, "all between least latency and least bandwidth");
  app.add_option("--k", options.k, "with --pareto: at most so many rounds more than steps")
      ->check(CLI::NonNegativeNumber)
      ->needs(pareto);
  app.add_option("--more-steps", options.more_steps, "with --pareto: steps beyond the fewest possible")
      ->check(CLI::NonNegativeNumber)
      ->needs(pareto);
  app.add_flag(
         "--cache", options.cached,
         "with --pareto: look in the cache (SCCL_CACHE_DIR) and the installed catalogue first, keep what is found anew")
      ->needs(pareto);
  app.add_option("--root", options.root, "of a rooted collective");
  app.add_option("--budget", options.budget_s, "seconds after which the best so far is the answer")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--out", options.out, "file for the schedule, or for the frontier with its schedules (JSON)");
  app.add_flag("--reference", options.reference, "the SMT encoding of the paper (slow; nothing that combines)")
      ->excludes(pareto);
  app.add_flag("--json", options.as_json, "print JSON");
  for (CLI::Option* one_size : {chunks, steps, rounds}) one_size->excludes(pareto);
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  if (!options.pareto && (chunks->empty() || steps->empty() || rounds->empty())) {
    std::fputs("sccl synth: give --chunks, --steps and --rounds, or --pareto\n", stderr);
    return kBadUsage;
  }
  const std::optional<Collective> collective = collective_from_name(options.collective);
  if (!collective) {
    std::fprintf(stderr, "sccl synth: no collective is called '%s': use %s\n", options.collective.c_str(),
                 kCollectiveNames);
    return kBadUsage;
  }
  const topology::Topology topology = topology_argument(options.topology, options.devices);
  return options.pareto ? frontier(topology, *collective, options) : one(topology, *collective, options);
}

}  // namespace sccl::tools
