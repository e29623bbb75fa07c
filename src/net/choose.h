// The engines of this host for data between hosts, best first. All ranks of a communicator must use the same engine:
// the caller makes the ranks agree on the first key that every rank offers.
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
  std::string network;          // NCCL_NET or ncclConfig_t.netName: name of a plugin, compared without case
  std::string devices;          // for UCX, see ucx::Options
  bool rdma = false;            // likewise
  std::uint64_t nonce = 0;      // the communicator's
  int self_test_limit_ms = 3000;
};

struct Engine {
  std::string key;          // equal at every rank that can use the engine: "plugin:<name>", "ucx"
  std::string description;  // for the log: name, version, devices
  std::unique_ptr<Net> net;
};

struct Offer {
  std::vector<Engine> engines;
  std::vector<std::string> refusals;  // one line for each engine that was tried and cannot be used
};

// An engine that is named explicitly (by a plugin list, a network, SCCL_NET=plugin or ucx) is offered alone; if it
// cannot be used, this throws. SCCL_NET=none throws invalid_usage. If the offer is empty, `refusals` has the reasons.
Offer offer(const Settings& settings);

// The text of the error when a communicator spans hosts and the ranks have no common engine.
std::string no_engine_text(const std::vector<std::string>& refusals);

}  // namespace sccl::net
