#include "base/os/plugin_file.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <strings.h>

namespace sccl {
namespace {

// A path, or a file name that is complete, gets no prefix.
bool may_be_suffix(const std::string& name) {
  return name.find('/') == std::string::npos && !(name.starts_with("lib") && name.ends_with(".so"));
}

// `path` null: the program itself.
PluginFile try_open(const char* path, std::string& why) {
  if (void* const handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL))
    return {handle, path == nullptr ? "the program" : path};
  const char* const error = ::dlerror();
  why += (why.empty() ? "" : "; ") + (error == nullptr ? std::string(path) + " cannot be opened" : error);
  return {};
}

}  // namespace

PluginFile open_plugin(std::string_view prefix, const std::string& name, std::string& why) {
  if (name.empty()) return try_open(fmt::format("{}.so", prefix).c_str(), why);
  if (::strcasecmp(name.c_str(), "STATIC_PLUGIN") == 0) return try_open(nullptr, why);
  const PluginFile found = try_open(name.c_str(), why);
  if (found.handle != nullptr || !may_be_suffix(name)) return found;
  return try_open(fmt::format("{}-{}.so", prefix, name).c_str(), why);
}

bool is_no_plugin(const std::string& name) { return ::strcasecmp(name.c_str(), "none") == 0; }

}  // namespace sccl
