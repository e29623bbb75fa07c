// PutSignal, Signal and WaitSignal on a device: one short kernel each, in the stream's order like any other call; or
// ordered by the stream alone (stream_signals.h).
#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "runtime/gpu/kernel/device_executor.h"

namespace sccl::runtime {
namespace {

using device::u32;
using device::u64;
using device::u8;
using device::gpu::kMostWaits;

constexpr std::size_t kLeastPutPartBytes = 64 * 1024;  // of a block
constexpr std::size_t kSmallPutBytes = 16 * 1024;
constexpr u32 kFewThreads = 128;

u64* pointer(gpu::Address address) { return reinterpret_cast<u64*>(address); }

// Waits for one signal are one wait.
std::vector<SignalWait> merge(std::span<const SignalWait> waits) {
  std::map<std::tuple<Rank, int, int>, SignalWait> merged;
  for (const SignalWait& wait : waits) {
    const auto [entry, fresh] = merged.try_emplace({wait.from.peer, wait.from.signal, wait.from.context}, wait);
    if (!fresh) entry->second.count += wait.count;
  }
  std::vector<SignalWait> all;
  for (const auto& [address, wait] : merged) all.push_back(wait);
  return all;
}

}  // namespace

void DeviceExecutor::check(const PutRequest& request) const {
  if (!request.data.empty()) check_buffer(request.data.data(), "the data of PutSignal");
}

void DeviceExecutor::prepare(const PutRequest& request) {
  if (signals_ && signals_->serve()) return prepare_in_stream(request);
  const SignalAddress& to = request.to;
  OneSidedArguments arguments{};
  if (request.window != nullptr) {
    arguments.from = reinterpret_cast<const u8*>(request.data.data());
    arguments.to = reinterpret_cast<u8*>(request.window->bases[static_cast<std::size_t>(to.peer)] + request.offset);
    arguments.bytes = request.data.size();
  }
  arguments.arrived = pointer(on_device_.signal(to.peer, membership_.rank, to.signal, to.context));
  arguments.sent = resources_->tables().sent(to.peer, to.signal, to.context);
  prepare_one_sided(arguments, request.stream);
}

// More waits than a launch holds go one after another, in which order does not matter.
void DeviceExecutor::prepare(std::span<const SignalWait> waits, StreamHandle stream) {
  const std::vector<SignalWait> merged = merge(waits);
  if (signals_ && signals_->serve()) {
    const gpu::Current current(on_device_.device);
    if (signals_->serve_wait(gpu::capture_of(driver_, stream_for(stream)).id != 0))
      return prepare_in_stream(merged, stream_for(stream));
  }
  OneSidedArguments arguments{};
  for (auto next = merged.begin(); next != merged.end();) {
    const SignalAddress& from = next->from;
    arguments.waits[arguments.wait_count++] = {
        pointer(on_device_.signal(membership_.rank, from.peer, from.signal, from.context)),
        resources_->tables().used(from.peer, from.signal, from.context), next->count, from.peer};
    if (++next != merged.end() && arguments.wait_count < kMostWaits) continue;
    prepare_one_sided(arguments, stream);
    arguments.wait_count = 0;
  }
}

void DeviceExecutor::prepare_one_sided(const OneSidedArguments& given, StreamHandle stream) {
  watch_.check();
  const gpu::Current current(on_device_.device);
  Prepared& prepared = new_prepared(stream_for(stream));
  prepared.one_sided = std::make_unique<OneSidedArguments>(given);
  OneSidedArguments& arguments = *prepared.one_sided;
  const auto parts = static_cast<u32>(
      std::min<std::size_t>(arguments.bytes / kLeastPutPartBytes, static_cast<std::size_t>(on_device_.blocks)));
  arguments.blocks = std::max(1u, parts);
  arguments.rank = static_cast<u32>(membership_.rank);
  arguments.control = resources_->control();
  arguments.host = resources_->device_words();
  if (prepared.capture.id == 0) prepared.sequence = ++launches_;
  arguments.sequence = prepared.sequence;
  arguments.ticket = ++tickets_;
  watch_.in_flight().launched_one_sided(arguments.sequence);
  const u32 threads = arguments.bytes <= kSmallPutBytes ? kFewThreads : device::gpu::kMostThreads;
  prepared.kernel = {resources_->kernels().function(kernels::kOneSided), arguments.blocks, threads, 0};
}

}  // namespace sccl::runtime
