// A profiler plugin of NCCL's users (NCCL_PROFILER_PLUGIN), whatever its version.
//
// The events of a call, as NCCL nests them (API events since version 5; before, the group is a collective's parent):
//
//   group API    (one for each communicator and outermost group, or call outside of one)
//     collective API, transfer API        what the program asked for
//     kernel launch                       on devices
//   group
//     collective, transfer                from its beginning to its end; on devices until it is enqueued
//       kernel channel                    on the host: channel 0, while the call moves data
//
// Proxy, network and copy engine events are never told.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/call/requests.h"
#include "runtime/plugins/plugin_library.h"
#include "runtime/plugins/profiler_abi.h"

namespace sccl::runtime {

// The plugin as one communicator's rank uses it, from init to finalize. Calls come from the thread that makes the
// rank's calls.
class ProfilerPlugin {
 public:
  struct Communicator {
    std::uint64_t identity = 0;
    std::string name;
    Rank rank = 0;
    int ranks = 1;
    int hosts = 1;
  };
  // Null when there is no plugin, or it cannot be used: one line says why.
  static std::unique_ptr<ProfilerPlugin> open(Communicator communicator);
  ~ProfilerPlugin();
  ProfilerPlugin(const ProfilerPlugin&) = delete;
  ProfilerPlugin& operator=(const ProfilerPlugin&) = delete;

  using Handle = void*;  // null: the plugin does not want the event
  // Bits of profiler_abi::Kind; a plugin may change them at any time. What wants a child gets its parents.
  bool wants(int kinds) const { return !failed_ && (mask() & kinds) != 0; }

  Handle start_group_api();
  Handle start_api(const CollectiveRequest& request, Handle group_api);
  Handle start_api(const PointToPointRequest& request, Handle group_api);
  Handle start_launch(StreamHandle stream, Handle group_api);
  Handle start_group();
  // `algorithm` and `protocol`: what serves the call, "" when that is not known.
  struct Served {
    std::string algorithm;
    std::string protocol;
  };
  Handle start(const CollectiveRequest& request, const Served& served, Handle api, Handle group);
  Handle start(const PointToPointRequest& request, Handle api, Handle group);
  Handle start_kernel(Handle call);
  void record(Handle handle, profiler_abi::State state);
  void stop_kernel(Handle handle);
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
