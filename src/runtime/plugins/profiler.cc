#include "runtime/plugins/profiler.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <mutex>
#include <set>
#include <type_traits>

#include "base/error.h"
#include "base/monotonic.h"
#include "base/settings/log.h"
#include "planners/planners.h"

namespace sccl::runtime {
namespace {

using namespace profiler_abi;
using planners::Family;

constexpr int kNewest = 6;
constexpr int kOldest = 1;
constexpr std::uint8_t kChannels = 1;

// NCCL's numbers and names, indexed by this library's numbers.
constexpr std::array<std::uint8_t, kCollectiveCount> kFunctions{4, 2, 3, 0, 1, 8, 10, 9, 5};
constexpr std::uint8_t kSend = 6, kRecv = 7;
constexpr std::array<const char*, 12> kTypes{"ncclInt8",    "ncclUint8",    "ncclInt32",      "ncclUint32",
                                             "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
                                             "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};

const char* type_name(DataType type) { return kTypes.at(static_cast<std::size_t>(type)); }
const char* function_name(Collective collective) { return info(collective).call_name.data(); }
const char* function_name(Direction direction) { return direction == Direction::send ? "Send" : "Recv"; }

// A copy of `text` that is never freed, because plugins keep the pointers that they get.
const char* kept(const std::string& text) {
  static std::mutex mutex;
  static auto* const texts = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return texts->insert(text).first->c_str();
}

// NCCL's word and number where its algorithm goes the same way; else our own word, and the number of a ring.
struct NcclAlgorithm {
  Family family;
  const char* name;
  std::uint8_t number;
};
constexpr std::array<NcclAlgorithm, 3> kAlgorithms{
    {{Family::ring, "RING", 1}, {Family::tree, "TREE", 0}, {Family::doubling, "PAT", 6}}};

const NcclAlgorithm* counterpart_of(const std::string& planner) {
  const auto* const found = std::find_if(kAlgorithms.begin(), kAlgorithms.end(), [&](const NcclAlgorithm& algorithm) {
    return planners::belongs(planner, algorithm.family);
  });
  return found == kAlgorithms.end() ? nullptr : found;
}
const char* algorithm_name(const std::string& planner) {
  const NcclAlgorithm* const algorithm = counterpart_of(planner);
  return algorithm == nullptr ? kept(planner) : algorithm->name;
}
const char* protocol_name(const std::string& protocol) {
  return protocol == "ll" ? "LL" : protocol == "ll128" ? "LL128" : protocol == "simple" ? "SIMPLE" : kept(protocol);
}
std::uint8_t algorithm_number(const std::string& planner) {
  const NcclAlgorithm* const algorithm = counterpart_of(planner);
  return algorithm == nullptr ? 1 : algorithm->number;
}
std::uint8_t protocol_number(const std::string& protocol) { return protocol == "ll" ? 0 : protocol == "ll128" ? 1 : 2; }

// The kinds of a call's events, and for each kind of event its own kind and all kinds below it.
constexpr int kCallKinds = Kind::collective | Kind::transfer | Kind::proxy_operation | Kind::proxy_step |
                           Kind::kernel_channel | Kind::net_plugin;
constexpr int kBelowCollective = kCallKinds & ~Kind::transfer;
constexpr int kBelowTransfer = kCallKinds & ~Kind::collective;
constexpr int kBelowGroup = Kind::group | kCallKinds;
constexpr int kBelowCollectiveApi = Kind::collective_api | kBelowCollective;
constexpr int kBelowTransferApi = Kind::transfer_api | kBelowTransfer;
constexpr int kBelowGroupApi =
    Kind::group_api | kBelowCollectiveApi | kBelowTransferApi | Kind::kernel_launch | Kind::group;
constexpr int kSinceApiEvents = 5;
constexpr int kSinceKernels = 3;
constexpr int kSinceKernelTimes = 4;
constexpr int kSinceProxyProgress = 4;

int int_of(std::uint64_t value) { return static_cast<int>(std::min<std::uint64_t>(value, INT_MAX)); }

}  // namespace

// One mask for all communicators, as in NCCL: a plugin keeps the mask's address and may change the mask.
int& ProfilerPlugin::shared_mask() {
  static int mask = 0;
  return mask;
}
int ProfilerPlugin::mask() { return __atomic_load_n(&shared_mask(), __ATOMIC_RELAXED); }

template <typename Init>
bool ProfilerPlugin::bind(const Table<Init>& table) {
  start_event_ = table.start_event;
  stop_event_ = table.stop_event;
  record_state_ = table.record_state;
  finalize_ = table.finalize;
  if (table.init == nullptr || start_event_ == nullptr || stop_event_ == nullptr || finalize_ == nullptr) {
    tell_plugin(*library_,
                fmt::format("is left out: ncclProfiler_v{} has no init, startEvent, stopEvent or finalize", version_));
    return false;
  }
  const Communicator& about = communicator_;
  const char* const name = about.name.empty() ? nullptr : kept(about.name);
  int result = 0;
  if constexpr (std::is_same_v<Init, Init5>)
    result = table.init(&context_, about.identity, &shared_mask(), name, about.hosts, about.ranks, about.rank,
                        plugin_logger());
  else if constexpr (std::is_same_v<Init, Init4>)
    result = table.init(&context_, &shared_mask(), name, about.identity, about.hosts, about.ranks, about.rank,
                        plugin_logger());
  else
    result = table.init(&context_, &shared_mask());
  initialised_ = result == 0;
  if (!initialised_) tell_plugin(*library_, fmt::format("is left out: its init returns {}: see its own log", result));
  if (initialised_)
    log::info(log::Subsystem::init, "profiler plugin {} (v{}) of {} gets events of mask {:#x}",
              table.name == nullptr ? "without a name" : table.name, version_, library_->name(), mask());
  return initialised_;
}

bool ProfilerPlugin::bind_and_init(const void* symbol) {
  if (version_ >= 5) return bind(*static_cast<const Table<Init5>*>(symbol));
  if (version_ == 4) return bind(*static_cast<const Table<Init4>*>(symbol));
  return bind(*static_cast<const Table<Init1>*>(symbol));
}

std::unique_ptr<ProfilerPlugin> ProfilerPlugin::open(Communicator communicator) {
  std::shared_ptr<PluginLibrary> library = PluginLibrary::open(kProfilerPlugin);
  if (!library) return nullptr;
  for (int version = kNewest; version >= kOldest; --version) {
    const void* const symbol = library->find(fmt::format("ncclProfiler_v{}", version));
    if (symbol == nullptr) continue;
    std::unique_ptr<ProfilerPlugin> plugin(new ProfilerPlugin(library, version, std::move(communicator)));
    return plugin->bind_and_init(symbol) ? std::move(plugin) : nullptr;
  }
  tell_plugin(*library, fmt::format("is left out: it has no ncclProfiler_v{} to v{}: build it against a profiler "
                                    "header of NCCL 2.23 or later",
                                    kOldest, kNewest));
  return nullptr;
}

ProfilerPlugin::~ProfilerPlugin() {
  if (initialised_ && context_ != nullptr) finalize_(context_);
}

// A plugin that fails once gets no further events.
void ProfilerPlugin::check(int result, const char* function) {
  if (result == 0 || failed_) return;
  failed_ = true;
  tell_plugin(*library_, fmt::format("gets no further events at rank {}: its {} returns {}", communicator_.rank,
                                     function, result));
}

template <typename Descriptor>
ProfilerPlugin::Handle ProfilerPlugin::start_event(Descriptor& descriptor, int kind, Handle parent) {
  descriptor.type = static_cast<decltype(descriptor.type)>(kind);
  descriptor.parent = parent;
  descriptor.rank = communicator_.rank;
  Handle handle = nullptr;
  check(start_event_(context_, &handle, &descriptor), "startEvent");
  return failed_ ? nullptr : handle;
}

ProfilerPlugin::Handle ProfilerPlugin::start_group_api() {
  if (version_ < kSinceApiEvents || !wants(kBelowGroupApi)) return nullptr;
  Descriptor5 descriptor{};
  descriptor.group_api = {false, 1};
  return start_event(descriptor, Kind::group_api, nullptr);
}

ProfilerPlugin::Handle ProfilerPlugin::start_api(const CollectiveRequest& request, Handle group_api) {
  if (version_ < kSinceApiEvents || !wants(kBelowCollectiveApi)) return nullptr;
  Descriptor5 descriptor{};
  descriptor.collective_api = {
      function_name(request.collective), request.count, type_name(request.type), request.root, request.stream, false};
  return start_event(descriptor, Kind::collective_api, group_api);
}

ProfilerPlugin::Handle ProfilerPlugin::start_api(const PointToPointRequest& request, Handle group_api) {
  if (version_ < kSinceApiEvents || !wants(kBelowTransferApi)) return nullptr;
  Descriptor5 descriptor{};
  descriptor.transfer_api = {function_name(request.direction), request.count, type_name(request.type), request.stream,
                             false};
  return start_event(descriptor, Kind::transfer_api, group_api);
}

ProfilerPlugin::Handle ProfilerPlugin::start_launch(StreamHandle stream, Handle group_api) {
  if (version_ < kSinceApiEvents || !wants(Kind::kernel_launch)) return nullptr;
  Descriptor5 descriptor{};
  descriptor.launch = {stream};
  return start_event(descriptor, Kind::kernel_launch, group_api);
}

ProfilerPlugin::Handle ProfilerPlugin::start_group() {
  if (!wants(kBelowGroup)) return nullptr;
  const auto start = [&](auto descriptor) { return start_event(descriptor, Kind::group, nullptr); };
  return version_ < kSinceApiEvents ? start(Descriptor4{}) : start(Descriptor5{});
}

template <typename Descriptor>
ProfilerPlugin::Handle ProfilerPlugin::start_of(const CollectiveRequest& request, const Served& served, Handle api,
                                                Handle group) {
  Descriptor descriptor{};
  auto& about = descriptor.collective;
  about.sequence = sequences_[static_cast<std::size_t>(request.collective)];
  about.send = request.send;
  about.recv = request.recv;
  about.count = request.count;
  about.root = request.root;
  about.channels = about.warps = kChannels;
  if constexpr (requires { about.identity; }) {
    about.identity = communicator_.identity;
    about.communicator = kept(communicator_.name);
  }
  if constexpr (requires { about.traffic_bytes; }) {
    const BufferBytes bytes = buffer_bytes(request, communicator_.rank, communicator_.ranks);
    about.traffic_bytes = std::max(bytes.input, bytes.output);
  }
  if constexpr (std::is_same_v<Descriptor, Descriptor1>) {
    about.function = kFunctions.at(static_cast<std::size_t>(request.collective));
    about.type = static_cast<std::uint8_t>(request.type);
    about.op = static_cast<std::uint32_t>(request.reduction.op);
    about.algorithm = algorithm_number(served.algorithm);
    about.protocol = protocol_number(served.protocol);
  } else {
    about.function = function_name(request.collective);
    about.type = type_name(request.type);
    about.algorithm = algorithm_name(served.algorithm);
    about.protocol = protocol_name(served.protocol);
  }
  if constexpr (requires { about.group; }) about.group = group;
  return start_event(descriptor, Kind::collective, version_ >= kSinceApiEvents ? api : group);
}

ProfilerPlugin::Handle ProfilerPlugin::start(const CollectiveRequest& request, const Served& served, Handle api,
                                             Handle group) {
  ++sequences_[static_cast<std::size_t>(request.collective)];
  if (!wants(kBelowCollective)) return nullptr;
  switch (version_) {
    case 1:
      return start_of<Descriptor1>(request, served, api, group);
    case 2:
      return start_of<Descriptor2>(request, served, api, group);
    case 3:
      return start_of<Descriptor3>(request, served, api, group);
    case 4:
      return start_of<Descriptor4>(request, served, api, group);
    default:
      return start_of<Descriptor5>(request, served, api, group);
  }
}

template <typename Descriptor>
ProfilerPlugin::Handle ProfilerPlugin::start_of(const PointToPointRequest& request, Handle api, Handle group) {
  Descriptor descriptor{};
  auto& about = descriptor.transfer;
  about.buffer = request.buffer;
  about.count = request.count;
  about.peer = request.peer;
  if constexpr (requires { about.identity; }) {
    about.identity = communicator_.identity;
    about.communicator = kept(communicator_.name);
  }
  if constexpr (std::is_same_v<Descriptor, Descriptor1>) {
    about.function = request.direction == Direction::send ? kSend : kRecv;
    about.type = static_cast<std::uint8_t>(request.type);
  } else {
    about.function = function_name(request.direction);
    about.type = type_name(request.type);
  }
  if constexpr (requires { about.channels; }) about.channels = kChannels;
  if constexpr (requires { about.group; }) about.group = group;
  return start_event(descriptor, Kind::transfer, version_ >= kSinceApiEvents ? api : group);
}

ProfilerPlugin::Handle ProfilerPlugin::start(const PointToPointRequest& request, Handle api, Handle group) {
  if (!wants(kBelowTransfer)) return nullptr;
  switch (version_) {
    case 1:
      return start_of<Descriptor1>(request, api, group);
    case 2:
    case 3:
      return start_of<Descriptor2>(request, api, group);
    case 4:
      return start_of<Descriptor4>(request, api, group);
    default:
      return start_of<Descriptor5>(request, api, group);
  }
}

ProfilerPlugin::Handle ProfilerPlugin::start_kernel(Handle call) {
  if (call == nullptr || version_ < kSinceKernels || !wants(Kind::kernel_channel)) return nullptr;
  const auto start = [&](auto descriptor) {
    descriptor.kernel = {0, version_ >= kSinceKernelTimes ? monotonic_ns() : 0};
    return start_event(descriptor, Kind::kernel_channel, call);
  };
  return version_ < kSinceApiEvents ? start(Descriptor4{}) : start(Descriptor5{});
}

ProfilerPlugin::Handle ProfilerPlugin::start_proxy(Handle call, const RemoteTraffic& traffic) {
  if (call == nullptr || !wants(Kind::proxy_operation | Kind::proxy_step)) return nullptr;
  const ProxyOperation about{::getpid(),
                             0,
                             traffic.peer,
                             int_of(traffic.messages),
                             int_of(traffic.message_bytes),
                             traffic.direction == Direction::send ? 1 : 0};
  const auto start = [&](auto descriptor) {
    descriptor.proxy = about;
    return start_event(descriptor, Kind::proxy_operation, call);
  };
  const Handle handle = version_ < kSinceApiEvents ? start(Descriptor4{}) : start(Descriptor5{});
  if (version_ >= kSinceProxyProgress) record(handle, State::proxy_in_progress);
  return handle;
}

void ProfilerPlugin::stop_proxy(Handle handle, const RemoteTraffic& traffic) {
  if (version_ < kSinceProxyProgress) {
    StateArguments arguments{};
    arguments.proxy = {traffic.messages * traffic.message_bytes, int_of(traffic.messages)};
    record(handle, traffic.direction == Direction::send ? State::send_done : State::receive_done, arguments);
  }
  stop(handle);
}

void ProfilerPlugin::record(Handle handle, State state, StateArguments arguments) {
  if (handle == nullptr || failed_ || record_state_ == nullptr) return;
  check(record_state_(handle, state, &arguments), "recordEventState");
}

void ProfilerPlugin::stop_kernel(Handle handle) {
  if (handle == nullptr || failed_) return;
  StateArguments arguments{};
  arguments.kernel_time_ns = monotonic_ns();
  if (version_ >= kSinceKernelTimes) record(handle, State::kernel_stop, arguments);
  stop(handle);
}

void ProfilerPlugin::stop(Handle handle) {
  if (handle != nullptr && !failed_) check(stop_event_(handle), "stopEvent");
}

}  // namespace sccl::runtime
