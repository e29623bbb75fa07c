// Finds and opens plugins for NCCL. Tries the same names, suffixes and paths as NCCL's loader, in the same order.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace sccl::runtime {

// A plugin kind: its prefix and its variable.
struct PluginKind {
  const char* prefix;    // "libnccl-tuner"
  const char* variable;  // "NCCL_TUNER_PLUGIN"
};
inline constexpr PluginKind kTunerPlugin{"libnccl-tuner", "NCCL_TUNER_PLUGIN"};
inline constexpr PluginKind kProfilerPlugin{"libnccl-profiler", "NCCL_PROFILER_PLUGIN"};

class PluginLibrary {
 public:
  // Opens the library that the variable names. "none": no library. STATIC_PLUGIN: the program itself. Other values: the
  // value as a path or name, then PREFIX-VALUE.so. No value: PREFIX.so. If none of these exists, the library of the
  // network plugin (NCCL_NET_PLUGIN) is opened, which may hold the symbols, too. Returns null if there is no library;
  // logs one line at WARN if the user has named a library that is not used.
  static std::shared_ptr<PluginLibrary> open(const PluginKind& kind);

  ~PluginLibrary();
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;

  // Null when the library has no such symbol.
  void* find(const std::string& symbol) const;
  const std::string& name() const { return name_; }
  // The user has named the library, so problems with it are logged at WARN.
  bool asked_for() const { return asked_for_; }

 private:
  PluginLibrary(void* handle, std::string name, bool asked_for)
      : handle_(handle), name_(std::move(name)), asked_for_(asked_for) {}
  static std::shared_ptr<PluginLibrary> open_named(const char* prefix, const std::string& name, std::string& why);

  void* handle_;
  std::string name_;
  bool asked_for_;
};

// Logs a problem with a plugin: at WARN if the user has named the plugin, else at INFO.
void tell_plugin(const PluginLibrary& library, std::string_view text);

// The function through which plugins log, with NCCL's levels and subsystems and printf's format. Never throws.
using PluginLogger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);
PluginLogger plugin_logger();

}  // namespace sccl::runtime
