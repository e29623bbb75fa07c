// Which engine moves data between the hosts of a communicator: the first that every rank can use.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/types.h"
#include "net/choose.h"
#include "net/net.h"
#include "runtime/bootstrap/bootstrap.h"

namespace sccl::runtime {

struct AgreedEngine {
  std::shared_ptr<net::Net> net;  // over rails if some rank has several
  std::string key;                // the same at all ranks: "ucx", "plugin:<name>"
  std::optional<int> device;      // that this rank uses; nothing: any one
};

struct EngineQuestion {
  Rank rank = 0;
  std::string host;         // this rank's
  std::string devices;      // the interfaces that reach the other hosts, as UCX names them; empty: it chooses
  std::string configured;   // ncclConfig_t.netName
  std::uint64_t nonce = 0;  // stands in every message
  std::vector<net::NetInterface>
      interfaces{};  // those that data may use beside one another, the one that reaches first
  int rank_on_host = 0;
  int ranks_on_host = 1;
  std::vector<std::string> busids{};             // of these ranks' devices, by rank on the host
  std::chrono::milliseconds host_timeout{4500};  // until what a rail lost counts as a fault
};

// The settings of this host's engines, by SCCL_NET, NCCL_NET and NCCL_NET_PLUGIN.
net::Settings engine_settings(const EngineQuestion& question);

// Collective. By SCCL_NET, NCCL_NET, NCCL_NET_PLUGIN and the configuration of each rank. Throws the same error at all
// ranks when one of them cannot use what it was told to use, or when no engine is common to all.
AgreedEngine agree_on_engine(const EngineQuestion& question, Bootstrap& bootstrap, Deadline deadline);

}  // namespace sccl::runtime
