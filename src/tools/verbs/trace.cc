// sccl trace merge: merges the traces of a job's processes into one file for a viewer.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "tools/input/schedule_file.h"
#include "tools/traces/merge.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {

int trace(int argc, char** argv) {
  CLI::App app("Works on traces that SCCL_TRACE and sccl simulate --trace write.", "sccl trace");
  app.require_subcommand(1);
  CLI::App& merge = *app.add_subcommand("merge", "make one trace of those of a job's processes");
  std::vector<std::string> paths;
  std::string foreseen_path;
  std::string out_path;
  OverlaidCall call;
  merge.add_option("FILES", paths, "traces of the job's processes")->required();
  CLI::Option* const foreseen =
      merge.add_option("--foreseen", foreseen_path, "lay this trace of sccl simulate over a call");
  merge.add_option("--call", call.number, "the call it is laid over, by its number on its communicator")
      ->needs(foreseen);
  merge.add_option("--communicator", call.communicator, "of that call, as its events name it; without it any")
      ->needs(foreseen);
  merge.add_option("--out", out_path, "the file to write")->required();
  try {
    app.parse(argc, argv);
    if (!foreseen_path.empty() && call.number == 0) throw CLI::RequiredError("--call");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  std::vector<TraceText> texts;
  for (const std::string& path : paths) texts.push_back({path, read_text(path)});
  std::optional<TraceText> overlaid;
  if (!foreseen_path.empty()) overlaid = TraceText{foreseen_path, read_text(foreseen_path)};
  const MergedTrace merged = merge_traces(texts, overlaid, call);
  write_text(out_path, merged.text);
  constexpr std::size_t kMostNotes = 10;
  for (std::size_t i = 0; i < std::min(merged.notes.size(), kMostNotes); ++i)
    std::fprintf(stderr, "sccl trace: %s\n", merged.notes[i].c_str());
  if (merged.notes.size() > kMostNotes)
    std::fprintf(stderr, "sccl trace: and %zu lines more of this kind\n", merged.notes.size() - kMostNotes);
  std::printf("%s: %zu events of %zu processes; open it in ui.perfetto.dev or chrome://tracing\n", out_path.c_str(),
              merged.slices, merged.processes);
  return kOk;
}

}  // namespace sccl::tools
