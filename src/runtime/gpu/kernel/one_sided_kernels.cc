#include "runtime/gpu/kernel/one_sided_kernels.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace sccl::runtime {
namespace {

using device::u32;
using device::u64;
using device::u8;
using device::gpu::kMostWaits;
using device::gpu::OneSidedArguments;

constexpr std::size_t kLeastPutPartBytes = 64 * 1024;  // that one block moves
constexpr std::size_t kSmallPutBytes = 16 * 1024;
constexpr u32 kFewThreads = 128;

u64* pointer(gpu::Address address) { return reinterpret_cast<u64*>(address); }

}  // namespace

std::vector<SignalWait> merge_waits(std::span<const SignalWait> waits) {
  std::map<std::tuple<Rank, int, int>, SignalWait> merged;
  for (const SignalWait& wait : waits) {
    const auto [entry, fresh] = merged.try_emplace({wait.from.peer, wait.from.signal, wait.from.context}, wait);
    if (!fresh) entry->second.count += wait.count;
  }
  std::vector<SignalWait> all;
  for (const auto& [address, wait] : merged) all.push_back(wait);
  return all;
}

OneSidedKernels::OneSidedKernels(const Membership& membership, DeviceResources& resources, CallsInFlight& in_flight,
                                 KernelSequence& sequence, PreparedCalls& prepared)
    : membership_(membership), resources_(resources), in_flight_(in_flight), sequence_(sequence), prepared_(prepared) {}

void OneSidedKernels::prepare(const PutRequest& request, gpu::Stream stream) {
  const SignalAddress& to = request.to;
  OneSidedArguments arguments{};
  if (request.window != nullptr) {
    arguments.from = reinterpret_cast<const u8*>(request.data.data());
    arguments.to = reinterpret_cast<u8*>(request.window->bases[static_cast<std::size_t>(to.peer)] + request.offset);
    arguments.bytes = request.data.size();
  }
  arguments.arrived = pointer(membership_.on_device->signal(to.peer, membership_.rank, to.signal, to.context));
  arguments.sent = resources_.tables().sent(to.peer, to.signal, to.context);
  prepare(arguments, stream);
}

void OneSidedKernels::prepare(std::span<const SignalWait> waits, gpu::Stream stream) {
  OneSidedArguments arguments{};
  for (auto next = waits.begin(); next != waits.end();) {
    const SignalAddress& from = next->from;
    arguments.waits[arguments.wait_count++] = {
        pointer(membership_.on_device->signal(membership_.rank, from.peer, from.signal, from.context)),
        resources_.tables().used(from.peer, from.signal, from.context), next->count, from.peer};
    if (++next != waits.end() && arguments.wait_count < kMostWaits) continue;
    prepare(arguments, stream);
    arguments.wait_count = 0;
  }
}

void OneSidedKernels::prepare(const OneSidedArguments& given, gpu::Stream stream) {
  PreparedCall& prepared = prepared_.add(stream);
  prepared.one_sided = std::make_unique<OneSidedArguments>(given);
  OneSidedArguments& arguments = *prepared.one_sided;
  const auto parts = static_cast<u32>(std::min<std::size_t>(arguments.bytes / kLeastPutPartBytes,
                                                            static_cast<std::size_t>(membership_.on_device->blocks)));
  arguments.blocks = std::max(1u, parts);
  arguments.rank = static_cast<u32>(membership_.rank);
  arguments.control = resources_.control();
  arguments.host = resources_.device_words();
  prepared.sequence = sequence_.next(prepared.capture);
  arguments.sequence = prepared.sequence;
  arguments.ticket = sequence_.next_ticket();
  in_flight_.launched_one_sided(arguments.sequence);
  const u32 threads = arguments.bytes <= kSmallPutBytes ? kFewThreads : device::gpu::kUsualThreads;
  prepared.kernel = {resources_.kernels().function(kernels::kOneSided), arguments.blocks, threads, 0};
}

}  // namespace sccl::runtime
