#include "runtime/gpu/kernel/kernel_calls.h"

#include <algorithm>
#include <cstdint>

#include "planners/planners.h"
#include "runtime/program/reduction.h"
#include "runtime/transport/proxy/device_proxy.h"

namespace sccl::runtime {
namespace {

using device::u64;
using device::gpu::CallArguments;

// Parts of at least this size are worth a channel of their own and a block with all threads.
constexpr std::size_t kLeastPartBytes = 32 * 1024;
constexpr std::size_t kLeastFannedPartBytes = 4 * 1024;
constexpr std::size_t kLeastLinePartBytes = 2 * device::kLineMessageBytes;

// A factor in device memory is read when the kernel runs.
void set_scale(CallArguments& arguments, const Reduction& reduction, DataType type, int ranks) {
  Reduction known = reduction;
  known.scalar_pointer = nullptr;
  apply_reduction(known, type, ranks, arguments.call);
  arguments.scale_pointer = static_cast<const u64*>(reduction.scalar_pointer);
}

device::Protocol protocol_for(const Choice& choice, std::size_t longest_bytes) {
  if (choice.form != Form::direct && choice.protocol == ProtocolChoice::ll128) return device::Protocol::ll128;
  const bool ll = choice.protocol == ProtocolChoice::ll && longest_bytes <= device::kLlPayloadBytes;
  return ll ? device::Protocol::ll : device::Protocol::simple;
}

// The least size of a part that is worth a channel, the same at all ranks. Where all ranks take part in an operation, a
// block moves a part once for each of them.
std::size_t least_part_bytes(device::Protocol protocol, const std::string& planner, int ranks) {
  if (protocol == device::Protocol::ll) return SIZE_MAX;
  if (protocol == device::Protocol::ll128) return kLeastLinePartBytes;
  const bool fans =
      planners::belongs(planner, planners::Family::star) || planners::belongs(planner, planners::Family::exchange);
  const std::size_t moves = fans ? static_cast<std::size_t>(ranks) : 1;
  return std::max(kLeastFannedPartBytes, kLeastPartBytes / moves / 1024 * 1024);
}

}  // namespace

KernelCalls::KernelCalls(const Membership& membership, DeviceResources& resources, DeviceLauncher& launcher,
                         const DeviceWatch& watch)
    : membership_(membership),
      sequence_(launcher.sequence()),
      loans_(resources.packages(), sequence_, watch),
      programs_(resources, loans_, launcher.queues()),
      arguments_(membership, resources, loans_, sequence_) {}

void KernelCalls::prepare(PreparedCall& prepared, const CollectiveRequest& request, const Service& service) {
  const bool direct = service.choice.form == Form::direct;
  const bool reduces = info(request.collective).reduces;
  const std::size_t element_bytes = size_bytes(request.type);
  const std::vector<device::Chunk>& chunks = chunks_.place(service.plan, request.count, element_bytes);
  const std::size_t longest = chunks_.longest();

  CallArguments& arguments = prepared.call;
  device::Call& call = arguments.call;
  call.protocol =
      membership_.on_device->proxy ? device::Protocol::simple : protocol_for(service.choice, longest * element_bytes);
  if (direct && service.windows) {
    call.input_shifts = reinterpret_cast<const u64*>(service.windows->input.shifts);
    call.output_shifts = reinterpret_cast<const u64*>(service.windows->output.shifts);
  }
  if (reduces) set_scale(arguments, request.reduction, request.type, membership_.ranks);
  const bool lines = call.protocol == device::Protocol::ll128;
  const std::size_t slot_bytes = lines ? device::kLineMessageBytes : membership_.on_device->layout.slot_bytes();
  // A call in place waits for nothing between slices, so one slice is enough.
  call.slice_elements = direct ? longest : slot_bytes / element_bytes;
  const std::size_t least = least_part_bytes(call.protocol, service.choice.planner, membership_.ranks);
  const bool by_slots = !direct && call.protocol == device::Protocol::simple;
  arguments_.fill(prepared, service.plan.program,
                  {longest * element_bytes, least, false, service.most_blocks,
                   by_slots ? SlotsOfCall::divided : SlotsOfCall::whole});
  prepared.sequence = sequence_.next(prepared.capture);
  programs_.place(prepared, service.plan);
  const bool computes = (reduces && membership_.ranks > 1) || call.scaled;
  arguments_.complete(prepared, computes ? kernels::Instance{true, request.type, call.kernel} : kernels::Instance{},
                      chunks);
}

void KernelCalls::prepare(PreparedCall& prepared, std::span<const PointToPointRequest> batch) {
  transfers_.lower(batch, membership_.rank, membership_.ranks, membership_.on_device->direct);
  CallArguments& arguments = prepared.call;
  KernelArguments::reset(arguments);
  device::Call& call = arguments.call;
  call.type = DataType::int8;
  call.element_bytes = 1;
  call.divisor = 1;
  call.slice_elements = membership_.on_device->layout.slot_bytes();
  arguments_.fill(prepared, transfers_.program(), {transfers_.most_bytes(), kLeastPartBytes, true});
  prepared.sequence = sequence_.next(prepared.capture);
  programs_.lend(prepared, transfers_.program());
  arguments_.complete(prepared, {}, transfers_.chunks());
}

}  // namespace sccl::runtime
