#include "runtime/gpu/kernel/streamed_calls.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/settings/log.h"
#include "runtime/program/reduction.h"
#include "runtime/program/transfers.h"

namespace sccl::runtime {

using device::u64;

StreamedCalls::StreamedCalls(const Membership& membership, DeviceResources& resources,
                             const BufferWithdrawal& withdrawal, PreparedCalls& prepared)
    : membership_(membership),
      resources_(resources),
      withdrawal_(withdrawal),
      prepared_(prepared),
      calls_(resources),
      signals_(resources) {}

// If a driver cannot capture stream waits, a captured call is a kernel, on all ranks alike.
bool StreamedCalls::serve(bool reduces, std::size_t bytes, gpu::Stream stream) {
  const bool captured = gpu::capture_of(*membership_.on_device->device.driver, stream).id != 0;
  if (calls_.serve(reduces, bytes, captured)) return true;
  if (captured && calls_.serve(reduces, bytes, false) && !std::exchange(told_of_capture_, true))
    log::info(log::Subsystem::init,
              "rank {}: this driver captures no waits for values, so captured calls are kernels that "
              "wait: update it to CUDA 12",
              membership_.rank);
  return false;
}

bool StreamedCalls::serve(const CollectiveRequest& request, gpu::Stream stream) {
  return serve(info(request.collective).reduces, request.count * size_bytes(request.type), stream);
}

// Both ends of a transfer decide by the transfer's size alone, because their batches may differ.
bool StreamedCalls::serve(const PointToPointRequest& request, gpu::Stream stream) {
  return serve(false, request.count * size_bytes(request.type), stream);
}

bool StreamedCalls::serve_wait(gpu::Stream stream) const {
  if (!signals_.serve()) return false;
  return signals_.serve_wait(gpu::capture_of(*membership_.on_device->device.driver, stream).id != 0);
}

// A factor in device memory is read when the kernels run.
void StreamedCalls::set_scale(StreamCalls::Shape& shape, const CollectiveRequest& request, int ranks) {
  Reduction known = request.reduction;
  known.scalar_pointer = nullptr;
  apply_reduction(known, request.type, ranks, shape.call);
  shape.scale_pointer = static_cast<const u64*>(request.reduction.scalar_pointer);
}

void StreamedCalls::prepare(const CollectiveRequest& request, const Plan& plan, const device::Call& described,
                            gpu::Stream stream) {
  const std::vector<device::Chunk>& chunks = chunks_.place(plan, request.count, size_bytes(request.type));
  StreamCalls::Shape shape;
  shape.call = described;
  shape.stream = stream;
  shape.longest = chunks_.longest();
  if (info(request.collective).reduces) {
    set_scale(shape, request, membership_.ranks);
    // Throws if the kernel cannot be loaded, before any peer waits for this rank.
    resources_.kernels().function({true, request.type, shape.call.kernel, kernels::KernelForm::move});
  }
  calls_.prepare(plan, chunks, shape);
  PreparedCall& prepared = prepared_.add(stream);
  prepared.collective = true;
  prepared.in_stream = [this, &plan, shape, chunks](u64 sequence) mutable {
    shape.sequence = sequence;
    calls_.enqueue(plan, chunks, shape);
  };
}

void StreamedCalls::prepare(const PutRequest& request, gpu::Stream stream) {
  resources_.kernels().function(kernels::kSignal);  // may throw: before peers wait for the kernel
  prepared_.add(stream).in_stream = [this, stream, request](u64 sequence) {
    // The peer may have taken its window back; pairs with DeviceWatch::settle_streams, which sees that this call is in
    // flight.
    withdrawal_.refuse_after_withdrawal();
    signals_.put(request, stream, sequence);
  };
}

void StreamedCalls::prepare(std::span<const SignalWait> waits, gpu::Stream stream) {
  resources_.kernels().function(kernels::kSignal);
  prepared_.add(stream).in_stream = [this, stream, waits = std::vector<SignalWait>(waits.begin(), waits.end())](
                                        u64 sequence) { signals_.wait(waits, stream, sequence); };
}

std::vector<PointToPointRequest> StreamedCalls::small_of(std::span<const PointToPointRequest> batch,
                                                         gpu::Stream stream) {
  std::vector<PointToPointRequest> small;
  std::copy_if(batch.begin(), batch.end(), std::back_inserter(small),
               [&](const PointToPointRequest& request) { return !serve(request, stream); });
  return small;
}

void StreamedCalls::prepare_large(std::span<const PointToPointRequest> batch, gpu::Stream stream) {
  std::vector<PointToPointRequest> large;
  std::copy_if(batch.begin(), batch.end(), std::back_inserter(large),
               [&](const PointToPointRequest& request) { return serve(request, stream); });
  if (large.empty()) return;
  auto transfers = std::make_shared<TransferBatch>();
  transfers->lower(large, membership_.rank, membership_.ranks, false);
  StreamCalls::Shape shape;
  shape.call.type = DataType::int8;
  shape.call.element_bytes = 1;
  shape.call.divisor = 1;
  shape.stream = stream;
  prepared_.add(stream).in_stream = [this, shape, transfers](u64 sequence) mutable {
    shape.sequence = sequence;
    calls_.enqueue(transfers->program(), transfers->chunks(), shape);
  };
}

}  // namespace sccl::runtime
