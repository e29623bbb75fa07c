#include "runtime/membership/hosts/engine_agreement.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/os/folder.h"
#include "base/settings/env.h"
#include "base/settings/log.h"
#include "net/choose.h"
#include "runtime/bootstrap/sockets/first_half.h"
#include "runtime/membership/hosts/host_values.h"
#include "topology/system/system_topology.h"

namespace sccl::runtime {
namespace {

// What a rank tells the others, as lines: the code of an error or 0, its text, then keys, counts of rails, names and
// refusals with a letter before each, and behind a refusal its remedy.
struct Told {
  int code = 0;
  std::string error;
  std::vector<std::string> keys;
  std::vector<int> rails;          // by key
  std::vector<std::string> names;  // of engines with their versions, by key
  std::vector<net::Refusal> refusals;
};

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string to_text(const Told& told) {
  std::string text = fmt::format("{}\n{}\n", told.code, one_line(told.error));
  for (const std::string& key : told.keys) text += "k" + one_line(key) + "\n";
  for (const int rails : told.rails) text += fmt::format("n{}\n", rails);
  for (const std::string& name : told.names) text += "v" + one_line(name) + "\n";
  for (const net::Refusal& refusal : told.refusals) {
    text += "r" + one_line(refusal.happened) + "\n";
    if (!refusal.remedy.empty()) text += "d" + one_line(refusal.remedy) + "\n";
  }
  return text;
}

Told from_text(std::string_view text) {
  Told told;
  const auto next = [&] {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  told.code = std::atoi(next().c_str());
  told.error = next();
  while (!text.empty()) {
    const std::string line = next();
    if (line.starts_with('k')) told.keys.push_back(line.substr(1));
    if (line.starts_with('n')) told.rails.push_back(std::atoi(line.c_str() + 1));
    if (line.starts_with('v')) told.names.push_back(line.substr(1));
    if (line.starts_with('r')) told.refusals.push_back({line.substr(1), ""});
    if (line.starts_with('d') && !told.refusals.empty()) told.refusals.back().remedy = line.substr(1);
  }
  return told;
}

// In /sys/devices; empty if the kernel does not show the device.
std::string path_of(const std::string& busid) {
  std::error_code error;
  const auto path = std::filesystem::canonical("/sys/bus/pci/devices/" + topology::normal_busid(busid), error);
  return busid.empty() || error ? "" : path.string();
}

bool has_rdma_devices() { return !names_in("/sys/class/infiniband").empty(); }

net::RailSettings rail_settings(const EngineQuestion& question) {
  net::RailSettings settings;
  if (env::number("NCCL_CROSS_NIC", 2, 0, 2) == 1) settings.crossing = net::RailSettings::Crossing::allowed;
  settings.loss_limit = question.host_timeout;
  return settings;
}

std::size_t place_of(const std::string& key, const Told& told) {
  return static_cast<std::size_t>(std::find(told.keys.begin(), told.keys.end(), key) - told.keys.begin());
}

// Versions of UCX understand one another. Nobody promises that of a plugin's.
void tell_versions(const std::string& key, const std::vector<Told>& all, const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const Told& told : all) {
    const std::size_t at = place_of(key, told);
    names.push_back(at < told.names.size() ? told.names[at] : "an unknown version");
  }
  const auto is_first = [&](const std::string& name) { return name == names.front(); };
  if (std::all_of(names.begin(), names.end(), is_first)) return;
  const std::string text = values_by_host(names, hosts);
  if (key == net::kUcx)
    log::info(log::Subsystem::init, "hosts have different versions of UCX: {}", text);
  else
    log::warn(
        "hosts have different versions of a net plugin, which may not understand one another: {}: install one "
        "version on all hosts",
        text);
}

// Whether a rank of the same host, with a lower number, tells the same refusal.
bool is_told_by_another(const EngineQuestion& question, const net::Refusal& refusal, const std::vector<Told>& all,
                        const std::vector<std::string>& hosts) {
  if (question.rank_on_host == 0) return false;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(question.rank); ++rank)
    for (const net::Refusal& other : all[rank].refusals)
      if (hosts[rank] == question.host && other.happened == one_line(refusal.happened)) return true;
  return false;
}

// Why engines that are here do not serve, and better ones than the chosen one: once on a host.
void tell_refused(const EngineQuestion& question, const net::Offer& offer, const std::string& chosen,
                  const std::vector<Told>& all, const std::vector<std::string>& hosts) {
  for (const net::Refusal& refusal : offer.refusals)
    if (refusal.asked == net::Refusal::Asked::yes && !is_told_by_another(question, refusal, all, hosts))
      log::info(log::Subsystem::init, "rank {}: does not serve between hosts: {}", question.rank, refusal.happened);
  if (question.rank_on_host > 0) return;
  for (const net::Engine& engine : offer.engines) {
    if (engine.key == chosen) return;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (place_of(engine.key, all[rank]) < all[rank].keys.size()) continue;
      log::info(log::Subsystem::init, "rank {}: does not serve between hosts: {}: rank {} on host {} does not have it",
                question.rank, engine.description, rank, hosts[rank]);
      break;
    }
  }
}

