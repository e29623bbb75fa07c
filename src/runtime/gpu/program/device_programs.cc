#include "runtime/gpu/program/device_programs.h"

#include <cstring>
#include <utility>

namespace sccl::runtime {

using device::gpu::kMostStagedBytes;

DevicePrograms::Known& DevicePrograms::known(const Plan& plan) {
  const auto found = programs_.find(&plan);
  if (found != programs_.end()) return found->second;
  Known known;
  plan.program.packed(0, known.block, kMostStagedBytes);
  known.address = resources_.working().keep(known.block.size());
  known.program = plan.program.packed(known.address, known.block, kMostStagedBytes);
  return programs_.emplace(&plan, std::move(known)).first->second;
}

// The program is uploaded before the first kernel that is not captured. A captured kernel may run before that; then it
// reads the program from host memory.
void DevicePrograms::place(PreparedCall& call, const Plan& plan) {
  if (queues_ == HardwareQueues::shared) return lend(call, plan.program);
  Known& known = this->known(plan);
  if (call.sequence == 0) {
    const bool there = known.uploaded_by != 0 && resources_.has_finished(known.uploaded_by);
    if (!there) return lend(call, plan.program);
  } else if (known.uploaded_by == 0) {
    upload(call, known);
  }
  call.call.program = known.program;
}

void DevicePrograms::upload(PreparedCall& call, Known& known) {
  std::byte* const memory = loans_.lend(known.block.size(), call.sequence).data;
  std::memcpy(memory, known.block.data(), known.block.size());
  call.upload = {known.address, memory, known.block.size()};
  known.uploaded_by = call.sequence;
  known.block = {};
}

void DevicePrograms::lend(PreparedCall& call, const kernels::FlatProgram& flat) {
  if (flat.lane_count() == 0) return;
  std::vector<std::byte> block;
  flat.packed(0, block, kMostStagedBytes);
  const CallPackages::Loan loan = loans_.lend(block.size(), call.sequence);
  call.call.program = flat.packed(loan.address, block, kMostStagedBytes);
  std::memcpy(loan.data, block.data(), block.size());
}

}  // namespace sccl::runtime
