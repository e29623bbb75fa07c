// Parses a verb's command line, and refuses what CLI11 takes for a number: an empty text for 0, "nan", which no
// range excludes, and numbers that are not decimal.
#pragma once

#include <CLI/CLI.hpp>

namespace sccl::tools {

// Throws CLI::ParseError; the error names the option and the value.
void parse(CLI::App& app, int argc, char** argv);

}  // namespace sccl::tools
