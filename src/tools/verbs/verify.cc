// sccl verify: is the schedule in a file correct, and does lowering it to a program keep its meaning?
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "schedule/lowering/prepare.h"
#include "schedule/msccl/msccl_import.h"
#include "tools/input/parse.h"
#include "tools/input/schedule_file.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

constexpr int kSlots = 4;  // of a connection in this library

struct Answer {
  int code = kOk;
  std::string text;
  bool names_file = false;  // the text does
};

std::string describe(const schedule::Schedule& schedule) {
  const int rounds = std::accumulate(schedule.rounds.begin(), schedule.rounds.end(), 0);
  return fmt::format("{} on {} ranks, {} chunks, {} steps, {} rounds", info(schedule.collective).name, schedule.ranks,
                     schedule.chunks, schedule.steps, rounds);
}

// A file that cannot be understood is bad input; a file with a wrong meaning gets the answer no.
schedule::Schedule read_schedule(const std::string& text, Answer& answer) {
  answer.code = kBadUsage;
  if (!is_xml(text)) return schedule_from_text(text);
  const schedule::MscclAlgo algo = schedule::msccl_from_xml(text);
  answer.code = kNo;
  return schedule::schedule_from_msccl(algo);
}

Answer check_file(const std::string& path) {
  Answer answer{kBadUsage, "", true};
  try {
    const std::string text = read_text(path);
    answer.names_file = false;
    const schedule::Schedule schedule = read_schedule(text, answer);
    answer.code = kNo;
    schedule::prepare(schedule, kSlots);
    return {kOk, describe(schedule)};
  } catch (const Error& error) {
    answer.text = error.what();
    return answer;
  }
}

}  // namespace

int verify(int argc, char** argv) {
  CLI::App app("Checks a schedule file: it must compute its collective on its topology.", "sccl verify");
  std::string path;
  bool as_json = false;
  app.add_option("FILE", path, "schedule (JSON or MSCCL XML)")->required();
  app.add_flag("--json", as_json, "print JSON");
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  const Answer answer = check_file(path);
  if (as_json)
    std::puts(nlohmann::json{{"file", path}, {"ok", answer.code == kOk}, {"text", answer.text}}.dump().c_str());
  else
    std::fprintf(answer.code == kOk ? stdout : stderr, "%s%s%s\n", answer.names_file ? "" : (path + ": ").c_str(),
                 answer.code == kOk ? "ok, " : "", answer.text.c_str());
  return answer.code;
}

}  // namespace sccl::tools
