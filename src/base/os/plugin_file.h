// Opens the shared object of a plugin: NCCL's users name network, tuner and profiler plugins in the same ways.
#pragma once

#include <string>
#include <string_view>

namespace sccl {

struct PluginFile {
  void* handle = nullptr;  // of dlopen; null: there is no such plugin
  std::string path;        // for texts; "the program" where the program itself holds the plugin
};

// `name` is a path, a file's name, or the suffix of PREFIX-SUFFIX.so; STATIC_PLUGIN is the program itself; an empty one
// is PREFIX.so. Tried in NCCL's order. What was tried in vain is appended to `why`, separated by semicolons.
PluginFile open_plugin(std::string_view prefix, const std::string& name, std::string& why);

// "none", in any case: the user wants no plugin.
bool is_no_plugin(const std::string& name);

}  // namespace sccl
