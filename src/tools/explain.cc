// sccl explain: which schedule serves which size on given links, and why.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "portfolio/portfolio.h"
#include "runtime/dispatcher.h"
#include "tools/candidates.h"
#include "tools/machine_option.h"
#include "tools/verbs.h"

namespace sccl::tools {
namespace {

struct Options {
  MachineOption machine;
  std::string collective;
  int ranks = 8;
  int root = 0;
  bool as_json = false;
};

struct Row {
  Collective collective;
  std::size_t bytes = 0;
  std::string schedule;
  std::string why;
  double predicted_us = 0;
  std::string second;
  double second_us = 0;
};

constexpr std::size_t kLeastBytes = 8;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

std::vector<Collective> collectives_of(const Options& options) {
  if (options.collective.empty())
    return {Collective::allreduce, Collective::allgather, Collective::reducescatter, Collective::broadcast,
            Collective::reduce,    Collective::alltoall,  Collective::gather,        Collective::scatter};
  const auto found = collective_from_name(options.collective);
  if (!found) fail(ErrorCode::invalid_argument, "'{}' is no collective: use allreduce, allgather, ...", options.collective);
  return {*found};
}

// As with SCCL_TOPO.
std::vector<Row> predicted_rows(const Options& options) {
  const topology::Topology machine = options.machine.machine();
  std::vector<Row> rows;
  for (const Collective collective : collectives_of(options)) {
    const auto candidates = portfolio::candidates(machine, collective, options.root);
    for (std::size_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 8) {
      const auto predictions = portfolio::predict(candidates, bytes, 1, {});
      require_predictions(predictions, machine);
      Row row{collective, bytes, candidates[predictions[0].candidate].name, "predicted fastest", predictions[0].time_us,
              "", 0};
      if (predictions.size() > 1) {
        row.second = candidates[predictions[1].candidate].name;
        row.second_us = predictions[1].time_us;
      }
      rows.push_back(row);
    }
  }
  return rows;
}

// On the host's own links.
std::vector<Row> measured_rows(const Options& options) {
  std::vector<Row> rows;
  const runtime::Settings settings = runtime::settings_from_environment(options.ranks);
  for (const Collective collective : collectives_of(options))
    for (std::size_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= 8) {
      const runtime::Choice choice = runtime::choose({collective, bytes, options.ranks}, settings, settings.direct_allowed);
      const char* protocol = choice.form == runtime::Form::direct                ? "single copy"
                             : choice.protocol == runtime::ProtocolChoice::ll ? "ll"
                                                                                 : "simple";
      rows.push_back({collective, bytes, choice.planner + " (" + protocol + ")",
                      settings.algorithm(collective).empty() ? "thresholds measured on the host" : "asked for by SCCL_ALGO",
                      0, "", 0});
    }
  return rows;
}

void print_table(const std::vector<Row>& rows) {
  std::printf("%-14s %10s  %-22s %12s  %s\n", "collective", "bytes", "schedule", "us", "why");
  for (const Row& row : rows) {
    const std::string why =
        row.second.empty() ? row.why : fmt::format("{}; then {} {:.1f} us", row.why, row.second, row.second_us);
    const std::string time = row.predicted_us > 0 ? fmt::format("{:.1f}", row.predicted_us) : "-";
    std::printf("%-14s %10zu  %-22s %12s  %s\n", std::string(info(row.collective).name).c_str(), row.bytes,
                row.schedule.c_str(), time.c_str(), why.c_str());
  }
}

void print_json(const std::vector<Row>& rows) {
  nlohmann::json all = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json entry{{"collective", info(row.collective).name}, {"bytes", row.bytes}, {"schedule", row.schedule}, {"why", row.why}};
    if (row.predicted_us > 0) entry["predicted_us"] = row.predicted_us;
    if (!row.second.empty()) entry["second"] = {{"schedule", row.second}, {"predicted_us", row.second_us}};
    all.push_back(entry);
  }
  std::puts(all.dump().c_str());
}

}  // namespace

int explain(int argc, char** argv) {
  Options options;
  CLI::App app("Which schedule serves which size, and why: on this host's own links, or on those of --topo.", "sccl explain");
  options.machine.add_to(app);
  app.add_option("-n,--ranks", options.ranks, "ranks on this host, without --topo")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--collective", options.collective, "only this one");
  app.add_option("--root", options.root, "of rooted collectives")->capture_default_str();
  app.add_flag("--json", options.as_json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  try {
    const std::vector<Row> rows = !options.machine.given() ? measured_rows(options) : predicted_rows(options);
    options.as_json ? print_json(rows) : print_table(rows);
    return kOk;
  } catch (const Error& error) {
    std::fprintf(stderr, "sccl explain: %s\n", error.what());
    return kBadUsage;
  }
}

}  // namespace sccl::tools
