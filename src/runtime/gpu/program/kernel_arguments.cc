#include "runtime/gpu/program/kernel_arguments.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/program/even_slices.h"

namespace sccl::runtime {
namespace {

using device::u32;
using device::u64;
using device::gpu::CallArguments;

constexpr std::size_t kSmallPartBytes = 4 * 1024;
constexpr std::size_t kUsualPartBytes = 16 * 1024;  // longer ones keep more threads busy
constexpr u32 kFewThreads = 128;
constexpr u32 kLineThreads = 256;  // they move half of a slot's lines at once
constexpr std::size_t kFewOps = 4;

// Of a block that moves so many bytes at a time.
u32 threads_for(device::Protocol protocol, std::size_t bytes, bool wide_blocks) {
  if (protocol == device::Protocol::ll128) return kLineThreads;
  if (bytes <= kSmallPartBytes || protocol == device::Protocol::ll) return kFewThreads;
  return wide_blocks && bytes > kUsualPartBytes ? device::gpu::kMostThreads : device::gpu::kUsualThreads;
}

// A transfer that takes fewer channels may have longer parts than the longest transfer has.
u64 most_elements_of_a_part(const CallArguments& arguments, const KernelArguments::Geometry& geometry) {
  const device::Chunk longest{0, 0, geometry.longest_bytes / arguments.call.element_bytes, 0, 0};
  const u64 part = device::part_of(longest, arguments.call.element_bytes, arguments.channels, 0).elements;
  return geometry.parts_by_chunk ? std::max<u64>(part, 2 * geometry.least_part_bytes) : part;
}

}  // namespace

KernelArguments::KernelArguments(const Membership& membership, DeviceResources& resources, PackageLoans& loans,
                                 KernelSequence& sequence)
    : membership_(membership), resources_(resources), loans_(loans), sequence_(sequence) {}

void KernelArguments::reset(CallArguments& arguments) {
  std::memset(static_cast<void*>(&arguments), 0, offsetof(CallArguments, chunks));
}

void KernelArguments::fill(PreparedCall& prepared, const kernels::FlatProgram& flat, const Geometry& geometry) {
  CallArguments& arguments = prepared.call;
  set_split(arguments, flat, geometry);
  device::Call& call = arguments.call;
  const u64 most = most_elements_of_a_part(arguments, geometry);
  if (geometry.slots == SlotsOfCall::divided)
    call.slice_elements = kernels::even_slice(most, call.slice_elements, call.element_bytes);
  call.slice_count = std::max<u64>(1, (most + call.slice_elements - 1) / call.slice_elements);
  const u64 message_bytes = std::min(most, call.slice_elements) * call.element_bytes;
  prepared.kernel.threads = threads_for(call.protocol, message_bytes, membership_.on_device->wide_blocks);
  if (geometry.slots == SlotsOfCall::divided)
    call.slot_shift = device::gpu::slot_shift_for(message_bytes, membership_.on_device->layout.slot_bytes());
  // A block runs few operations on short messages faster than blocks tell one another that they have finished.
  if (call.protocol == device::Protocol::ll && call.slice_count == 1 && flat.op_count() <= kFewOps)
    arguments.blocks_per_channel = 1;
  set_memory(arguments, flat, most);
  arguments.connections = resources_.tables().connections();
  arguments.connections_per_channel = resources_.tables().connections_per_channel();
  arguments.control = resources_.control();
  arguments.peer_controls = resources_.tables().peer_controls();
  arguments.ranks = static_cast<u32>(membership_.ranks);
  arguments.rank = static_cast<u32>(membership_.rank);
  arguments.host = resources_.device_words();
}

void KernelArguments::set_split(CallArguments& arguments, const kernels::FlatProgram& flat, const Geometry& geometry) {
  const DeviceMembership& devices = *membership_.on_device;
  arguments.split = {static_cast<u32>(devices.layout.channels()), geometry.least_part_bytes};
  arguments.parts_by_chunk = geometry.parts_by_chunk;
  arguments.channels = device::parts_of(arguments.split, geometry.longest_bytes);
  const int blocks = geometry.most_blocks > 0 ? std::min(geometry.most_blocks, devices.blocks) : devices.blocks;
  const u32 room = static_cast<u32>(blocks) / arguments.channels;
  arguments.blocks_per_channel = std::clamp(static_cast<u32>(flat.lane_count()), 1u, std::max(1u, room));
}

void KernelArguments::set_memory(CallArguments& arguments, const kernels::FlatProgram& flat, u64 most_elements) {
  device::Call& call = arguments.call;
  WorkingMemory& working = resources_.working();
  const auto lanes = static_cast<std::size_t>(flat.lane_count());
  const auto slots = static_cast<u64>(flat.scratch_slots());
  const u64 slot_bytes = membership_.on_device->layout.slot_bytes();
  call.scratch_slot_bytes =
      slots == 0 ? 0 : std::min<u64>(slot_bytes, (most_elements * call.element_bytes + 63) / 64 * 64);
  arguments.scratch_channel_bytes = slots * call.scratch_slot_bytes;
  call.scratch = working.scratch(arguments.scratch_channel_bytes * arguments.channels);
  arguments.most_operands = static_cast<u32>(flat.most_operands());
  arguments.most_destinations = static_cast<u32>(flat.most_destinations());
  if (call.protocol != device::Protocol::simple) {
    arguments.bounce_bytes =
        call.protocol == device::Protocol::ll ? device::kLlPayloadBytes : device::kLineMessageBytes;
    arguments.bounce_buffers = arguments.most_operands + 1;
    arguments.bounce = working.bounce(arguments.channels * lanes * arguments.bounce_buffers * arguments.bounce_bytes);
  }
  arguments.lanes = working.lanes(arguments.channels * lanes);
}

// Copies few chunks into the kernel's parameters. Cuts more chunks into each channel's parts, in lent memory.
void KernelArguments::set_chunks(CallArguments& arguments, std::span<const device::Chunk> chunks) {
  arguments.chunk_count = static_cast<u32>(chunks.size());
  if (chunks.size() <= device::gpu::kInlineChunks) {
    std::copy(chunks.begin(), chunks.end(), arguments.chunks);
    return;
  }
  const CallPackages::Loan loan =
      loans_.lend(chunks.size() * arguments.channels * sizeof(device::Chunk), arguments.sequence);
  auto* const table = reinterpret_cast<device::Chunk*>(loan.data);
  for (u32 channel = 0; channel < arguments.channels; ++channel)
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const u64 bytes = chunks[i].elements * arguments.call.element_bytes;
      const u32 parts = arguments.parts_by_chunk ? device::parts_of(arguments.split, bytes) : arguments.channels;
      table[channel * chunks.size() + i] = device::part_of(chunks[i], arguments.call.element_bytes, parts, channel);
    }
  arguments.call.chunks = reinterpret_cast<const device::Chunk*>(loan.address);
}

void KernelArguments::complete(PreparedCall& prepared, const kernels::Instance& instance,
                               std::span<const device::Chunk> chunks) {
  CallArguments& arguments = prepared.call;
  arguments.sequence = prepared.sequence;
  arguments.ticket = sequence_.next_ticket();
  set_chunks(arguments, chunks);
  arguments.staging =
      device::gpu::staging_for(arguments.program, arguments.call.chunks == nullptr ? 0 : arguments.chunk_count);
  prepared.kernel.function = resources_.kernels().function(instance);
  prepared.kernel.blocks = arguments.channels * arguments.blocks_per_channel;
  prepared.kernel.shared_bytes = device::gpu::shared_bytes(arguments);
}

}  // namespace sccl::runtime
