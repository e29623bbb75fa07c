#include "tools/input/byte_size.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "tools/input/decimal.h"

namespace sccl::tools {
namespace {

constexpr double kMostBytes = 1e15;

}  // namespace

std::size_t parse_size(const std::string& text) {
  const auto refuse = [&] { throw CLI::ValidationError("'" + text + "' is no size: use 8, 64K, 32M, 2G"); };
  char* suffix = nullptr;
  const double number = std::strtod(text.c_str(), &suffix);
  std::string unit_name(suffix);
  if (unit_name.size() == 2 && (unit_name.back() == 'B' || unit_name.back() == 'b')) unit_name.pop_back();
  double unit = 1;
  if (unit_name == "K" || unit_name == "k")
    unit = 1 << 10;
  else if (unit_name == "M" || unit_name == "m")
    unit = 1 << 20;
  else if (unit_name == "G" || unit_name == "g")
    unit = 1 << 30;
  else if (!unit_name.empty() && unit_name != "B")
    refuse();
  if (is_hexadecimal(text) || suffix == text.c_str() || !(number * unit >= 1) || number * unit > kMostBytes) refuse();
  return static_cast<std::size_t>(number * unit);
}

std::string size_text(double bytes) {
  for (const auto& [unit, name] : {std::pair{1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}})
    if (bytes >= unit) return fmt::format("{:.4g} {}", bytes / unit, name);
  return fmt::format("{:.4g} B", bytes);
}

}  // namespace sccl::tools
