// Finding and opening the plugins that NCCL's users have: by the names, suffixes and paths that NCCL's own loader
// tries, in its order.
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
  // The library that the variable names: nothing with "none"; the program itself with STATIC_PLUGIN; else the value as
  // a path or name, then PREFIX-VALUE.so; without a value PREFIX.so. Where none of these is there, the library of the
  // network plugin (NCCL_NET_PLUGIN) may hold the symbols as well. Null when there is none; one line at WARN when the
  // user has named one.
  static std::shared_ptr<PluginLibrary> open(const PluginKind& kind);

  ~PluginLibrary();
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;

  // Null when the library has no such symbol.
  void* find(const std::string& symbol) const;
  const std::string& name() const { return name_; }
  // The user has named it, so that what is wrong with it is told at WARN.
  bool asked_for() const { return asked_for_; }

 private:
  PluginLibrary(void* handle, std::string name, bool asked_for)
      : handle_(handle), name_(std::move(name)), asked_for_(asked_for) {}
  static std::shared_ptr<PluginLibrary> open_named(const char* prefix, const std::string& name, std::string& why);

  void* handle_;
  std::string name_;
  bool asked_for_;
};

// Says what is wrong with a plugin: at WARN where the user has named it, else at INFO.
void tell_plugin(const PluginLibrary& library, std::string_view text);

// What plugins log with: NCCL's levels and subsystems, printf's format. Throws nothing.
using PluginLogger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);
PluginLogger plugin_logger();

}  // namespace sccl::runtime
