// sccl perf: the command line of a measurement.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "planners/planners.h"
#include "tools/byte_size.h"
#include "tools/perf_launch.h"
#include "tools/perf_plan.h"
#include "tools/perf_report.h"
#include "tools/tuning_trace.h"
#include "tools/verbs.h"

namespace sccl::tools {
namespace {

constexpr int kMostRanks = 1024;

struct CommandLine {
  PerfOptions options;
  std::string algorithm;
  std::string protocol;
  std::string csv_path;
  bool trace_tuning = false;
  bool as_json = false;
};

template <typename T, typename Parse>
std::vector<T> parse_list(const std::string& text, int count, const char* what, Parse&& parse) {
  std::vector<T> all;
  for (int i = 0; i < count; ++i) all.push_back(static_cast<T>(i));
  if (text == "all") return all;
  const std::optional<T> one = parse(text);
  if (!one) throw CLI::ValidationError("'" + text + "' is no " + what);
  return {*one};
}

const PerfCollective& parse_collective(const std::string& name) {
  for (const PerfCollective& known : perf_collectives())
    if (name == known.name) return known;
  throw CLI::ValidationError("'" + name + "' is no collective: use one of " + perf_collective_names());
}

// The library falls back to the ring where a planner has nothing to offer; a measurement must not.
void check_algorithm(const std::string& algorithm, const PerfOptions& options) {
  if (algorithm.empty() || algorithm == "auto") return;
  const planners::Planner* planner = planners::find(algorithm);
  if (planner == nullptr) {
    std::string names;
    for (const planners::Planner& known : planners::table()) names += " " + std::string(known.name);
    throw CLI::ValidationError("--algo: '" + algorithm + "' is no planner: use auto or one of" + names);
  }
  const Collective collective = options.collective->collective;
  if (collective == Collective::sendrecv || !planner->plan(topology::host(options.ranks), collective, 0))
    throw CLI::ValidationError("--algo: planner " + algorithm + " has no schedule for " + options.collective->name +
                               " on " + std::to_string(options.ranks) + " ranks");
}

void add_options(CLI::App& app, CommandLine& line) {
  PerfOptions& options = line.options;
  app.add_option("-n", options.ranks, "ranks")->check(CLI::Range(1, kMostRanks))->capture_default_str();
  app.add_option("-f", options.factor, "factor between sizes")->check(CLI::Range(1.01, 1e6))->capture_default_str();
  app.add_option("-w", options.warmup, "calls before timing")->check(CLI::Range(0, 1000000))->capture_default_str();
  app.add_option("-i", options.iterations, "timed calls")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_option("--algo", line.algorithm, "planner (SCCL_ALGO of the ranks)");
  app.add_option("--proto", line.protocol, "protocol (SCCL_PROTO of the ranks)")
      ->check(CLI::IsMember({"auto", "simple", "ll", "direct"}));
  app.add_option("--csv", line.csv_path, "also write this file");
  app.add_flag("--threads", options.threads, "ranks as threads of one process");
  app.add_flag("--trace-tuning", line.trace_tuning, "tune while measuring (SCCL_TUNE=online) and print the course of it");
  app.add_flag("--json", line.as_json, "print JSON");
}

CommandLine parse_command_line(CLI::App& app, int argc, char** argv) {
  CommandLine line;
  std::string collective, least = "8", most = "32M", type = "float", op = "sum";
  int check = 1;
  app.add_option("COLLECTIVE", collective, perf_collective_names())->required();
  app.add_option("-b", least, "smallest size")->capture_default_str();
  app.add_option("-e", most, "largest size")->capture_default_str();
  app.add_option("-d", type, "type, or all")->capture_default_str();
  app.add_option("-o", op, "operation: sum prod max min avg mulsum, or all")->capture_default_str();
  app.add_option("-c", check, "check every element")->check(CLI::Range(0, 1))->capture_default_str();
  add_options(app, line);
  app.parse(argc, argv);
  line.options.collective = &parse_collective(collective);
  line.options.least_bytes = parse_size(least);
  line.options.most_bytes = parse_size(most);
  if (line.options.least_bytes == 0 || line.options.most_bytes < line.options.least_bytes)
    throw CLI::ValidationError("-b must be positive and not exceed -e");
  line.options.check = check != 0;
  line.options.types = parse_list<DataType>(type, kDataTypeCount, "type", data_type_from_name);
  const auto ops = parse_list<ReduceOp>(op, kPerfOps, "operation", reduce_op_from_name);
  if (line.options.collective->reduces) line.options.ops = ops;
  check_algorithm(line.algorithm, line.options);
  return line;
}

}  // namespace

int perf(int argc, char** argv) {
  CLI::App app("Measures a collective; columns and meaning as in nccl-tests.", "sccl perf");
  CommandLine line;
  try {
    line = parse_command_line(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  if (!line.algorithm.empty()) ::setenv("SCCL_ALGO", line.algorithm.c_str(), 1);
  if (!line.protocol.empty()) ::setenv("SCCL_PROTO", line.protocol.c_str(), 1);
  std::optional<TuningTrace> trace;
  if (line.trace_tuning) trace.emplace();
  line.options.join_rooted_calls = line.trace_tuning;
  PerfReport report(line.options, line.csv_path, line.as_json);
  const bool well =
      line.options.threads ? measure_in_threads(line.options, report) : measure_in_processes(line.options, report);
  const bool good = report.finish(well ? Outcome::complete : Outcome::broken_off);
  if (trace) trace->print(line.as_json ? stderr : stdout);
  return good ? kOk : kNo;
}

}  // namespace sccl::tools
