// Prepares calls that streams order, without kernels that wait (transport/stream/stream_path.h). Decides which calls
// these are; all ranks decide alike.
#pragma once

#include <span>
#include <vector>

#include "runtime/call/requests.h"
#include "runtime/call/window.h"
#include "runtime/choice/plan_cache.h"
#include "runtime/gpu/launch/prepared_calls.h"
#include "runtime/gpu/program/call_chunks.h"
#include "runtime/gpu/resources/device_resources.h"
#include "runtime/gpu/stream/stream_calls.h"
#include "runtime/gpu/stream/stream_signals.h"
#include "runtime/gpu/watch/buffer_withdrawal.h"
#include "runtime/membership/membership.h"

namespace sccl::runtime {

class StreamedCalls {
 public:
  // `resources` has a stream path; all must outlive this object.
  StreamedCalls(const Membership& membership, DeviceResources& resources, const BufferWithdrawal& withdrawal,
                PreparedCalls& prepared);

  // Whether streams order this call.
  bool serve(const CollectiveRequest& request, gpu::Stream stream);
  bool serve_puts() const { return signals_.serve(); }
  bool serve_wait(gpu::Stream stream) const;

  // `described` comes from CollectiveRecords::describe for this collective. The plan must outlive the call.
  void prepare(const CollectiveRequest& request, const Plan& plan, const device::Call& described, gpu::Stream stream);
  void prepare(const PutRequest& request, gpu::Stream stream);
  // `waits` are merged.
  void prepare(std::span<const SignalWait> waits, gpu::Stream stream);
  // Streams move the large transfers of a batch: prepare_large() selects them. Kernels move the others first, on all
  // ranks, so neither part waits for the other.
  std::vector<PointToPointRequest> small_of(std::span<const PointToPointRequest> batch, gpu::Stream stream);
  void prepare_large(std::span<const PointToPointRequest> batch, gpu::Stream stream);

 private:
  bool serve(bool reduces, std::size_t bytes, gpu::Stream stream);
  bool serve(const PointToPointRequest& request, gpu::Stream stream);
  static void set_scale(StreamCalls::Shape& shape, const CollectiveRequest& request, int ranks);

  const Membership& membership_;
  DeviceResources& resources_;
  const BufferWithdrawal& withdrawal_;
  PreparedCalls& prepared_;
  StreamCalls calls_;
  StreamSignals signals_;
  CallChunks chunks_;
  bool told_of_capture_ = false;
};

}  // namespace sccl::runtime
