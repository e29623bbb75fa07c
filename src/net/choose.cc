#include "net/choose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <strings.h>

#include <algorithm>

#include "base/error.h"
#include "base/settings/name_list.h"
#include "net/plugin/engine.h"
#include "net/rails/nearest.h"
#include "net/self_test.h"
#include "net/ucx/engine.h"

namespace sccl::net {
namespace {

std::string with_speed(const std::string& name, int mbits_per_s) {
  return mbits_per_s > 0 ? fmt::format("{} ({} Gbit/s)", name, mbits_per_s / 1000.0) : name;
}

std::string described(const Net& net) {
  std::vector<std::string> devices;
  for (const Device& device : net.devices()) devices.push_back(with_speed(device.name, device.speed_mbits_per_s));
  return fmt::format("{}: {}", net.name(), fmt::join(devices, ", "));
}

std::string described(const std::vector<Rail>& rails) {
  std::vector<std::string> devices;
  for (const Rail& rail : rails) devices.push_back(with_speed(rail.name, rail.mbits_per_s));
  return fmt::format("{}: {}, beside one another", rails.front().net->name(), fmt::join(devices, ", "));
}

// A rank's part of the devices that may be used, so that all ranks together use all: some for each, or one for some.
std::vector<Rail> shared_devices(const std::shared_ptr<Net>& net, const Settings& settings) {
  std::vector<int> usable;
  const std::vector<Device>& devices = net->devices();
  for (std::size_t at = 0; at < devices.size(); ++at)
    if (adapter_matches(settings.adapters, devices[at].name, devices[at].port)) usable.push_back(static_cast<int>(at));
  if (usable.empty())
    fail(ErrorCode::invalid_usage, "NCCL_IB_HCA={} fits no device of {}: correct or unset it", settings.adapters,
         described(*net));
  const auto count = static_cast<int>(usable.size());
  const int each = std::clamp(count / settings.ranks_on_host, 1, static_cast<int>(kMostRails));
  std::vector<Place> places;
  for (const int number : usable) places.push_back(place_of(devices[static_cast<std::size_t>(number)].pci_path));
  std::vector<Place> ranks;
  for (const std::string& path : settings.paths_of_ranks) ranks.push_back(place_of(path));
  ranks.resize(static_cast<std::size_t>(settings.ranks_on_host));
  std::vector<Rail> rails;
  for (const int at : nearest_devices(static_cast<std::size_t>(settings.rank_on_host), places, ranks, each)) {
    const int number = usable[static_cast<std::size_t>(at)];
    const Device& device = devices[static_cast<std::size_t>(number)];
    rails.push_back({net, number, device.name, 0, std::max(0, device.speed_mbits_per_s)});
  }
  return rails;
}

bool same_name(const std::string& a, const std::string& b) { return strcasecmp(a.c_str(), b.c_str()) == 0; }

Engine tested(std::string key, const std::string& name, const Settings& settings,
              std::function<std::unique_ptr<Net>()> open) {
  Engine engine;
  engine.net = opened_and_tested(std::move(open), name, std::chrono::milliseconds(settings.self_test_limit_ms));
  engine.key = std::move(key);
  engine.description = described(*engine.net);
  engine.rails = shared_devices(engine.net, settings);
  if (engine.rails.size() > 1) engine.description = described(engine.rails);
  return engine;
}

// NCCL's name of a plugin, where nobody named one and there is no such file. A file that lacks a library is told: the
// loader's text then begins with the name of that one.
bool is_absent(const Settings& settings, const std::string& item, const std::string& why) {
  return settings.plugin_list.empty() && why.starts_with(item + ": cannot open shared object file: No such file");
}

// The first plugin of the list that works. With `network` set, plugins of other names are skipped.
bool offer_plugin(const Settings& settings, Offer& offer) {
  for (const std::string& item : plugin::items(settings.plugin_list)) {
    std::string why;
    const auto loaded = plugin::load(item, why);
    if (!loaded) {
      offer.refusals.push_back({why, "", is_absent(settings, item, why) ? Refusal::Asked::no : Refusal::Asked::yes});
      continue;
    }
    const std::string name = loaded->table->name();
    if (!settings.network.empty() && !same_name(settings.network, name)) {
      offer.refusals.push_back({fmt::format("{} is the network {}, not {}", loaded->path, name, settings.network), ""});
      continue;
    }
    try {
      offer.engines.push_back(tested(fmt::format("plugin:{}", name), fmt::format("the net plugin {}", loaded->path),
                                     settings, [loaded, nonce = settings.nonce] { return open(loaded, nonce); }));
      return true;
    } catch (const Error& error) {
      offer.refusals.push_back({happened(error), ""});
    }
  }
  return false;
}

// One UCX for each interface: UCX itself uses one for each message, whatever it is allowed. Empty if the first one
// cannot be used.
std::vector<Rail> ucx_rails(const Settings& settings, Offer& offer) {
  std::vector<Rail> rails;
  for (const NetInterface& one : settings.interfaces) {
    if (rails.size() == kMostRails) break;
    try {
      rails.push_back(
          {ucx::open({settings.nonce, one.name, settings.rdma, settings.deadline, settings.reconnect_limit, false}), 0,
           fmt::format("{} ({})", one.name, one.address), one.network, one.mbits_per_s});
    } catch (const Error& error) {
      offer.refusals.push_back({fmt::format("{}: {}", one.name, happened(error)), remedy(error)});
      if (rails.empty()) return {};
    }
  }
  return rails;
}

// UCX is not tried in a child process: it does not crash, and its start costs as much as a communicator's whole init.
bool offer_ucx(const Settings& settings, Offer& offer) {
  try {
    Engine engine;
    engine.key = kUcx;
    if (settings.interfaces.size() > 1) engine.rails = ucx_rails(settings, offer);
    if (engine.rails.empty()) {
      engine.net = ucx::open(
          {settings.nonce, settings.devices, settings.rdma, settings.deadline, settings.reconnect_limit, true});
      engine.description = described(*engine.net);
    } else {
      engine.net = engine.rails.front().net;
      engine.description = described(engine.rails);
    }
    offer.engines.push_back(std::move(engine));
    return true;
  } catch (const Error& error) {
    // A setting is the cause, and not that an engine is missing.
    if (error.code() == ErrorCode::invalid_usage && offer.engines.empty()) throw;
    offer.refusals.push_back({happened(error), remedy(error)});
    return false;
  }
}

// The setting that names a plugin.
const char* asker(const Settings& settings) {
  if (!settings.plugin_list.empty()) return "NCCL_NET_PLUGIN";
  return settings.network.empty() ? "SCCL_NET=plugin" : "the name of a network (NCCL_NET or ncclConfig_t.netName)";
}

}  // namespace

bool adapter_matches(std::string_view text, std::string_view device, int port) {
  const NameList list(text);
  if (list.empty()) return true;
  return list.chooses([&](std::string_view item) {
    const std::size_t colon = item.rfind(':');
    const bool fits_port = colon == std::string_view::npos || item.substr(colon + 1) == std::to_string(port);
    return fits_port && list.names(item.substr(0, colon), device);
  });
}

std::optional<int> device_of(const Engine& engine, RailUse use) {
  if (use == RailUse::together || engine.rails.empty()) return std::nullopt;
  return engine.rails.front().device;
}

std::shared_ptr<Net> taken(Engine engine, RailUse use, const RailSettings& settings) {
  if (use == RailUse::alone) return engine.net;
  if (engine.rails.empty()) engine.rails.push_back({engine.net, 0, engine.net->devices().front().name, 0, 0});
  return over_rails(std::move(engine.rails), settings);
}

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
        {fmt::format("NCCL_NET={} names a transport inside NCCL, which this library does not have", settings.network),
         ""});
    return result;
  }
  const bool names_plugin = engine == "plugin" || (engine == "auto" && !names_ucx &&
                                                   (!settings.plugin_list.empty() || !settings.network.empty()));
  Offer result;
  if (engine != kUcx && !names_ucx) offer_plugin(settings, result);
  const bool only_ucx = engine == kUcx || names_ucx;
  if (names_plugin && !plugin::items(settings.plugin_list).empty()) {
    if (result.engines.empty())
      fail(ErrorCode::system_error,
           "{} asks for a net plugin that cannot be used ({}): name another one (a path, or NAME of "
           "libnccl-net-NAME.so) with NCCL_NET_PLUGIN, or leave out SCCL_NET, NCCL_NET and NCCL_NET_PLUGIN so that UCX "
           "serves",
           asker(settings), happened(result.refusals));
    return result;
  }
  if (!offer_ucx(settings, result) && only_ucx)
    fail(ErrorCode::system_error, "SCCL_NET=ucx was asked for: {}: {}", happened(result.refusals),
         remedies(result.refusals, "leave it out, so that a net plugin may serve"));
  return result;
}

