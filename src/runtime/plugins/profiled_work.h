// Reports the work of one communicator to its profiler plugin, from the beginning to the end of a group, or of a call
// outside of a group. Exists only if there is a plugin.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "runtime/plugins/profiler.h"

namespace sccl::runtime {

class ProfiledWork {
 public:
  using Handle = ProfilerPlugin::Handle;

  // Reports the calls of the program and the beginning of the group. All arguments must outlive this object.
  ProfiledWork(ProfilerPlugin& plugin, std::span<const CollectiveRequest> collectives,
               std::span<const PointToPointRequest> transfers);
  // Ends all open events, also after an error.
  ~ProfiledWork();
  ProfiledWork(const ProfiledWork&) = delete;
  ProfiledWork& operator=(const ProfiledWork&) = delete;

  // Report that the next collective, or all transfers, have begun. `On::host`: the calling thread moves the data.
  // `traffic`: of the collective, or of all transfers.
  enum class On : std::uint8_t { host, device };
  using Traffic = std::vector<RemoteTraffic>;
  void begin_collective(const ProfilerPlugin::Served& served, On on, Traffic traffic = {});
  void begin_transfers(On on, Traffic traffic = {});
  void end();

  void begin_launch(StreamHandle stream) { launch_ = plugin_.start_launch(stream, group_api_); }
  void end_launch() {
    plugin_.stop(launch_);
    launch_ = nullptr;
  }

 private:
  void open_kernel(Handle call, On on);
  void open_proxy(Handle call, const RemoteTraffic& traffic);

  ProfilerPlugin& plugin_;
  const std::span<const CollectiveRequest> collectives_;
  const std::span<const PointToPointRequest> transfers_;
  Handle group_api_ = nullptr;
  Handle group_ = nullptr;
  Handle launch_ = nullptr;
  std::vector<Handle> apis_;     // of collectives, then of transfers
  std::vector<Handle> open_;     // calls in progress
  std::vector<Handle> kernels_;  // of the calls in progress
  std::vector<std::pair<Handle, RemoteTraffic>> proxies_;
  std::size_t next_ = 0;  // number of the next collective
};

}  // namespace sccl::runtime
