#include "runtime/gpu/kernel/collective_records.h"

#include "base/settings/log.h"

namespace sccl::runtime {

void CollectiveRecords::enter(const CollectiveRequest& request, const std::optional<SymmetricWindows::Pair>& used,
                              std::uint32_t options) {
  CallSignature signature{++calls_,     request.collective,   request.count,
                          request.type, request.reduction.op, request.root};
  if (!info(request.collective).reduces) signature.op = ReduceOp::sum;
  if (!info(request.collective).rooted) signature.root = 0;
  if (used) {
    signature.input_window = static_cast<std::uint16_t>(used->input.number);
    signature.output_window = static_cast<std::uint16_t>(used->output.number);
  }
  signature.options = options;
  membership_.control.calls().enter(signature);
}

void CollectiveRecords::describe(device::Call& call, const CollectiveRequest& request) const {
  call.input = static_cast<const device::u8*>(request.send);
  call.output = static_cast<device::u8*>(request.recv);
  call.type = request.type;
  call.element_bytes = static_cast<device::u32>(size_bytes(request.type));
  call.divisor = 1;
  CallSignature signature;
  membership_.control.calls().read(membership_.rank, calls_, signature);
  call.signature = signature.hash();
}

bool CollectiveRecords::logs_choices() { return log::enabled(log::Level::info, log::Subsystem::tuning); }

void CollectiveRecords::log_choice(const Choice& choice, const std::string& how) const {
  CallSignature signature;
  if (!membership_.control.calls().read(membership_.rank, calls_, signature)) return;
  log::info(log::Subsystem::tuning, "rank {}/{}: call {} {}: {}, {}", membership_.rank, membership_.ranks, calls_,
            signature.text(), text(choice), how);
}

}  // namespace sccl::runtime
