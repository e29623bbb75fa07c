// sccl verify: is the schedule in a file right, and does the program it is lowered to keep its meaning?
#include "schedule/verify.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "schedule/json.h"
#include "schedule/prepare.h"
#include "tools/verbs.h"

namespace sccl::tools {
namespace {

constexpr int kSlots = 4;  // of a connection of this library

struct Answer {
  int code = kOk;
  std::string text;
};

std::string describe(const schedule::Schedule& schedule) {
  const int rounds = std::accumulate(schedule.rounds.begin(), schedule.rounds.end(), 0);
  return fmt::format("{} on {} ranks, {} chunks, {} steps, {} rounds", info(schedule.collective).name, schedule.ranks,
                     schedule.chunks, schedule.steps, rounds);
}

Answer check_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {kBadUsage, "cannot be opened"};
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '<') return {kBadUsage, "MSCCL XML is not read by this version"};
  try {
    const schedule::Schedule schedule = schedule::schedule_from_json_text(text);
    try {
      schedule::prepare(schedule, kSlots);
      return {kOk, describe(schedule)};
    } catch (const Error& error) {
      return {kNo, error.what()};
    }
  } catch (const Error& error) {
    return {kBadUsage, error.what()};
  }
}

}  // namespace

int verify(int argc, char** argv) {
  CLI::App app("Checks a schedule file: it must compute its collective on its topology.", "sccl verify");
  std::string path;
  bool as_json = false;
  app.add_option("FILE", path, "schedule (JSON)")->required();
  app.add_flag("--json", as_json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  const Answer answer = check_file(path);
  if (as_json)
    std::puts(nlohmann::json{{"file", path}, {"ok", answer.code == kOk}, {"text", answer.text}}.dump().c_str());
  else
    std::fprintf(answer.code == kOk ? stdout : stderr, "%s: %s%s\n", path.c_str(), answer.code == kOk ? "ok, " : "",
                 answer.text.c_str());
  return answer.code;
}

}  // namespace sccl::tools
