// sccl trace: merges the traces of a job's processes into one file for a viewer, and tells which rank came last.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/input/parse.h"
#include "tools/input/schedule_file.h"
#include "tools/traces/late_ranks.h"
#include "tools/traces/merge.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

struct CommandLine {
  std::vector<std::string> paths;
  std::string foreseen_path;
  std::string out_path;
  OverlaidCall call;
  bool as_json = false;
};

MergedTrace merge_files(const CommandLine& line) {
  std::vector<TraceText> texts;
  for (const std::string& path : line.paths) texts.push_back({path, read_text(path)});
  std::optional<TraceText> overlaid;
  if (!line.foreseen_path.empty()) overlaid = TraceText{line.foreseen_path, read_text(line.foreseen_path)};
  MergedTrace merged = merge_traces(texts, overlaid, line.call);
  constexpr std::size_t kMostNotes = 10;
  for (std::size_t i = 0; i < std::min(merged.notes.size(), kMostNotes); ++i)
    std::fprintf(stderr, "sccl trace: %s\n", merged.notes[i].c_str());
  if (merged.notes.size() > kMostNotes)
    std::fprintf(stderr, "sccl trace: and %zu lines more of this kind\n", merged.notes.size() - kMostNotes);
  return merged;
}

int merge(const CommandLine& line) {
  const MergedTrace merged = merge_files(line);
  write_text(line.out_path, merged.text);
  std::printf("%s: %zu events of %zu processes; open it in ui.perfetto.dev or chrome://tracing\n",
              line.out_path.c_str(), merged.slices, merged.processes);
  return kOk;
}

// As sccl perf --arrival file=PATH reads it.
std::string delays_text(const TracedArrivals& traced) {
  std::string text = fmt::format("# delays of ranks 0 to {} in us, a line for each call of communicator {}\n",
                                 traced.ranks - 1, traced.communicator);
  for (const std::vector<double>& call : traced.delays_us) text += fmt::format("{:.1f}\n", fmt::join(call, " "));
  return text;
}

nlohmann::json describe(const TracedArrivals& traced) {
  nlohmann::json ranks = nlohmann::json::array();
  for (std::size_t rank = 0; rank < traced.last.size(); ++rank)
    ranks.push_back(
        {{"rank", rank}, {"last", traced.last[rank].calls}, {"behind_us", traced.last[rank].mean_behind_us()}});
  return {{"communicator", traced.communicator},
          {"calls", traced.delays_us.size()},
          {"incomplete", traced.incomplete},
          {"ranks", std::move(ranks)},
          {"text", traced.text()}};
}

int arrivals(const CommandLine& line) {
  const auto events = nlohmann::json::parse(merge_files(line).text);
  std::vector<TracedArrivals> all = traced_arrivals(events);
  if (!line.call.communicator.empty())
    std::erase_if(all, [&](const TracedArrivals& one) { return one.communicator != line.call.communicator; });
  if (all.empty()) {
    std::fputs("sccl trace: no call of a communicator is in these traces: give those of all its ranks\n", stderr);
    return kBadUsage;
  }
  if (!line.out_path.empty() && all.size() > 1) {
    std::fprintf(stderr, "sccl trace: --out takes one communicator of %zu: name it with --communicator\n", all.size());
    return kBadUsage;
  }
  if (!line.out_path.empty()) write_text(line.out_path, delays_text(all.front()));
  nlohmann::json told = nlohmann::json::array();
  for (const TracedArrivals& one : all) {
    told.push_back(describe(one));
    if (line.as_json) continue;
    std::printf("communicator %s: %s\n", one.communicator.c_str(), one.text().c_str());
    if (one.incomplete > 0) std::printf("  %zu calls are not in all ranks' traces\n", one.incomplete);
  }
  if (line.as_json) std::puts(told.dump(2).c_str());
  return kOk;
}

}  // namespace

int trace(int argc, char** argv) {
  CLI::App app("Works on traces that SCCL_TRACE and sccl simulate --trace write.", "sccl trace");
  app.require_subcommand(1);
  CommandLine line;
  CLI::App& merging = *app.add_subcommand("merge", "make one trace of those of a job's processes");
  merging.add_option("FILES", line.paths, "traces of the job's processes")->required();
  CLI::Option* const foreseen =
      merging.add_option("--foreseen", line.foreseen_path, "lay this trace of sccl simulate over a call");
  merging.add_option("--call", line.call.number, "the call it is laid over, by its number on its communicator")
      ->needs(foreseen);
  merging.add_option("--communicator", line.call.communicator, "of that call, as its events name it; without it any")
      ->needs(foreseen);
  merging.add_option("--out", line.out_path, "the file to write")->required();
  CLI::App& telling = *app.add_subcommand("arrivals", "tell which rank enters calls last, how often and by how much");
  telling.add_option("FILES", line.paths, "traces of the job's processes")->required();
  telling.add_option("--communicator", line.call.communicator, "only this one, as its calls name it");
  telling.add_option("--out", line.out_path, "write the ranks' delays, for sccl perf --arrival file=PATH");
  telling.add_flag("--json", line.as_json, "print JSON");
  try {
    parse(app, argc, argv);
    if (!line.foreseen_path.empty() && line.call.number == 0) throw CLI::RequiredError("--call");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  return telling.parsed() ? arrivals(line) : merge(line);
}

}  // namespace sccl::tools
