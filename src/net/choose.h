// Which engines this host has for data between hosts, best first. All ranks of a communicator must take the same one:
// the caller agrees on the first key that every rank offers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/net.h"

namespace sccl::net {

struct Settings {
  std::string engine = "auto";  // SCCL_NET: auto, plugin, ucx, none
  std::string plugin_list;      // NCCL_NET_PLUGIN
  std::string network;          // NCCL_NET or ncclConfig_t.netName: the name of a plugin, compared without case
  std::string devices;          // of UCX, see ucx::Options
  std::uint64_t nonce = 0;      // of the communicator
  int self_test_limit_ms = 3000;
};

struct Engine {
  std::string key;          // the same at every rank that can use it: "plugin:<name>", "ucx"
  std::string description;  // for the log: name, version, devices
  std::unique_ptr<Net> net;
};

struct Offer {
  std::vector<Engine> engines;
  std::vector<std::string> refusals;  // one line for each engine that was tried and cannot be used
};

// What was named explicitly (a plugin list, a network, SCCL_NET=plugin or ucx) is offered alone, and throws when it
// cannot be used. SCCL_NET=none throws invalid_usage. An empty offer has its reasons in `refusals`.
Offer offer(const Settings& settings);

// The text for a communicator that spans hosts where no engine is common to all ranks.
std::string no_engine_text(const std::vector<std::string>& refusals);

}  // namespace sccl::net
