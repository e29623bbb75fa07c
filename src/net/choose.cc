#include "net/choose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <strings.h>

#include "base/error.h"
#include "net/plugin/engine.h"
#include "net/self_test.h"
#include "net/ucx/engine.h"

namespace sccl::net {
namespace {

constexpr const char* kUcx = "ucx";

std::string described(const Net& net) {
  std::vector<std::string> devices;
  for (const Device& device : net.devices())
    devices.push_back(device.speed_mbits_per_s > 0
                          ? fmt::format("{} ({} Gbit/s)", device.name, device.speed_mbits_per_s / 1000.0)
                          : device.name);
  return fmt::format("{}: {}", net.name(), fmt::join(devices, ", "));
}

bool same_name(const std::string& a, const std::string& b) { return strcasecmp(a.c_str(), b.c_str()) == 0; }

Engine tested(std::string key, const std::string& name, const Settings& settings,
              std::function<std::unique_ptr<Net>()> open) {
  Engine engine;
  engine.net = opened_and_tested(std::move(open), name, std::chrono::milliseconds(settings.self_test_limit_ms));
  engine.key = std::move(key);
  engine.description = described(*engine.net);
  return engine;
}

// The first plugin of the list that works. With `network` set, plugins of other names are skipped.
bool offer_plugin(const Settings& settings, Offer& offer) {
  for (const std::string& item : plugin::items(settings.plugin_list)) {
    std::string why;
    const auto loaded = plugin::load(item, why);
    if (!loaded) {
      offer.refusals.push_back(why);
      continue;
    }
    const std::string name = loaded->table->name();
    if (!settings.network.empty() && !same_name(settings.network, name)) {
      offer.refusals.push_back(fmt::format("{} is the network {}, not {}", loaded->path, name, settings.network));
      continue;
    }
    try {
      offer.engines.push_back(tested(fmt::format("plugin:{}", name), fmt::format("the net plugin {}", loaded->path),
                                     settings, [loaded, nonce = settings.nonce] { return open(loaded, nonce); }));
      return true;
    } catch (const Error& error) {
      offer.refusals.push_back(error.what());
    }
  }
  return false;
}

// UCX is not tried in a child process: it does not crash, and its start costs as much as a communicator's whole init.
bool offer_ucx(const Settings& settings, Offer& offer) {
  try {
    Engine engine;
    engine.net = ucx::open({settings.nonce, settings.devices, settings.rdma});
    engine.key = kUcx;
    engine.description = described(*engine.net);
    offer.engines.push_back(std::move(engine));
    return true;
  } catch (const Error& error) {
    offer.refusals.push_back(error.what());
    return false;
  }
}

}  // namespace

Offer offer(const Settings& settings) {
  const std::string& engine = settings.engine;
  if (engine != "auto" && engine != "plugin" && engine != kUcx && engine != "none")
    fail(ErrorCode::invalid_usage, "SCCL_NET={} is not known: set auto, plugin, ucx or none", engine);
  if (engine == "none")
    fail(ErrorCode::invalid_usage,
         "the ranks run on several hosts, and SCCL_NET=none allows no engine between hosts: unset it");
  const bool names_ucx = same_name(settings.network, kUcx);
  if (same_name(settings.network, "IB") || same_name(settings.network, "Socket")) {
    Settings without = settings;
    without.network.clear();
    Offer result = offer(without);
    result.refusals.push_back(
        fmt::format("NCCL_NET={} names a transport inside NCCL, which this library does not have", settings.network));
    return result;
  }
  const bool names_plugin = engine == "plugin" || (engine == "auto" && !names_ucx &&
                                                   (!settings.plugin_list.empty() || !settings.network.empty()));
  Offer result;
  if (engine != kUcx && !names_ucx) offer_plugin(settings, result);
  const bool only_ucx = engine == kUcx || names_ucx;
  if (names_plugin && !plugin::items(settings.plugin_list).empty()) {
    if (result.engines.empty())
      fail(ErrorCode::system_error, "the net plugin that was asked for cannot be used: {}",
           fmt::join(result.refusals, "; "));
    return result;
  }
  if (!offer_ucx(settings, result) && only_ucx)
    fail(ErrorCode::system_error, "SCCL_NET=ucx was asked for: {}", fmt::join(result.refusals, "; "));
  return result;
}

std::string no_engine_text(const std::vector<std::string>& refusals) {
  return fmt::format(
      "the ranks run on several hosts, and no engine that moves data between hosts works on all of them: install UCX "
      "(package libucx0), or name a net plugin with NCCL_NET_PLUGIN. Tried: {}",
      fmt::join(refusals, "; "));
}

}  // namespace sccl::net
