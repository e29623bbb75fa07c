// Finds a plugin's file and the table that it exports.
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <mutex>

#include "net/plugin/engine.h"

namespace sccl::net::plugin {
namespace {

constexpr const char* kStaticPlugin = "STATIC_PLUGIN";
constexpr const char* kNone = "none";

// The newest version wins, as in NCCL.
std::shared_ptr<const Table> newest_table(void* library, const std::string& path, std::string& why) {
  for (int version = abi::kNewestVersion; version >= abi::kOldestVersion; --version) {
    const void* symbol = dlsym(library, fmt::format("ncclNetPlugin_v{}", version).c_str());
    if (!symbol) continue;
    if (std::unique_ptr<Table> table = adapt(version, symbol)) return table;
    why = fmt::format("{} exports ncclNetPlugin_v{} with functions missing", path, version);
    return nullptr;
  }
  why = fmt::format("{} exports none of ncclNetPlugin_v{} to v{}", path, abi::kOldestVersion, abi::kNewestVersion);
  return nullptr;
}

bool names_a_file(const std::string& item) {
  return item.find('/') != std::string::npos || (item.starts_with("lib") && item.ends_with(".so"));
}

void* open_library(const std::string& item, std::string& path, std::string& why) {
  if (item == kStaticPlugin) {
    path = "the program";
    return dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
  }
  path = item;
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  why = dlerror();
  if (names_a_file(item)) return nullptr;
  path = "libnccl-net-" + item + ".so";
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  why = dlerror();
  return nullptr;
}

}  // namespace

std::vector<std::string> items(const std::string& setting) {
  if (setting.empty()) return {"libnccl-net.so"};
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin <= setting.size();) {
    const std::size_t end = std::min(setting.find(',', begin), setting.size());
    const std::string item = setting.substr(begin, end - begin);
    if (item == kNone) break;  // items after it are not tried, either
    if (!item.empty()) result.push_back(item);
    begin = end + 1;
  }
  return result;
}

std::shared_ptr<const Loaded> load(const std::string& item, std::string& why) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Loaded>> loaded;  // for the life of the process
  const std::lock_guard lock(mutex);
  if (const auto known = loaded.find(item); known != loaded.end()) return known->second;
  std::string path;
  void* library = open_library(item, path, why);
  if (!library) return nullptr;
  std::shared_ptr<const Table> table = newest_table(library, path, why);
  if (!table) return nullptr;  // the file stays open: its initialisers may have started something
  auto result = std::make_shared<const Loaded>(Loaded{path, std::move(table)});
  loaded.emplace(item, result);
  return result;
}

}  // namespace sccl::net::plugin
