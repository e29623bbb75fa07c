// A profiler plugin for NCCL (NCCL_PROFILER_PLUGIN) of any version.
//
// The events of a call, nested as in NCCL. API events exist since version 5; before, the group is a collective's
// parent:
//
//   group API    (one for each communicator and outermost group, or for each call outside of a group)
//     collective API, transfer API        the program's calls
//     kernel launch                       on devices
//   group
//     collective, transfer                from the call's beginning to its end; on devices until it is enqueued
//       kernel channel                    on the host: channel 0, while the call moves data
//       proxy operation                   for each rank of another host and direction, while the call moves data
//
// Proxy steps, network and copy engine events are never reported.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/call/requests.h"
#include "runtime/plugins/plugin_library.h"
#include "runtime/plugins/profiler_abi.h"

namespace sccl::runtime {

// The plugin of one communicator's rank, from init to finalize. Used only by the thread that makes the rank's calls.
class ProfilerPlugin {
 public:
  struct Communicator {
    std::uint64_t identity = 0;
    std::string name;
    Rank rank = 0;
    int ranks = 1;
    int hosts = 1;
  };
  // Null when there is no plugin, or the plugin cannot be used; one log line says why.
  static std::unique_ptr<ProfilerPlugin> open(Communicator communicator);
  ~ProfilerPlugin();
  ProfilerPlugin(const ProfilerPlugin&) = delete;
  ProfilerPlugin& operator=(const ProfilerPlugin&) = delete;

  using Handle = void*;  // null: the plugin does not want the event
  // Whether the plugin wants one of `kinds`, which are bits of profiler_abi::Kind. The plugin may change its mask at
  // any time. A plugin that wants a child event also gets the parent events.
  bool wants(int kinds) const { return !failed_ && (mask() & kinds) != 0; }

  Handle start_group_api();
  Handle start_api(const CollectiveRequest& request, Handle group_api);
  Handle start_api(const PointToPointRequest& request, Handle group_api);
  Handle start_launch(StreamHandle stream, Handle group_api);
  Handle start_group();
  // The algorithm and protocol that serve the call; "" when not known.
  struct Served {
    std::string algorithm;
    std::string protocol;
  };
  Handle start(const CollectiveRequest& request, const Served& served, Handle api, Handle group);
  Handle start(const PointToPointRequest& request, Handle api, Handle group);
  Handle start_kernel(Handle call);
  Handle start_proxy(Handle call, const RemoteTraffic& traffic);
  void record(Handle handle, profiler_abi::State state, profiler_abi::StateArguments arguments = {});
  void stop_kernel(Handle handle);
  void stop_proxy(Handle handle, const RemoteTraffic& traffic);
  void stop(Handle handle);

 private:
  ProfilerPlugin(std::shared_ptr<PluginLibrary> library, int version, Communicator communicator)
      : library_(std::move(library)), version_(version), communicator_(std::move(communicator)) {}
  static int& shared_mask();
  static int mask();
  bool bind_and_init(const void* symbol);
  template <typename Init>
  bool bind(const profiler_abi::Table<Init>& table);
  template <typename Descriptor>
  Handle start_event(Descriptor& descriptor, int kind, Handle parent);
  template <typename Descriptor>
  Handle start_of(const CollectiveRequest& request, const Served& served, Handle api, Handle group);
  template <typename Descriptor>
  Handle start_of(const PointToPointRequest& request, Handle api, Handle group);
  void check(int result, const char* function);

  std::shared_ptr<PluginLibrary> library_;
  int version_;
  Communicator communicator_;
  void* context_ = nullptr;
  bool initialised_ = false;
  bool failed_ = false;
  std::array<std::uint64_t, kCollectiveCount> sequences_{};
  int (*start_event_)(void*, void**, void*) = nullptr;
  int (*stop_event_)(void*) = nullptr;
  int (*record_state_)(void*, int, profiler_abi::StateArguments*) = nullptr;
  int (*finalize_)(void*) = nullptr;
};

}  // namespace sccl::runtime
