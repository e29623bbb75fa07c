#include "runtime/settings.h"

#include <string_view>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "planners/planners.h"
#include "runtime/shared_state.h"

namespace sccl::runtime {
namespace {

constexpr std::int64_t kDefaultSlotBytes = 128 * 1024;
constexpr std::int64_t kLeastSlotBytes = 4096;
constexpr std::int64_t kMostSlotBytes = 16 * 1024 * 1024;
constexpr std::int64_t kDefaultMemoryLimit = 32000000;
// Of the limit, for what a rank allocates for itself: bounce buffers, scratch, plans.
constexpr std::int64_t kPrivateBytes = 2000000;

template <typename Visit>
void for_each_item(std::string_view list, char separator, Visit&& visit) {
  while (!list.empty()) {
    const std::size_t end = list.find(separator);
    visit(list.substr(0, end));
    list = end == std::string_view::npos ? std::string_view{} : list.substr(end + 1);
  }
}

bool known_algorithm(std::string_view name) {
  return name == "auto" || name == "trees" || name == "synth" || planners::find(name) != nullptr;
}

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

std::size_t slot_bytes_within_limit(int ranks) {
  const auto asked = env::number("SCCL_SLOT_BYTES", kDefaultSlotBytes, kLeastSlotBytes, kMostSlotBytes) / 4096 * 4096;
  const auto limit = env::number("SCCL_MEM_LIMIT", kDefaultMemoryLimit, 1, std::int64_t{1} << 50);
  const std::int64_t slots = std::int64_t{MemoryLayout::kChannels} * ranks * device::kSlotCount;
  const auto fixed = static_cast<std::int64_t>(MemoryLayout(ranks, 0).total_bytes()) + kPrivateBytes;
  const std::int64_t most = (limit - fixed) / slots / 4096 * 4096;
  if (most >= asked) return static_cast<std::size_t>(asked);
  if (most < kLeastSlotBytes)
    fail(ErrorCode::system_error, "SCCL_MEM_LIMIT={} does not hold a communicator of {} ranks: allow {} bytes at least",
         limit, ranks, fixed + slots * kLeastSlotBytes);
  log::info(log::Subsystem::init, "SCCL_MEM_LIMIT={} bounds slots of {} ranks to {} bytes instead of {}", limit, ranks, most,
            asked);
  return static_cast<std::size_t>(most);
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

Settings settings_from_environment(int ranks) {
  Settings settings;
  settings.topology = env::text("SCCL_TOPO").value_or("");
  settings.algorithms = env::text("SCCL_ALGO").value_or("");
  if (!valid_algorithms(settings.algorithms)) {
    log::warn("SCCL_ALGO={} is not understood: give a planner's name or a list such as allreduce:ring;broadcast:binomial"
              " (sccl env lists the names); continuing with automatic choice",
              settings.algorithms);
    settings.algorithms.clear();
  }
  settings.protocol = protocol_from_environment();
  settings.slot_bytes = slot_bytes_within_limit(ranks);
  settings.direct_allowed = env::flag("SCCL_DIRECT", true);
  return settings;
}

}  // namespace sccl::runtime
