#include "runtime/settings.h"

#include <string_view>

#include "base/env.h"
#include "base/log.h"
#include "planners/planners.h"

namespace sccl::runtime {
namespace {

constexpr std::int64_t kDefaultSlotBytes = 128 * 1024;
constexpr std::int64_t kLeastSlotBytes = 4096;
constexpr std::int64_t kMostSlotBytes = 16 * 1024 * 1024;

template <typename Visit>
void for_each_item(std::string_view list, char separator, Visit&& visit) {
  while (!list.empty()) {
    const std::size_t end = list.find(separator);
    visit(list.substr(0, end));
    list = end == std::string_view::npos ? std::string_view{} : list.substr(end + 1);
  }
}

bool known_algorithm(std::string_view name) { return name == "auto" || planners::find(name) != nullptr; }

// "ring" or "allreduce:ring;broadcast:binomial"
bool valid_algorithms(std::string_view list) {
  bool valid = true;
  for_each_item(list, ';', [&](std::string_view item) {
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos)
      valid = valid && known_algorithm(item);
    else
      valid = valid && collective_from_name(item.substr(0, colon)) && known_algorithm(item.substr(colon + 1));
  });
  return valid;
}

ProtocolChoice protocol_from_environment() {
  const std::string text = env::text("SCCL_PROTO").value_or("auto");
  if (text == "auto") return ProtocolChoice::automatic;
  if (text == "simple") return ProtocolChoice::simple;
  if (text == "ll") return ProtocolChoice::ll;
  if (text == "direct") return ProtocolChoice::direct;
  log::warn("SCCL_PROTO={} is not known: use auto, simple, ll or direct; continuing with auto", text);
  return ProtocolChoice::automatic;
}

}  // namespace

std::string Settings::algorithm(Collective collective) const {
  std::string general;
  std::string specific;
  for_each_item(algorithms, ';', [&](std::string_view item) {
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos)
      general = item;
    else if (item.substr(0, colon) == info(collective).name)
      specific = item.substr(colon + 1);
  });
  const std::string& wanted = specific.empty() ? general : specific;
  return wanted == "auto" ? "" : wanted;
}

Settings settings_from_environment() {
  Settings settings;
  settings.algorithms = env::text("SCCL_ALGO").value_or("");
  if (!valid_algorithms(settings.algorithms)) {
    log::warn("SCCL_ALGO={} is not understood: give a planner's name or a list such as allreduce:ring;broadcast:binomial"
              " (sccl env lists the names); continuing with automatic choice",
              settings.algorithms);
    settings.algorithms.clear();
  }
  settings.protocol = protocol_from_environment();
  const auto slot_bytes = env::number("SCCL_SLOT_BYTES", kDefaultSlotBytes, kLeastSlotBytes, kMostSlotBytes);
  settings.slot_bytes = static_cast<std::size_t>(slot_bytes) / 4096 * 4096;
  settings.direct_allowed = env::flag("SCCL_DIRECT", true);
  return settings;
}

}  // namespace sccl::runtime
