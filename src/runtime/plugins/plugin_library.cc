#include "runtime/plugins/plugin_library.h"

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <set>

#include "base/os/plugin_file.h"
#include "base/settings/env.h"
#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

constexpr PluginKind kNetPlugin{"libnccl-net", "NCCL_NET_PLUGIN"};
constexpr std::size_t kMostLineBytes = 1024;

// Libraries that were not found: NCCL does not search for them again, either. Held while one rank searches, so that of
// several ranks in a process one tells what is wrong.
struct Absent {
  std::mutex mutex;
  std::set<std::string> keys;
};

Absent& absent() {
  static Absent* const instance = new Absent;
  return *instance;
}

__attribute__((format(printf, 5, 6))) void log_of_plugin(int level, unsigned long subsystems, const char* file,
                                                         int line, const char* format, ...) {
  using log::Level;
  try {
    const bool warns = level == static_cast<int>(Level::warn);
    const auto bits = static_cast<log::Subsystem>(static_cast<unsigned>(subsystems));
    const Level shown = level == static_cast<int>(Level::trace) ? Level::trace : Level::info;
    if (level <= static_cast<int>(Level::none) || (!warns && !log::enabled(shown, bits))) return;
    std::array<char, kMostLineBytes> text{};
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    if (warns)
      log::warn("{}:{} {}", file == nullptr ? "plugin" : file, line, text.data());
    else
      log::write(shown, text.data());
  } catch (...) {
    // The line is lost: the plugin is C code, so an exception must not reach it.
  }
}

}  // namespace

PluginLibrary::~PluginLibrary() { ::dlclose(handle_); }

void* PluginLibrary::find(const std::string& symbol) const { return ::dlsym(handle_, symbol.c_str()); }

std::shared_ptr<PluginLibrary> PluginLibrary::open_named(const char* prefix, const std::string& name,
                                                         std::string& why) {
  PluginFile file = open_plugin(prefix, name, why);
  if (file.handle == nullptr) return nullptr;
  return std::shared_ptr<PluginLibrary>(new PluginLibrary(file.handle, std::move(file.path), !name.empty()));
}

std::shared_ptr<PluginLibrary> PluginLibrary::open(const PluginKind& kind) {
  const std::string name = env::text(kind.variable).value_or("");
  if (is_no_plugin(name)) return nullptr;
  const std::string net = env::text(kNetPlugin.variable).value_or("");
  const std::string key = fmt::format("{} {} {}", kind.prefix, name, net);
  const std::lock_guard lock(absent().mutex);
  if (absent().keys.count(key) > 0) return nullptr;
  std::string why;
  if (auto found = open_named(kind.prefix, name, why)) return found;
  std::string why_not_net;
  std::shared_ptr<PluginLibrary> shared;
  if (!is_no_plugin(net)) shared = open_named(kNetPlugin.prefix, net, why_not_net);
  if (shared) shared->asked_for_ = false;
  if (!name.empty())
    log::warn("{}={} is not used: {}: give the path of the plugin, the suffix of {}-SUFFIX.so, or none", kind.variable,
              name, why, kind.prefix);
  if (!shared) absent().keys.insert(key);
  return shared;
}

void tell_plugin(const PluginLibrary& library, std::string_view text) {
  if (library.asked_for())
    log::warn("plugin {} {}", library.name(), text);
  else
    log::info(log::Subsystem::init, "plugin {} {}", library.name(), text);
}

PluginLogger plugin_logger() { return log_of_plugin; }

}  // namespace sccl::runtime
