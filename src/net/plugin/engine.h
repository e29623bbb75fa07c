// A net plugin as an engine: finds its file, adapts its table, drives its connections.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/net.h"
#include "net/plugin/table.h"

namespace sccl::net::plugin {

// A plugin's file, open for the life of the process: what a plugin has started cannot be unloaded safely.
struct Loaded {
  std::string path;  // as it was opened
  std::shared_ptr<const Table> table;
};

// Opens `item` of NCCL_NET_PLUGIN by NCCL's rules: the file itself, then libnccl-net-<item>.so; STATIC_PLUGIN is the
// program. Null, and `why`, when there is no such file or no table of a known version in it.
std::shared_ptr<const Loaded> load(const std::string& item, std::string& why);

// The items to try, in order: of NCCL_NET_PLUGIN when it is set (none: no plugin), else libnccl-net.so.
std::vector<std::string> items(const std::string& setting);

// Initialises the plugin for one communicator. Throws system_error when it cannot, and when it has no device that
// works from the host. `communicator` is any number that differs from those of other communicators.
std::unique_ptr<Net> open(std::shared_ptr<const Loaded> plugin, std::uint64_t communicator);

}  // namespace sccl::net::plugin
