// The one table of environment variables: every variable the library reads or recognises, with its meaning.
// `sccl env` and docs/env.md are generated from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sccl::env {

// What the library does with a variable that is set.
enum class Handling : std::uint8_t { honoured, bounded, ignored };

struct Variable {
  std::string_view name;      // "NCCL_DEBUG"
  std::string_view values;    // "VERSION|WARN|INFO|TRACE"
  std::string_view fallback;  // the default, in words
  Handling handling;
  std::string_view meaning;
};

// A value as logs and tools may show it: a secret is hidden.
std::string_view shown(std::string_view name, std::string_view value);

std::span<const Variable> table();
const Variable* find(std::string_view name);

struct Value {
  std::string text;
  std::string origin;  // "environment", or the path of a configuration file
};

// The value of a variable of the table; nothing when unset or empty. The environment, even an empty value in it, wins
// over the configuration files (conf_file.h). A name that is not in the table is a programming error and throws
// internal_error.
std::optional<Value> value(std::string_view name);
std::optional<std::string> text(std::string_view name);

// The kind of value according to `values`: a whole number, or text.
enum class Kind : std::uint8_t { text, number };
Kind kind(const Variable& variable);

// As text(), but parsed. A value that is no number, or is outside [low, high], is reported once at WARN with the
// default that is used instead, which `told` describes if it is no single number.
std::int64_t number(std::string_view name, std::int64_t fallback, std::int64_t low, std::int64_t high,
                    const std::string& told = "");
bool flag(std::string_view name, bool fallback);

// The text of docs/env.md.
std::string markdown();

// Once per process: an INFO line for each NCCL_* or SCCL_* variable that is set in the environment or in a file
// (honoured, bounded, ignored or unknown), and one for each line of a file that is not used.
void report_once();

}  // namespace sccl::env
