// sccl env: the table of environment variables, as text, Markdown or JSON.
#include "base/settings/env.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/input/parse.h"
#include "tools/verbs/verbs.h"

namespace sccl::tools {
namespace {

const char* handling(env::Handling handling) {
  return handling == env::Handling::honoured ? "honoured" : handling == env::Handling::bounded ? "bounded" : "ignored";
}

void print_json() {
  nlohmann::json list = nlohmann::json::array();
  for (const env::Variable& variable : env::table())
    list.push_back({{"name", variable.name},
                    {"values", variable.values},
                    {"default", variable.fallback},
                    {"handling", handling(variable.handling)},
                    {"meaning", variable.meaning}});
  std::puts(list.dump(2).c_str());
}

void print_text() {
  for (const env::Variable& variable : env::table()) {
    const std::string name(variable.name);
    const auto value = env::value(name);
    const std::string now =
        value ? "  now: " + std::string(env::shown(name, value->text)) + " (" + value->origin + ")" : "";
    std::printf("%-32s %-9s %s (default: %s)%s\n", name.c_str(), handling(variable.handling),
                std::string(variable.meaning).c_str(), std::string(variable.fallback).c_str(), now.c_str());
  }
}

}  // namespace

int env(int argc, char** argv) {
  CLI::App app("The environment variables the library knows, and what it does with them.", "sccl env");
  bool as_json = false;
  bool as_markdown = false;
  app.add_flag("--json", as_json, "print JSON");
  app.add_flag("--markdown", as_markdown, "print docs/env.md");
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadUsage;
  }
  if (as_markdown)
    std::fputs(env::markdown().c_str(), stdout);
  else if (as_json)
    print_json();
  else
    print_text();
  return kOk;
}

}  // namespace sccl::tools
