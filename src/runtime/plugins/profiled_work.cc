#include "runtime/plugins/profiled_work.h"

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

void ProfiledWork::begin_collective(const ProfilerPlugin::Served& served, On on) {
  end();
  const std::size_t at = next_++;
  open_kernel(plugin_.start(collectives_[at], served, apis_[at], group_), on);
}

void ProfiledWork::begin_transfers(On on) {
  end();
  for (std::size_t i = 0; i < transfers_.size(); ++i)
    open_kernel(plugin_.start(transfers_[i], apis_[collectives_.size() + i], group_), on);
}

void ProfiledWork::end() {
  for (const Handle kernel : kernels_) plugin_.stop_kernel(kernel);
  for (const Handle call : open_) plugin_.stop(call);
  kernels_.clear();
  open_.clear();
}

}  // namespace sccl::runtime