// Every rank has an engine, but not the same one.
[[noreturn]] void fail_different_engines(const std::vector<Told>& all, const std::vector<std::string>& hosts) {
  std::vector<std::string> offers;
  for (const Told& told : all) offers.push_back(fmt::format("{}", fmt::join(told.keys, " or ")));
  fail(ErrorCode::invalid_usage,
       "the hosts were told to use different engines, and data cannot pass between them: {}: {}",
       values_by_host(offers, hosts), net::kSetAlike);
}

// The first rank's error, the same text everywhere.
void check_errors(const std::vector<Told>& all, const std::vector<std::string>& hosts) {
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].code != 0)
      fail(static_cast<ErrorCode>(all[rank].code), "rank {} on host {}: {}", rank, hosts[rank], all[rank].error);
}

}  // namespace

net::Settings engine_settings(const EngineQuestion& question) {
  net::Settings settings;
  settings.engine = env::text("SCCL_NET").value_or("auto");
  settings.plugin_list = env::text("NCCL_NET_PLUGIN").value_or("");
  settings.network = env::text("NCCL_NET").value_or(question.configured);
  // Of several interfaces UCX's TCP may choose one that does not reach the peer. Its own variable counts more, and
  // where there is RDMA it chooses well.
  settings.rdma = has_rdma_devices();
  if (std::getenv("UCX_NET_DEVICES") == nullptr && !settings.rdma) {
    settings.devices = question.devices;
    settings.interfaces = question.interfaces;
  }
  settings.adapters = env::text("NCCL_IB_HCA").value_or("");
  settings.rank_on_host = question.rank_on_host;
  settings.ranks_on_host = question.ranks_on_host;
  for (const std::string& busid : question.busids) settings.paths_of_ranks.push_back(path_of(busid));
  settings.nonce = question.nonce;
  settings.reconnect_limit = question.host_timeout;
  return settings;
}

AgreedEngine agree_on_engine(const EngineQuestion& question, Bootstrap& bootstrap, Deadline deadline) {
  Told mine;
  net::Offer offer;
  try {
    net::Settings settings = engine_settings(question);
    settings.deadline = first_half(deadline);
    offer = net::offer(settings);
    for (const net::Engine& engine : offer.engines) {
      mine.keys.push_back(engine.key);
      mine.rails.push_back(static_cast<int>(engine.rails.size()));
      mine.names.push_back(engine.net->name());
    }
    mine.refusals = offer.refusals;
  } catch (const Error& error) {
    mine.code = static_cast<int>(error.code());
    mine.error = error.what();
  }
  const std::string text = question.host + "\n" + to_text(mine);
  std::vector<Told> all;
  std::vector<std::string> hosts;
  for (const Bytes& bytes : bootstrap.all_gather(std::as_bytes(std::span(text)), deadline)) {
    std::string_view told(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t end = std::min(told.find('\n'), told.size());
    hosts.emplace_back(told.substr(0, end));
    all.push_back(from_text(told.substr(std::min(end + 1, told.size()))));
  }
  check_errors(all, hosts);
  for (const std::string& key : all.front().keys) {
    const auto offers = [&](const Told& told) {
      return std::find(told.keys.begin(), told.keys.end(), key) != told.keys.end();
    };
    if (!std::all_of(all.begin(), all.end(), offers)) continue;
    const auto engine = std::find_if(offer.engines.begin(), offer.engines.end(),
                                     [&](const net::Engine& one) { return one.key == key; });
    log::info(log::Subsystem::init, "rank {}: between hosts: {}", question.rank, engine->description);
    tell_refused(question, offer, key, all, hosts);
    if (question.rank == 0) tell_versions(key, all, hosts);
    const auto has_several = [&](const Told& told) {
      const std::size_t at = place_of(key, told);
      return at < told.rails.size() && told.rails[at] > 1;
    };
    const auto use = std::any_of(all.begin(), all.end(), has_several) ? net::RailUse::together : net::RailUse::alone;
    const std::optional<int> device = net::device_of(*engine, use);
    return {net::taken(std::move(*engine), use, rail_settings(question)), key, device};
  }
  if (std::none_of(all.begin(), all.end(), [](const Told& told) { return told.keys.empty(); }))
    fail_different_engines(all, hosts);
  std::vector<net::OfferOfRank> offers;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    offers.push_back({fmt::format("rank {} on host {}", rank, hosts[rank]), all[rank].keys, all[rank].refusals});
  fail(ErrorCode::system_error, "{}", net::no_engine_text(offers));
}

}  // namespace sccl::runtime
