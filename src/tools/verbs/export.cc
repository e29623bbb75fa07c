// sccl export: a schedule as MSCCL XML, as JSON, or as a picture of its steps.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <map>

#include "base/error.h"
#include "schedule/json.h"
#include "schedule/msccl/msccl_export.h"
#include "schedule/proof/verify.h"
#include "tools/input/parse.h"
#include "tools/input/schedule_file.h"
#include "tools/pictures/steps_picture.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

using Format = std::function<std::string(const schedule::Schedule&)>;

const std::map<std::string, Format>& formats() {
  static const std::map<std::string, Format> all{
      {"msccl-xml", [](const schedule::Schedule& one) { return to_xml(schedule::msccl_from_schedule(one)); }},
      {"json", [](const schedule::Schedule& one) { return schedule::to_json(one).dump() + "\n"; }},
      {"svg", [](const schedule::Schedule& one) { return steps_svg(one); }},
  };
  return all;
}

}  // namespace

int export_schedule(int argc, char** argv) {
  CLI::App app("Converts a schedule. What does not pass sccl verify is not converted.", "sccl export");
  std::string path;
  std::string format;
  std::string out = "-";
  std::vector<std::string> names;
  for (const auto& [name, write] : formats()) names.push_back(name);
  app.add_option("--schedule", path, "schedule (JSON or MSCCL XML)")->required();
  app.add_option("--format", format, "msccl-xml, json, or svg (one panel a step)")
      ->required()
      ->check(CLI::IsMember(names));
  app.add_option("--out", out, "file; - for standard output")->capture_default_str();
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  const schedule::Schedule schedule = schedule_from_file(path);
  std::string text;
  try {
    schedule::verify(schedule);
    text = formats().at(format)(schedule);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), error.what());
    return kNo;
  }
  if (out == "-")
    std::fputs(text.c_str(), stdout);
  else
    write_text(out, text);
  return kOk;
}

}  // namespace sccl::tools