std::string happened(const std::vector<Refusal>& refusals) {
  std::vector<std::string> texts;
  for (const Refusal& refusal : refusals) texts.push_back(refusal.happened);
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string remedies(const std::vector<Refusal>& refusals, const std::string& usual) {
  std::vector<std::string> texts;
  for (const Refusal& refusal : refusals)
    if (!refusal.remedy.empty() && std::find(texts.begin(), texts.end(), refusal.remedy) == texts.end())
      texts.push_back(refusal.remedy);
  return texts.empty() ? usual : fmt::format("{}", fmt::join(texts, "; "));
}

std::string no_engine_text(const std::vector<OfferOfRank>& ranks) {
  std::vector<Refusal> told;  // each rank's remedies, so that none is lost beside another rank's
  for (const OfferOfRank& one : ranks) {
    if (!one.keys.empty() || one.refusals.empty())
      told.push_back({fmt::format("{} offers {}", one.rank, fmt::join(one.keys, ", ")), ""});
    if (std::find(one.keys.begin(), one.keys.end(), kUcx) != one.keys.end()) continue;
    for (const Refusal& refusal : one.refusals)
      told.push_back({fmt::format("{}: {}", one.rank, refusal.happened), refusal.remedy});
    if (remedies(one.refusals, "").empty())
      told.back().remedy =
          one.keys.empty() ? "install UCX (package libucx0), or name a net plugin with NCCL_NET_PLUGIN" : kSetAlike;
  }
  return fmt::format(
      "the ranks run on several hosts, and no engine that moves data between hosts works on all of them ({}): {}",
      happened(told), remedies(told, kSetAlike));
}

}  // namespace sccl::net
