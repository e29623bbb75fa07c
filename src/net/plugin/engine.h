// A net plugin as an engine: finds the plugin's file, adapts its table, drives its connections.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/net.h"
#include "net/plugin/table.h"

namespace sccl::net::plugin {

// A plugin's file, open for the life of the process: a plugin may have started threads, so unloading is unsafe.
struct Loaded {
  std::string path;  // as it was opened
  std::shared_ptr<const Table> table;
};

// Opens `item` of NCCL_NET_PLUGIN by NCCL's rules: the file itself, then libnccl-net-<item>.so; STATIC_PLUGIN is the
// program. Returns null and sets `why` when there is no such file, or no table of a known version in the file.
std::shared_ptr<const Loaded> load(const std::string& item, std::string& why);

// The items to try, in order: from NCCL_NET_PLUGIN if set (none: no plugin), else libnccl-net.so.
std::vector<std::string> items(const std::string& setting);

// Initialises the plugin for one communicator. Throws system_error when that fails, or when no device works from the
// host. `communicator`: any number that differs from those of other communicators.
std::unique_ptr<Net> open(std::shared_ptr<const Loaded> plugin, std::uint64_t communicator);

}  // namespace sccl::net::plugin
