// sccl perf: the command line of a measurement.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <stdexcept>

#include "base/error.h"
#include "planners/planners.h"
#include "portfolio/clusters/cluster_planner.h"
#include "portfolio/portfolio.h"
#include "runtime/settings/settings.h"
#include "tools/input/byte_size.h"
#include "tools/input/parse.h"
#include "tools/perf/launch.h"
#include "tools/perf/plan.h"
#include "tools/perf/report.h"
#include "tools/perf/tuning_trace.h"
#include "tools/verbs/verbs.h"
#include "topology/formats/load.h"
#include "topology/graph/joined.h"
#include "topology/presets.h"

namespace sccl::tools {
namespace {

std::vector<std::string> protocol_names() {
  std::vector<std::string> names;
  for (const runtime::ProtocolWord& word : runtime::kProtocolWords) names.emplace_back(word.text);
  return names;
}

constexpr int kMostRanks = 1024;

struct CommandLine {
  PerfOptions options;
  std::string algorithm;
  std::string protocol;
  std::string csv_path;
  std::optional<std::string> delay, rate, loss;
  std::optional<std::string> arrival;
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

// Whether the planner serves the call on the host's own links, or on the named links, as a communicator would use them.
bool serves(const std::string& algorithm, const std::optional<std::string>& links, const PerfOptions& options) {
  const Collective collective = options.collective->collective;
  if (!links) return planners::find(algorithm)->plan(topology::host(options.ranks), collective, 0).has_value();
  try {
    const topology::Topology machine = topology::from_setting(*links);
    const auto part = [&](std::span<const int> devices) { return topology::subset(machine, devices); };
    const std::vector<int> unknown(static_cast<std::size_t>(options.ranks), -1);
    const auto places = topology::places_on(machine, unknown, part);
    if (places.devices.empty()) throw CLI::ValidationError("SCCL_TOPO=" + *links + ": " + places.remark);
    const topology::Topology here = part(places.devices);
    if (portfolio::by_levels_alone(here) && planners::find(algorithm) == nullptr)
      return std::ranges::any_of(portfolio::ClusterPlanner(here).candidates(collective, 0),
                                 [&](const auto& one) { return portfolio::answers_to(one.name(), algorithm); });
    const auto all = portfolio::candidates(here, collective, 0, algorithm);
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return portfolio::answers_to(one, algorithm); });
  } catch (const Error& error) {
    throw CLI::ValidationError("SCCL_TOPO=" + *links + ": " + error.what());
  }
}

// The library falls back if an algorithm has no schedule; a measurement must not.
void check_algorithm(const std::string& given, const PerfOptions& options) {
  if (given.empty()) return;
  if (!runtime::valid_algorithms(given)) {
    std::string names;
    for (const planners::Planner& known : planners::table()) names += " " + std::string(known.name);
    for (const std::string_view kind : portfolio::kinds()) names += " " + std::string(kind);
    throw CLI::ValidationError("--algo: '" + given + "' is no algorithm: use auto or one of" + names);
  }
  runtime::Settings settings;
  settings.algorithms = given;
  const Collective collective = options.collective->collective;
  const std::string algorithm = settings.algorithm(collective);
  if (algorithm.empty()) return;
  auto links = topology::named_topology();
  // Hosts with equally many ranks have links like these; of others only the ranks themselves can tell.
  if (!links && options.hosts > 1) {
    if (options.ranks % options.hosts != 0) return;
    links = fmt::format("{}*host:{}", options.hosts, options.ranks / options.hosts);
  }
  if (!links && planners::find(algorithm) == nullptr)
    throw CLI::ValidationError("--algo: " + algorithm +
                               " needs links that are named: set SCCL_TOPO, for example to dgx1v");
  if (collective == Collective::sendrecv || !serves(algorithm, links, options))
    throw CLI::ValidationError("--algo: " + algorithm + " has no schedule for " + options.collective->name + " on " +
                               std::to_string(options.ranks) + " ranks");
}

void add_options(CLI::App& app, CommandLine& line) {
  PerfOptions& options = line.options;
  app.add_option("-n", options.ranks, "ranks")->check(CLI::Range(1, kMostRanks))->capture_default_str();
  app.add_option("-f", options.factor, "factor between sizes")->check(CLI::Range(1.01, 1e6))->capture_default_str();
  app.add_option("-w", options.warmup, "calls before timing")->check(CLI::Range(0, 1000000))->capture_default_str();
  app.add_option("-i", options.iterations, "timed calls")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_flag("-R", options.registered, "buffers of ncclMemAlloc, registered with ncclCommRegister");
  app.add_option("--algo", line.algorithm, "planner, trees, synth, ...: SCCL_ALGO of the ranks");
  app.add_option("--proto", line.protocol, "protocol (SCCL_PROTO of the ranks)")
      ->check(CLI::IsMember(protocol_names()));
  app.add_option("--csv", line.csv_path, "also write this file");
  app.add_flag("--threads", options.threads, "ranks as threads of one process");
  app.add_option(
      "--arrival", line.arrival,
      "make ranks late: mif=20 (all, by chance), one=20, one=RANK:3ms, half=20 (messages or a time), file=PATH");
  app.add_flag("--trace-tuning", line.trace_tuning,
               "tune while measuring (SCCL_TUNE=online) and print the course of it");
  app.add_option("--hosts", options.hosts, "network namespaces, for ranks of several hosts on this machine (root)")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--delay", line.delay, "between them, one way: 500us");
  app.add_option("--rate", line.rate, "of each interface of theirs, outwards: 1gbit");
  app.add_option("--nics", options.shape.interfaces, "interfaces of each of them, each in a network of its own")
      ->check(CLI::Range(1, 8));
  app.add_option("--loss", line.loss, "of packets between them: 0.1%");
  app.add_flag("--json", line.as_json, "print JSON");
}

void read_hosts(CommandLine& line) {
  PerfOptions& options = line.options;
  try {
    if (line.delay) options.shape.delay_us = parse_delay_us(*line.delay);
    if (line.rate) options.shape.bits_per_s = parse_rate(*line.rate);
    if (line.loss) options.shape.loss = parse_loss(*line.loss);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError(error.what());
  }
  if (options.hosts > options.ranks) throw CLI::ValidationError("--hosts: every host needs a rank: raise -n");
  if (options.hosts > 1 && options.threads)
    throw CLI::ValidationError("--threads: threads of one process are on one host: leave --hosts out");
  if (options.hosts == 1 && !options.shape.plain())
    throw CLI::ValidationError("--delay, --rate, --nics and --loss are of the network between hosts: give --hosts");
  if (options.shape.interfaces > 1 && options.shape.has_own_wire())
    throw CLI::ValidationError("--nics: the switch with --delay and --loss has one interface for each host");
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
  parse(app, argc, argv);
  line.options.collective = &parse_collective(collective);
  line.options.least_bytes = parse_size(least);
  line.options.most_bytes = parse_size(most);
  if (line.options.least_bytes == 0 || line.options.most_bytes < line.options.least_bytes)
    throw CLI::ValidationError("-b must be positive and not exceed -e");
  line.options.check = check != 0;
  line.options.types = parse_list<DataType>(type, kDataTypeCount, "type", data_type_from_name);
  const auto ops = parse_list<ReduceOp>(op, kPerfOps, "operation", reduce_op_from_name);
  if (line.options.collective->reduces) line.options.ops = ops;
  if (line.arrival) line.options.arrival = ArrivalPattern::parse(*line.arrival, line.options.ranks);
  check_algorithm(line.algorithm, line.options);
  read_hosts(line);
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
