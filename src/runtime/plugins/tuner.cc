#include "runtime/plugins/tuner.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/settings/log.h"

namespace sccl::runtime {
namespace {

using namespace tuner_abi;

constexpr int kNewest = 6;
constexpr int kOldest = 2;

int function_of(Collective collective) {
  switch (collective) {
    case Collective::broadcast:
      return Function::broadcast;
    case Collective::reduce:
      return Function::reduce;
    case Collective::allgather:
      return Function::all_gather;
    case Collective::reducescatter:
      return Function::reduce_scatter;
    case Collective::allreduce:
      return Function::all_reduce;
    default:
      return -1;
  }
}

float** as_pointer(CostTable& costs) { return reinterpret_cast<float**>(&costs[0][0]); }

bool is_available(float cost) { return cost >= 0; }

// A plugin of version 2 names one entry instead of changing costs. This function sets the cost of that entry to 0.
int ask_v2(const V2& table, void* context, int function, std::size_t bytes, CostTable& costs) {
  int algorithm = -1, protocol = -1, channels = 0;
  const int nvls = is_available(costs[Algorithm::nvls][Protocol::simple]) ? 1 : 0;
  const int collnet = is_available(costs[Algorithm::collnet_chain][Protocol::simple]) ? 1 : 0;
  const int result = table.get_coll_info(context, function, bytes, collnet, nvls, 1, &algorithm, &protocol, &channels);
  if (result != 0) return result;
  const bool named = algorithm >= 0 && algorithm < kAlgorithms && protocol >= 0 && protocol < kProtocols;
  if (named && is_available(costs[algorithm][protocol])) costs[algorithm][protocol] = 0;
  return 0;
}

template <typename Table>
int init_table(const Table& table, const TunerPlugin::Communicator& communicator, void** context) {
  const auto ranks = static_cast<std::size_t>(communicator.ranks);
  const auto hosts = communicator.ranks_by_host.size();
  if constexpr (std::is_same_v<Table, V5> || std::is_same_v<Table, V6>) {
    // What the plugin writes into the constants is of NCCL's model, which is not ours.
    const auto [least, most] =
        std::minmax_element(communicator.ranks_by_host.begin(), communicator.ranks_by_host.end());
    NvlDomains domains{static_cast<int>(hosts), *least, *most};
    auto constants = std::make_unique<Constants>();
    return table.init(context, communicator.identity, ranks, hosts, plugin_logger(), &domains, constants.get());
  } else {
    return table.init(ranks, hosts, plugin_logger(), context);
  }
}

template <typename Table>
int ask_table(const Table& table, void* context, int function, std::size_t bytes, CostTable& costs) {
  int channels = 0;
  if constexpr (std::is_same_v<Table, V2>)
    return ask_v2(table, context, function, bytes, costs);
  else if constexpr (std::is_same_v<Table, V3>)
    return table.get_coll_info(context, function, bytes, 1, as_pointer(costs), kAlgorithms, kProtocols, &channels);
  else
    return table.get_coll_info(context, function, bytes, 1, as_pointer(costs), kAlgorithms, kProtocols, 0, &channels);
}

}  // namespace

bool TunerPlugin::knows(Collective collective) { return function_of(collective) >= 0; }

template <typename Table>
bool TunerPlugin::bind(const Table& table) {
  if constexpr (std::is_same_v<Table, V5> || std::is_same_v<Table, V6>)
    finalize_ = table.finalize;
  else
    finalize_ = table.destroy;
  if constexpr (std::is_same_v<Table, V6>) get_chunk_size_ = table.get_chunk_size;
  name_ = table.name == nullptr ? "without a name" : table.name;
  init_ = [this, &table](const Communicator& communicator) { return init_table(table, communicator, &context_); };
  ask_ = [this, &table](int function, std::size_t bytes, CostTable& costs) {
    return ask_table(table, context_, function, bytes, costs);
  };
  return table.init != nullptr && table.get_coll_info != nullptr && finalize_ != nullptr;
}

bool TunerPlugin::init(const Communicator& communicator) {
  const int result = init_(communicator);
  initialised_ = result == 0;
  if (!initialised_) tell_plugin(*library_, fmt::format("is left out: its init returns {}: see its own log", result));
  return initialised_;
}

std::unique_ptr<TunerPlugin> TunerPlugin::open(const Communicator& communicator) {
  return open(PluginLibrary::open(kTunerPlugin), communicator);
}

std::unique_ptr<TunerPlugin> TunerPlugin::open(std::shared_ptr<PluginLibrary> library,
                                               const Communicator& communicator) {
  if (!library) return nullptr;
  for (int version = kNewest; version >= kOldest; --version) {
    const void* const symbol = library->find(fmt::format("ncclTunerPlugin_v{}", version));
    if (symbol == nullptr) continue;
    std::unique_ptr<TunerPlugin> plugin(new TunerPlugin(library, version));
    const bool complete = version == 6   ? plugin->bind(*static_cast<const V6*>(symbol))
                          : version == 5 ? plugin->bind(*static_cast<const V5*>(symbol))
                          : version == 4 ? plugin->bind(*static_cast<const V4*>(symbol))
                          : version == 3 ? plugin->bind(*static_cast<const V3*>(symbol))
                                         : plugin->bind(*static_cast<const V2*>(symbol));
    if (!complete) {
      tell_plugin(*library,
                  fmt::format("is left out: ncclTunerPlugin_v{} has no init, getCollInfo or finalize", version));
      return nullptr;
    }
    if (!plugin->init(communicator)) return nullptr;
    return plugin;
  }
  tell_plugin(*library,
              fmt::format("is left out: it has no ncclTunerPlugin_v{} to v{}: build it against a tuner header of NCCL "
                          "2.19 or later",
                          kOldest, kNewest));
  return nullptr;
}

TunerPlugin::~TunerPlugin() {
  if (initialised_ && finalize_(context_) != 0)
    log::info(log::Subsystem::tuning, "tuner plugin {}: its finalize fails", text());
}

bool TunerPlugin::ask(Collective collective, std::size_t bytes, CostTable& costs) {
  CostTable before;
  std::memcpy(&before, &costs, sizeof before);
  if (ask_(function_of(collective), bytes, costs) == 0) return true;
  std::memcpy(&costs, &before, sizeof before);
  return false;
}

std::optional<std::size_t> TunerPlugin::chunk_bytes(Collective collective, std::size_t bytes, int algorithm,
                                                    int protocol, std::size_t usual) {
  if (get_chunk_size_ == nullptr) return std::nullopt;
  std::size_t wanted = usual;
  if (get_chunk_size_(context_, function_of(collective), bytes, algorithm, protocol, 1, &wanted) != 0 ||
      wanted == usual || wanted == 0)
    return std::nullopt;
  return wanted;
}

std::string TunerPlugin::text() const { return fmt::format("{} (v{}) of {}", name_, version_, library_->name()); }

}  // namespace sccl::runtime
