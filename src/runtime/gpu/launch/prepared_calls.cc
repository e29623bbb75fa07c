#include "runtime/gpu/launch/prepared_calls.h"

namespace sccl::runtime {

PreparedCall& PreparedCalls::add(gpu::Stream stream) {
  if (taken_ == count_) drop();
  if (count_ == calls_.size()) calls_.push_back(std::make_unique<PreparedCall>());
  PreparedCall& call = *calls_[count_];
  call.stream = stream;
  call.capture = gpu::capture_of(driver_, stream);
  call.collective = false;
  call.in_stream = nullptr;
  call.by_vendor = nullptr;
  call.sequence = 0;
  call.upload = {};
  call.clock = nullptr;
  call.launched = nullptr;
  call.one_sided = nullptr;
  ++count_;
  return call;
}

PreparedCall* PreparedCalls::take() { return taken_ == count_ ? nullptr : calls_[taken_++].get(); }

}  // namespace sccl::runtime
