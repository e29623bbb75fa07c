#include "runtime/plugins/profiled_work.h"

#include <algorithm>

namespace sccl::runtime {

ProfiledWork::ProfiledWork(ProfilerPlugin& plugin, std::span<const CollectiveRequest> collectives,
                           std::span<const PointToPointRequest> transfers)
    : plugin_(plugin), collectives_(collectives), transfers_(transfers) {
  group_api_ = plugin_.start_group_api();
  plugin_.record(group_api_, profiler_abi::State::group_start_ended);
  const auto tell = [&](const auto& request) {
    apis_.push_back(plugin_.start_api(request, group_api_));
    plugin_.stop(apis_.back());
  };
  for (const CollectiveRequest& request : collectives_) tell(request);
  for (const PointToPointRequest& request : transfers_) tell(request);
  plugin_.record(group_api_, profiler_abi::State::group_end_began);
  group_ = plugin_.start_group();
}

ProfiledWork::~ProfiledWork() {
  end_launch();
  end();
  plugin_.stop(group_);
  plugin_.stop(group_api_);
}

void ProfiledWork::open_kernel(Handle call, On on) {
  if (call == nullptr) return;
  open_.push_back(call);
  if (on == On::host) kernels_.push_back(plugin_.start_kernel(call));
}

void ProfiledWork::open_proxy(Handle call, const RemoteTraffic& traffic) {
  if (const Handle proxy = plugin_.start_proxy(call, traffic); proxy != nullptr) proxies_.emplace_back(proxy, traffic);
}

void ProfiledWork::begin_collective(const ProfilerPlugin::Served& served, On on, Traffic traffic) {
  end();
  const std::size_t at = next_++;
  const Handle call = plugin_.start(collectives_[at], served, apis_[at], group_);
  open_kernel(call, on);
  for (const RemoteTraffic& one : traffic) open_proxy(call, one);
}

void ProfiledWork::begin_transfers(On on, Traffic traffic) {
  end();
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    const PointToPointRequest& transfer = transfers_[i];
    const Handle call = plugin_.start(transfer, apis_[collectives_.size() + i], group_);
    open_kernel(call, on);
    // Several transfers with one rank share what is counted by rank; the first has the event.
    const auto own = std::find_if(traffic.begin(), traffic.end(), [&](const RemoteTraffic& one) {
      return one.peer == transfer.peer && one.direction == transfer.direction;
    });
    if (call == nullptr || own == traffic.end()) continue;
    open_proxy(call, *own);
    traffic.erase(own);
  }
}

void ProfiledWork::end() {
  for (const auto& [proxy, traffic] : proxies_) plugin_.stop_proxy(proxy, traffic);
  for (const Handle kernel : kernels_) plugin_.stop_kernel(kernel);
  for (const Handle call : open_) plugin_.stop(call);
  proxies_.clear();
  kernels_.clear();
  open_.clear();
}

}  // namespace sccl::runtime
