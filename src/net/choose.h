// The engines of this host for data between hosts, best first. All ranks of a communicator must use the same engine:
// the caller makes the ranks agree on the first key that every rank offers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "net/net.h"
#include "net/rails/rails.h"

namespace sccl::net {

inline constexpr const char* kUcx = "ucx";  // its key as an engine, and its name in settings

// A network interface of this host.
struct NetInterface {
  std::string name;
  std::string address;
  std::uint64_t network = 0;  // see Rail
  int mbits_per_s = 0;        // 0: unknown
};

struct Settings {
  std::string engine = "auto";  // SCCL_NET: auto, plugin, ucx, none
  std::string plugin_list;      // NCCL_NET_PLUGIN
  std::string network;          // NCCL_NET or ncclConfig_t.netName: name of a plugin, compared without case
  std::string devices;          // for UCX, see ucx::Options
  bool rdma = false;            // likewise
  Deadline deadline = Deadline::in(std::chrono::milliseconds(0));  // likewise
  std::chrono::milliseconds reconnect_limit{0};                    // likewise
  std::uint64_t nonce = 0;                                         // the communicator's
  // For UCX over TCP: those that are used beside one another; at most one: `devices` counts.
  std::vector<NetInterface> interfaces;
  std::string adapters;  // NCCL_IB_HCA: which devices of a plugin are used
  // The ranks of a host share the devices of a plugin.
  int rank_on_host = 0;
  int ranks_on_host = 1;
  std::vector<std::string> paths_of_ranks;  // of their own devices in /sys/devices; empty: nobody knows
  int self_test_limit_ms = 3000;
};

struct Engine {
  std::string key;          // equal at every rank that can use the engine: "plugin:<name>", "ucx"
  std::string description;  // for the log: name, version, devices
  std::shared_ptr<Net> net;
  std::vector<Rail> rails;  // the devices that this rank would use beside one another; at most one: only `net`
};

// Whether a device fits NCCL_IB_HCA: a list of prefixes, "^" before it: all but these, "=" before it: exact names. A
// name may have a port ("mlx5_0:1").
bool adapter_matches(std::string_view text, std::string_view device, int port);

enum class RailUse : std::uint8_t { alone, together };
// The device of the engine that this rank uses where it has one alone; nothing: any one.
std::optional<int> device_of(const Engine& engine, RailUse use);

// The engine for messages. If some rank has several rails, all ranks take them, also those that have one.
std::shared_ptr<Net> taken(Engine engine, RailUse use, const RailSettings& settings);

// An engine that was tried and cannot be used.
struct Refusal {
  std::string happened;
  std::string remedy;  // apart, since many ranks may need the same one; may be empty
  enum class Asked : std::uint8_t {
    yes,
    no
  } asked = Asked::yes;  // no: a plugin that is looked for unasked, and absent
};

struct Offer {
  std::vector<Engine> engines;
  std::vector<Refusal> refusals;
};

// An engine that is named explicitly (by a plugin list, a network, SCCL_NET=plugin or ucx) is offered alone; if it
// cannot be used, this throws. SCCL_NET=none throws invalid_usage, and so does a setting of UCX that cannot work where
// there is no plugin. If the offer is empty, `refusals` has the reasons.
Offer offer(const Settings& settings);

struct OfferOfRank {
  std::string rank;               // with its host
  std::vector<std::string> keys;  // of engines
  std::vector<Refusal> refusals;
};
// The text of the error when a communicator spans hosts, the ranks have no common engine, and some have none.
std::string no_engine_text(const std::vector<OfferOfRank>& ranks);

// What to do where ranks were told to use different engines.
inline constexpr const char* kSetAlike =
    "set SCCL_NET, NCCL_NET and NCCL_NET_PLUGIN (or ncclConfig_t.netName) alike on all hosts";

// What happened to each of them, and what to do about it, each remedy once; `usual` where none of them has one.
std::string happened(const std::vector<Refusal>& refusals);
std::string remedies(const std::vector<Refusal>& refusals, const std::string& usual);

}  // namespace sccl::net
