#include "runtime/dispatcher.h"

#include "kernels/device/connection.h"
#include "planners/planners.h"

namespace sccl::runtime {
namespace {

// Measured on two cores (bench/host). From here on one system call a slice costs less than the second copy through
// slots, which by then no longer stay in the second-level cache.
constexpr std::size_t kDirectBytes = 128 * 1024;
static_assert(kAutomaticLlBytes <= device::kLlPayloadBytes);
// Up to here sending everything to everyone beats sending shares twice.
constexpr std::size_t kAllPairsBytes = 8 * 1024;
// All-pairs costs every rank a message to every other; beyond this many ranks a logarithmic exchange costs less.
constexpr int kAllPairsRanks = 8;
constexpr int kManyRanks = 16;
constexpr std::size_t kDeviceLlBytes = 1024;

std::string automatic_planner(const CallShape& call, bool direct) {
  const bool many = call.ranks > kManyRanks;
  switch (call.collective) {
    case Collective::allreduce:
      if (call.bytes <= kAllPairsBytes) return call.ranks <= kAllPairsRanks ? "all-pairs" : "recursive";
      if (direct && call.bytes >= kDirectBytes) return "one-hop";
      return many ? "ring" : "one-hop";
    case Collective::broadcast:
    case Collective::reduce: return call.bytes < kDirectBytes && call.ranks > 4 ? "binomial" : "one-hop";
    case Collective::gather:
    case Collective::scatter: return "one-hop";
    default: return "one-hop";
  }
}

// The largest message of one chunk: what `ll` slots must hold.
std::size_t chunk_bytes(const CallShape& call, const std::string& planner) {
  const auto ranks = static_cast<std::size_t>(call.ranks);
  const bool split = (planner == "ring" && call.collective == Collective::allreduce) ||
                     (planner == "one-hop" &&
                      (call.collective == Collective::allreduce || call.collective == Collective::reduce));
  // Shares are rounded up to whole cache lines.
  return split ? (call.bytes / ranks + 63) / 64 * 64 + 64 : call.bytes;
}

}  // namespace

Choice choose(const CallShape& call, const Settings& settings, bool direct) {
  Choice choice;
  if (call.ranks == 1) {
    choice.planner = "one-hop";
    return choice;
  }
  const bool direct_wanted =
      settings.protocol == ProtocolChoice::direct ||
      (settings.protocol == ProtocolChoice::automatic && call.bytes >= kDirectBytes);
  const std::string asked = settings.algorithm(call.collective);
  choice.planner = asked.empty() ? automatic_planner(call, direct && direct_wanted) : asked;
  if (direct && direct_wanted && (choice.planner == "one-hop" || choice.planner == "binomial")) {
    // Only one-hop routes are stars; a binomial tree asked for by name keeps its slots.
    if (asked.empty()) choice.planner = "one-hop";
    if (choice.planner == "one-hop") {
      choice.form = Form::direct;
      return choice;
    }
  }
  const std::size_t limit = settings.protocol == ProtocolChoice::ll ? device::kLlPayloadBytes : kAutomaticLlBytes;
  if (settings.protocol != ProtocolChoice::simple && chunk_bytes(call, choice.planner) <= limit)
    choice.protocol = ProtocolChoice::ll;
  return choice;
}

Choice choose_on_device(const CallShape& call, const Settings& settings, bool direct) {
  Choice choice;
  const std::string asked = settings.algorithm(call.collective);
  choice.planner = asked.empty() ? automatic_planner(call, direct) : asked;
  const bool may_be_direct = direct && call.ranks > 1 && settings.protocol != ProtocolChoice::simple && settings.protocol != ProtocolChoice::ll;
  const bool wanted = settings.protocol == ProtocolChoice::direct || call.bytes > kDeviceLlBytes;
  if (may_be_direct && wanted && (asked.empty() || asked == "one-hop")) {
    choice.planner = "one-hop";
    choice.form = Form::direct;
    return choice;
  }
  if (settings.protocol != ProtocolChoice::simple && chunk_bytes(call, choice.planner) <= device::kLlPayloadBytes)
    choice.protocol = ProtocolChoice::ll;
  return choice;
}

}  // namespace sccl::runtime
