// NCCL-style log lines: "host:pid:tid [-] NCCL INFO text", by NCCL_DEBUG, NCCL_DEBUG_FILE and NCCL_DEBUG_SUBSYS.
// Nothing is opened or printed before the first line that passes the filter.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sccl::log {

// NCCL's numbers: a setting prints its own level and all lower levels. No line has the level abort.
enum class Level : int { none = 0, version = 1, warn = 2, info = 3, abort = 4, trace = 5 };

enum class Subsystem : unsigned {
  init = 1u << 0,
  coll = 1u << 1,
  p2p = 1u << 2,
  shm = 1u << 3,
  net = 1u << 4,
  graph = 1u << 5,
  tuning = 1u << 6,
  env = 1u << 7,
  alloc = 1u << 8,
  call = 1u << 9,
  bootstrap = 1u << 12,
  all = ~0u,
};

namespace detail {

// The filter in one word: the level above the bits of the subsystems. Zero: the settings are not parsed yet.
constexpr int kLevelShift = 32;
constexpr std::uint64_t kLevelMask = 0xff;
extern constinit std::atomic<std::uint64_t> filter;
std::uint64_t parse_filter();

inline std::uint64_t current_filter() {
  const std::uint64_t word = filter.load(std::memory_order_relaxed);  // reads parse_filter's or reset's store
  return word != 0 ? word : parse_filter();
}

inline bool level_passes(std::uint64_t word, Level level) {
  return static_cast<int>(word >> kLevelShift & kLevelMask) >= static_cast<int>(level);
}

}  // namespace detail

// Inline: a repeated call asks this several times, and nearly always for a line that is not printed.
inline bool enabled(Level level, Subsystem subsystem) {
  const std::uint64_t word = detail::current_filter();
  return detail::level_passes(word, level) && (word & static_cast<unsigned>(subsystem)) != 0;
}
// NCCL_DEBUG is set, to whatever level: the user decides what is printed.
bool is_configured();
// The subsystems that NCCL_DEBUG_SUBSYS selects, as bits.
std::uint64_t subsystem_mask();

// Writes one line; also remembered as the last error's text when `level` is warn.
void write(Level level, std::string_view text);
void write_alert(std::string_view text);

template <typename... Args>
void info(Subsystem subsystem, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info, subsystem)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void trace(Subsystem subsystem, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::trace, subsystem)) write(Level::trace, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warn, fmt::format(format, std::forward<Args>(args)...));
}

// Printed at the default setting, too: without this line a program that hangs for ever would print nothing. Silent if
// NCCL_DEBUG is set to a level below WARN.
template <typename... Args>
void alert(fmt::format_string<Args...> format, Args&&... args) {
  write_alert(fmt::format(format, std::forward<Args>(args)...));
}

// The text ncclGetLastError returns: the last warning or error of the process, never cleared. The pointer stays
// valid for the life of the process; the text behind it changes with the next error.
const char* last_error();
void set_last_error(std::string_view text);

// Forgets the parsed settings, so that the next line reads the environment again.
void reset();

}  // namespace sccl::log
