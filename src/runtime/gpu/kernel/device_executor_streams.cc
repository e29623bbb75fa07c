// The executor's calls that streams order instead of kernels that wait (stream_path.h): which these are, and how they
// are enqueued.
#include <algorithm>

#include "base/error.h"
#include "base/settings/log.h"
#include "runtime/choice/dispatcher.h"
#include "runtime/gpu/kernel/device_executor.h"
#include "runtime/program/reduction.h"

namespace sccl::runtime {

using device::u64;

// Where a driver cannot capture what streams wait for, a captured call is a kernel, on all ranks alike.
bool DeviceExecutor::goes_by_stream(bool reduces, std::size_t bytes, gpu::Stream stream) {
  if (!streams_) return false;
  const bool captured = gpu::capture_of(driver_, stream).id != 0;
  if (streams_->serve(reduces, bytes, captured)) return true;
  if (captured && streams_->serve(reduces, bytes, false) && !std::exchange(told_of_capture_, true))
    log::info(log::Subsystem::init,
              "rank {}: this driver captures no waits for values, so captured calls are kernels that "
              "wait: update it to CUDA 12",
              membership_.rank);
  return false;
}

// Hops cost more than bytes: between processes each takes a turn of the device, and engines start slowly. So it is the
// choice of ranks that reach one another's memory, without their protocols.
Choice DeviceExecutor::choose_for_stream(const CollectiveRequest& request) {
  Choice choice;
  if (schedule_model_) {
    choice = usual_choice(request, {});
  } else {
    Settings settings = WishedSettings(membership_.settings, membership_.wish_of(request)).get();
    settings.protocol = ProtocolChoice::simple;
    choice = choose_on_device({request.collective, request.count * size_bytes(request.type), membership_.ranks},
                              settings, {true, false});
  }
  choice.form = Form::slots;
  choice.protocol = ProtocolChoice::simple;
  return choice;
}

template <typename Enqueue>
void DeviceExecutor::submit_to_stream(gpu::Stream stream, Enqueue&& enqueue) {
  const gpu::CaptureState capture = gpu::capture_of(driver_, stream);
  const u64 sequence = capture.id == 0 ? ++launches_ : 0;
  const auto launching = gate_.launching();
  watch_.launching_in_stream(sequence);
  try {
    order_after_last(stream, capture);
    if (capture.id != 0) keep_for_graph(capture);
    enqueue(sequence);
    enqueued(stream, capture);
    if (sequence != 0) enqueued_ = sequence;
  } catch (const Error&) {
    watch_.not_launched(sequence);
    throw;
  }
}

void DeviceExecutor::prepare_in_stream(const CollectiveRequest& request) {
  begin(request, {});
  const Choice choice = choose_for_stream(request);
  const Rank root = info(request.collective).rooted ? request.root : 0;
  const Plan& plan = plans_.find(request.collective, root, choice, schedule_model_.get());
  places_.resize(static_cast<std::size_t>(plan.schedule.chunks));
  schedule::place_chunks(plan.schedule, request.count, size_bytes(request.type), places_);
  chunks_.clear();
  for (const schedule::ChunkPlace& place : places_)
    chunks_.push_back({place.input_offset, place.output_offset, place.elements, 0, 0});

  StreamCalls::Shape shape;
  describe(shape.call, request);
  if (info(request.collective).reduces) {
    Reduction known = request.reduction;
    known.scalar_pointer = nullptr;
    apply_reduction(known, request.type, membership_.ranks, shape.call);
    shape.scale_pointer = static_cast<const u64*>(request.reduction.scalar_pointer);
    // A kernel that cannot be had is told before peers wait for it.
    resources_->kernels().function({true, request.type, shape.call.kernel, kernels::KernelForm::move});
  }
  shape.stream = stream_for(request.stream);
  streams_->prepare(plan, chunks_, shape);
  Prepared& prepared = new_prepared(shape.stream);
  prepared.counts = true;
  prepared.in_stream = [this, &plan, shape, chunks = chunks_]() mutable {
    submit_to_stream(shape.stream, [&](u64 sequence) {
      shape.sequence = sequence;
      streams_->enqueue(plan, chunks, shape);
    });
  };
  CallSignature signature;
  if (log::enabled(log::Level::info, log::Subsystem::tuning) &&
      membership_.control.calls().read(membership_.rank, calls_, signature))
    log::info(log::Subsystem::tuning, "rank {}/{}: call {} {}: {}, ordered by streams", membership_.rank,
              membership_.ranks, calls_, signature.text(), text(choice));
}

// A kernel that cannot be had is told before peers wait for it.
void DeviceExecutor::prepare_in_stream(const PutRequest& request) {
  watch_.check();
  const gpu::Current current(on_device_.device);
  resources_->kernels().function(kernels::kSignal);
  const gpu::Stream stream = stream_for(request.stream);
  new_prepared(stream).in_stream = [this, stream, request] {
    submit_to_stream(stream, [&](u64 sequence) {
      // The window may be gone; pairs with settle_streams, which sees that this call is under way.
      refuse_after_withdrawal();
      signals_->put(request, stream, sequence);
    });
  };
}

void DeviceExecutor::prepare_in_stream(std::span<const SignalWait> waits, gpu::Stream stream) {
  watch_.check();
  resources_->kernels().function(kernels::kSignal);
  new_prepared(stream).in_stream = [this, stream, waits = std::vector<SignalWait>(waits.begin(), waits.end())] {
    submit_to_stream(stream, [&](u64 sequence) { signals_->wait(waits, stream, sequence); });
  };
}

// Both ends of a transfer decide by its size alone, whatever else is in their batches. What kernels move comes first at
// all ranks, so that neither part waits for the other.
void DeviceExecutor::prepare_in_stream(std::span<const PointToPointRequest> batch) {
  const gpu::Stream stream = stream_for(batch.front().stream);
  small_.clear();
  large_.clear();
  for (const PointToPointRequest& request : batch)
    (goes_by_stream(false, request.count * size_bytes(request.type), stream) ? large_ : small_).push_back(request);
  if (!small_.empty()) prepare_in_kernel(small_);
  if (large_.empty()) return;
  auto transfers = std::make_shared<TransferBatch>();
  transfers->lower(large_, membership_.rank, membership_.ranks, false);
  StreamCalls::Shape shape;
  shape.call.type = DataType::int8;
  shape.call.element_bytes = 1;
  shape.call.divisor = 1;
  shape.stream = stream;
  new_prepared(stream).in_stream = [this, stream, shape, transfers]() mutable {
    submit_to_stream(stream, [&](u64 sequence) {
      shape.sequence = sequence;
      streams_->enqueue(transfers->program(), transfers->chunks(), shape);
    });
  };
}

}  // namespace sccl::runtime
