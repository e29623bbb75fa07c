// The first line parses the settings into one atomic word, so that a suppressed line costs one load. The first printed
// line opens the output.
#include "base/settings/log.h"

#include <fmt/ranges.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/settings/env.h"
#include "base/settings/name_list.h"
#include "base/settings/nearest_word.h"
#include "base/settings/path_pattern.h"

namespace sccl::log {
namespace {

struct SubsystemName {
  std::string_view name;
  unsigned bits;
};

constexpr unsigned bits(Subsystem subsystem) { return static_cast<unsigned>(subsystem); }

// NCCL's list. A subsystem that this library lacks selects nothing, and is not reported as an error.
constexpr SubsystemName kSubsystems[] = {
    {"INIT", bits(Subsystem::init)},
    {"COLL", bits(Subsystem::coll)},
    {"P2P", bits(Subsystem::p2p)},
    {"SHM", bits(Subsystem::shm)},
    {"NET", bits(Subsystem::net)},
    {"GRAPH", bits(Subsystem::graph)},
    {"TUNING", bits(Subsystem::tuning)},
    {"ENV", bits(Subsystem::env)},
    {"ALLOC", bits(Subsystem::alloc)},
    {"CALL", bits(Subsystem::call)},
    {"PROXY", 0},
    {"NVLS", 0},
    {"BOOTSTRAP", bits(Subsystem::bootstrap)},
    {"REG", 0},
    {"PROFILE", 0},
    {"RAS", 0},
    {"ALL", bits(Subsystem::all)},
};
constexpr unsigned kDefaultSubsystems = bits(Subsystem::init) | bits(Subsystem::bootstrap) | bits(Subsystem::env);

std::string upper(std::string_view text) {
  std::string result;
  for (const char letter : text) result += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return result;
}

constexpr std::array<std::string_view, 5> kLevelNames{"VERSION", "WARN", "INFO", "ABORT", "TRACE"};  // by number from 1

std::optional<Level> parse_level(const std::string& text) {
  const auto at = std::find(kLevelNames.begin(), kLevelNames.end(), upper(text));
  if (at == kLevelNames.end()) return std::nullopt;
  return static_cast<Level>(1 + (at - kLevelNames.begin()));
}

// "INIT,COLL" selects these; "^TUNING" selects all others.
unsigned parse_subsystems(std::string_view list, std::vector<std::string>& unknown) {
  const bool all_but = take_mark(list, '^');
  unsigned selected = 0;
  for (const std::string_view item : list_items(list, ',')) {
    const std::string name = upper(item);
    const auto* const known = std::find_if(std::begin(kSubsystems), std::end(kSubsystems),
                                           [&](const SubsystemName& subsystem) { return subsystem.name == name; });
    if (known != std::end(kSubsystems))
      selected |= known->bits;
    else if (!name.empty())
      unknown.push_back(name);
  }
  return all_but ? ~selected : selected;
}

// NCCL's format. "-" stands in place of the device number, because a line may belong to no device. A version line has
// no prefix.
std::string line(Level level, std::string_view text) {
  if (level == Level::version) return std::string(text);
  const char* name = level == Level::warn ? "WARN" : level == Level::trace ? "TRACE" : "INFO";
  static const std::string* const host = new std::string(short_host_name());
  // Looked up for every line: a forked child is another process.
  return fmt::format("{}:{}:{} [-] NCCL {} {}", *host, ::getpid(), ::syscall(SYS_gettid), name, text);
}

// Destination of lines. Never destroyed, because another thread may be writing to it; reset() retires it.
struct Output {
  explicit Output(spdlog::sink_ptr sink, Output* older) : logger("sccl", std::move(sink)), previous(older) {
    logger.set_pattern("%v");
    logger.flush_on(spdlog::level::info);
  }
  spdlog::logger logger;
  Output* const previous;  // keeps retired outputs reachable for leak checkers
};

// Constant-initialised, never destroyed: usable at any time of the process's life.
constinit std::mutex mutex;
constinit std::atomic<Output*> current{nullptr};
constinit Output* newest = nullptr;  // guarded by mutex

Output* make_output(spdlog::sink_ptr sink) { return newest = new Output(std::move(sink), newest); }

Output* open_output() {
  const auto pattern = env::text("NCCL_DEBUG_FILE");
  if (!pattern) return make_output(std::make_shared<spdlog::sinks::stdout_sink_mt>());
  const std::string path = expand_path(*pattern);
  try {
    return make_output(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
  } catch (const spdlog::spdlog_ex& error) {
    Output* const instead = make_output(std::make_shared<spdlog::sinks::stdout_sink_mt>());
    instead->logger.info(line(Level::warn, fmt::format("NCCL_DEBUG_FILE={} cannot be opened ({}): "
                                                       "logging to standard output instead",
                                                       path, error.what())));
    return instead;
  }
}

// Opened by the first line that is printed.
spdlog::logger& current_logger() {
  if (auto* output = current.load(std::memory_order_acquire)) return output->logger;  // pairs with the store below
  const std::lock_guard lock(mutex);
  // The lock orders this load after an opening by any other thread.
  if (auto* output = current.load(std::memory_order_relaxed)) return output->logger;
  Output* const output = open_output();
  current.store(output, std::memory_order_release);  // pairs with the load above
  return output->logger;
}

using detail::current_filter;
using detail::filter;
using detail::kLevelShift;
using detail::level_passes;

std::optional<std::string> asked_level() { return env::text("NCCL_DEBUG"); }

constexpr std::uint64_t kParsed = std::uint64_t{1} << 63;

// Reports unknown words in NCCL_DEBUG and NCCL_DEBUG_SUBSYS, one line each. An unknown level does not silence these
// lines.
void tell_unknown(const std::optional<std::string>& level, const std::vector<std::string>& subsystems) {
  if (level)
    current_logger().info(
        line(Level::warn,
             fmt::format("NCCL_DEBUG={} is not known: the nearest level is {}, and all are {}; nothing is logged",
                         *level, nearest_word(*level, kLevelNames), fmt::join(kLevelNames, ", "))));
  std::vector<std::string_view> names;
  for (const SubsystemName& subsystem : kSubsystems) names.push_back(subsystem.name);
  for (const std::string& name : subsystems)
    write(Level::warn, fmt::format("NCCL_DEBUG_SUBSYS: {} is no subsystem: the nearest one is {}, and all are {}; it "
                                   "selects nothing",
                                   name, nearest_word(name, names), fmt::join(names, ", ")));
}

// The last error's text. A reader takes no lock and may keep its pointer for ever, so buffers are never freed. Each
// text goes to the next buffer in turn, and is published when it is complete. A reader's buffer is overwritten only by
// the kErrorBuffers-th error after it. If the reader still reads then, it sees parts of two texts but stays inside the
// buffer: the last byte of each buffer is always zero.
constexpr std::size_t kErrorBytes = 1024;
constexpr std::size_t kErrorBuffers = 16;
constinit std::array<std::array<std::atomic<char>, kErrorBytes>, kErrorBuffers> error_buffers{};
constinit std::atomic<std::size_t> error_turn{0};
static_assert(sizeof(std::atomic<char>) == 1);

}  // namespace

namespace detail {

constinit std::atomic<std::uint64_t> filter{0};

std::uint64_t parse_filter() {
  std::uint64_t word = 0;
  std::optional<std::string> unknown_level;
  std::vector<std::string> unknown_subsystems;
  {
    // The lock ensures that settings read before a reset() are not stored after it.
    const std::lock_guard lock(mutex);
    const auto text = asked_level();
    const auto level = text ? parse_level(*text) : Level::none;
    if (!level) unknown_level = text;
    const auto list = env::text("NCCL_DEBUG_SUBSYS");
    const std::uint64_t subsystems = list ? parse_subsystems(*list, unknown_subsystems) : kDefaultSubsystems;
    word = kParsed | static_cast<std::uint64_t>(level.value_or(Level::none)) << kLevelShift | subsystems;
    // Several threads may parse for their first line; only the first one to store reports.
    const bool first = filter.load(std::memory_order_relaxed) == 0;
    filter.store(word, std::memory_order_relaxed);  // the word publishes no other data: no order needed
    if (!first) return word;
  }
  tell_unknown(unknown_level, unknown_subsystems);
  return word;
}

}  // namespace detail

bool is_configured() { return asked_level().has_value(); }

std::uint64_t subsystem_mask() { return current_filter() & bits(Subsystem::all); }

void write(Level level, std::string_view text) {
  if (level == Level::warn) set_last_error(text);
  if (level_passes(current_filter(), level)) current_logger().info(line(level, text));
}

void write_alert(std::string_view text) {
  set_last_error(text);
  if (level_passes(current_filter(), Level::warn) || !is_configured()) current_logger().info(line(Level::warn, text));
}

const char* last_error() {
  const std::size_t turn = error_turn.load(std::memory_order_acquire);  // pairs with set_last_error
  return reinterpret_cast<const char*>(error_buffers[turn % kErrorBuffers].data());
}

void set_last_error(std::string_view text) {
  const std::lock_guard lock(mutex);
  const std::size_t turn = error_turn.load(std::memory_order_relaxed) + 1;  // written under the lock only
  auto& buffer = error_buffers[turn % kErrorBuffers];
  const std::size_t length = std::min(text.size(), kErrorBytes - 1);
  // The store of error_turn publishes all of them together.
  for (std::size_t i = 0; i < length; ++i) buffer[i].store(text[i], std::memory_order_relaxed);
  buffer[length].store('\0', std::memory_order_relaxed);
  error_turn.store(turn, std::memory_order_release);  // pairs with last_error
}

void reset() {
  const std::lock_guard lock(mutex);
  filter.store(0, std::memory_order_relaxed);         // read by current_filter
  current.store(nullptr, std::memory_order_relaxed);  // nothing to publish
}

}  // namespace sccl::log
