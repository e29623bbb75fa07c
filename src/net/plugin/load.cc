// Finds a plugin's file and the table that it exports.
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <mutex>

#include "base/os/plugin_file.h"
#include "base/settings/name_list.h"
#include "net/plugin/engine.h"

namespace sccl::net::plugin {
namespace {

constexpr const char* kPrefix = "libnccl-net";

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

}  // namespace

std::vector<std::string> items(const std::string& setting) {
  if (setting.empty()) return {std::string(kPrefix) + ".so"};
  std::vector<std::string> result;
  for (const std::string_view part : list_items(setting, ',')) {
    std::string item(part);
    if (is_no_plugin(item)) break;  // items after it are not tried, either
    if (!item.empty()) result.push_back(std::move(item));
  }
  return result;
}

std::shared_ptr<const Loaded> load(const std::string& item, std::string& why) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Loaded>> loaded;  // for the life of the process
  const std::lock_guard lock(mutex);
  if (const auto known = loaded.find(item); known != loaded.end()) return known->second;
  const PluginFile file = open_plugin(kPrefix, item, why);
  if (file.handle == nullptr) return nullptr;
  std::shared_ptr<const Table> table = newest_table(file.handle, file.path, why);
  if (!table) return nullptr;  // the file stays open: its initialisers may have started something
  auto result = std::make_shared<const Loaded>(Loaded{file.path, std::move(table)});
  loaded.emplace(item, result);
  return result;
}

}  // namespace sccl::net::plugin
