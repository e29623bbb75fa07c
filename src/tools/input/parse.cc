#include "tools/input/parse.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "tools/input/decimal.h"

namespace sccl::tools {
namespace {

bool has_type(const CLI::Option& option, const char* type) { return option.get_type_name().rfind(type, 0) == 0; }

// CLI11 reads 0x10 as 16 and 010 as 8.
bool is_decimal(const std::string& text, bool real) {
  const std::size_t first = text.find_first_not_of("+-");
  const bool octal = !real && first != std::string::npos && first + 1 < text.size() && text[first] == '0';
  return !octal && !is_hexadecimal(text);
}

void check_numbers(const CLI::Option& option) {
  const bool real = has_type(option, "FLOAT");
  if (!real && !has_type(option, "INT") && !has_type(option, "UINT")) return;
  for (const std::string& text : option.results()) {
    if (text.empty() || (real && !std::isfinite(std::strtod(text.c_str(), nullptr))))
      throw CLI::ValidationError(option.get_name(), "'" + text + "' is no number: give one, or leave the option out");
    if (!is_decimal(text, real))
      throw CLI::ValidationError(option.get_name(), "'" + text + "' is no decimal number: write it as in 16");
  }
}

}  // namespace

void parse(CLI::App& app, int argc, char** argv) {
  app.parse(argc, argv);
  for (const CLI::Option* const option : app.get_options()) check_numbers(*option);
  for (const CLI::App* const part : app.get_subcommands())
    for (const CLI::Option* const option : part->get_options()) check_numbers(*option);
}

}  // namespace sccl::tools
