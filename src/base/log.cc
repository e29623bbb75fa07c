// Settings are parsed at the first line that might be printed and published through one atomic word, so that a
// disabled line costs one load.
#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/env.h"

namespace sccl::log {
namespace {

struct SubsystemName {
  std::string_view name;
  unsigned bits;
};

constexpr SubsystemName kSubsystems[] = {
    {"INIT", 1u << 0},  {"COLL", 1u << 1},  {"P2P", 1u << 2},        {"SHM", 1u << 3},   {"NET", 1u << 4},
    {"GRAPH", 1u << 5}, {"TUNING", 1u << 6}, {"ENV", 1u << 7},       {"ALLOC", 1u << 8}, {"CALL", 1u << 9},
    {"PROXY", 0},       {"NVLS", 0},        {"BOOTSTRAP", 1u << 12}, {"REG", 0},         {"PROFILE", 0},
    {"RAS", 0},         {"ALL", ~0u},
};
constexpr unsigned kDefaultSubsystems = 1u << 0 | 1u << 7 | 1u << 12;  // INIT, ENV, BOOTSTRAP

std::string upper(std::string_view text) {
  std::string result;
  for (const char letter : text) result += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return result;
}

Level parse_level(const std::string& text) {
  const std::string level = upper(text);
  if (level == "VERSION") return Level::version;
  if (level == "WARN" || level == "ABORT") return Level::warn;
  if (level == "INFO") return Level::info;
  if (level == "TRACE") return Level::trace;
  return Level::none;
}

// "INIT,COLL" selects, "^TUNING" selects all but these.
unsigned parse_subsystems(std::string_view list) {
  const bool all_but = !list.empty() && list.front() == '^';
  if (all_but) list.remove_prefix(1);
  unsigned bits = 0;
  while (!list.empty()) {
    const std::size_t end = list.find(',');
    const std::string name = upper(list.substr(0, end));
    for (const SubsystemName& subsystem : kSubsystems)
      if (subsystem.name == name) bits |= subsystem.bits;
    list = end == std::string_view::npos ? std::string_view{} : list.substr(end + 1);
  }
  return all_but ? ~bits : bits;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  const std::string full = name.data();
  return full.substr(0, full.find('.'));
}

std::string expand_path(const std::string& pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h')
      path += host_name();
    else if (next == 'p')
      path += std::to_string(::getpid());
    else if (next == '%')
      path += '%';
    else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

spdlog::sink_ptr make_sink() {
  const auto path = env::text("NCCL_DEBUG_FILE");
  if (path) {
    try {
      return std::make_shared<spdlog::sinks::basic_file_sink_mt>(expand_path(*path));
    } catch (const spdlog::spdlog_ex& error) {
      std::fprintf(stdout, "NCCL_DEBUG_FILE=%s cannot be opened (%s): logging to standard output\n", path->c_str(),
                   error.what());
    }
  }
  return std::make_shared<spdlog::sinks::stdout_sink_mt>();
}

// What the filter decides by, in one word: level in the high half, subsystems in the low. Zero: not parsed yet.
constexpr std::uint64_t kParsed = std::uint64_t{1} << 63;

// Constant-initialised, never destroyed: usable at any time of the process's life.
constinit std::atomic<std::uint64_t> filter{0};
constinit std::atomic<spdlog::logger*> logger{nullptr};
constinit std::mutex mutex;

std::uint64_t parsed_filter() {
  std::uint64_t word = filter.load(std::memory_order_acquire);  // pairs with the store below
  if (word != 0) return word;
  const auto level = static_cast<std::uint64_t>(parse_level(env::text("NCCL_DEBUG").value_or("")));
  const auto subsystems = env::text("NCCL_DEBUG_SUBSYS");
  const std::uint64_t bits = subsystems ? parse_subsystems(*subsystems) : kDefaultSubsystems;
  word = kParsed | level << 32 | bits;
  filter.store(word, std::memory_order_release);
  return word;
}

Level current_level() { return static_cast<Level>(parsed_filter() >> 32 & 0xff); }

// Made at the first printed line and never destroyed.
spdlog::logger& current_logger() {
  if (auto* made = logger.load(std::memory_order_acquire)) return *made;  // pairs with the store below
  const std::lock_guard lock(mutex);
  if (auto* made = logger.load(std::memory_order_relaxed)) return *made;
  auto* made = new spdlog::logger("sccl", make_sink());
  made->set_pattern("%v");
  made->flush_on(spdlog::level::info);
  logger.store(made, std::memory_order_release);
  return *made;
}

// The last error's text. Readers hold no lock and may keep the pointer, so a text is written into the buffer whose turn
// it is; a reader sees torn text only when as many errors happen while it reads.
constexpr std::size_t kErrorBytes = 1024;
constexpr std::size_t kErrorBuffers = 16;
constinit std::array<std::array<std::atomic<char>, kErrorBytes>, kErrorBuffers> error_buffers{};
constinit std::atomic<std::size_t> error_turn{0};
static_assert(sizeof(std::atomic<char>) == 1);

}  // namespace

bool enabled(Level level, Subsystem subsystem) {
  const std::uint64_t word = parsed_filter();
  return static_cast<int>(word >> 32 & 0xff) >= static_cast<int>(level) &&
         (word & static_cast<unsigned>(subsystem)) != 0;
}

void write(Level level, std::string_view text) {
  if (level == Level::warn) set_last_error(text);
  if (static_cast<int>(current_level()) < static_cast<int>(level)) return;
  const char* name = level == Level::warn ? "WARN" : level == Level::trace ? "TRACE" : "INFO";
  static const std::string* const host = new std::string(host_name());
  current_logger().info("{}:{}:{} [-] NCCL {} {}", *host, ::getpid(), ::syscall(SYS_gettid), name, text);
}

const char* last_error() {
  const std::size_t turn = error_turn.load(std::memory_order_acquire);  // pairs with set_last_error
  return reinterpret_cast<const char*>(error_buffers[turn % kErrorBuffers].data());
}

void set_last_error(std::string_view text) {
  const std::lock_guard lock(mutex);
  const std::size_t turn = error_turn.load(std::memory_order_relaxed) + 1;
  auto& buffer = error_buffers[turn % kErrorBuffers];
  const std::size_t length = std::min(text.size(), kErrorBytes - 1);
  for (std::size_t i = 0; i < length; ++i) buffer[i].store(text[i], std::memory_order_relaxed);
  buffer[length].store('\0', std::memory_order_relaxed);
  error_turn.store(turn, std::memory_order_release);  // pairs with last_error
}

void reset() {
  const std::lock_guard lock(mutex);
  filter.store(0, std::memory_order_release);
  // The old logger stays: another thread may be writing through it.
  logger.store(nullptr, std::memory_order_release);
}

}  // namespace sccl::log
