#include "kernels/instantiate/instance.h"

#include <fmt/format.h>

#include <array>

#include "base/types.h"

namespace sccl::kernels {
namespace {

constexpr std::array<const char*, kReduceKernelCount> kKernelNames{"sum", "prod", "max", "min"};

}  // namespace

std::vector<Instance> all_instances() {
  std::vector<Instance> instances{kOneSided, kSignal, kAnyCall, kAnyMove};
  for (const KernelForm form : {KernelForm::call, KernelForm::move}) {
    instances.push_back({false, DataType::int8, ReduceKernel::sum, form});
    for (int type = 0; type < kDataTypeCount; ++type)
      for (int kernel = 0; kernel < kReduceKernelCount; ++kernel)
        instances.push_back({true, static_cast<DataType>(type), static_cast<ReduceKernel>(kernel), form});
  }
  return instances;
}

std::string name(const Instance& instance) {
  if (instance.form == KernelForm::one_sided) return "sccl_one_sided";
  if (instance.form == KernelForm::signal) return "sccl_signal";
  if (instance.form == KernelForm::any_call) return "sccl_any";
  if (instance.form == KernelForm::any_move) return "sccl_move_any";
  const char* const form = instance.form == KernelForm::move ? "move_" : "";
  if (!instance.reduces) return fmt::format("sccl_{}copy", form);
  return fmt::format("sccl_{}{}_{}", form, info(instance.type).name,
                     kKernelNames.at(static_cast<std::size_t>(instance.kernel)));
}

std::string source(std::span<const Instance> instances) {
  std::string text = "#include \"kernels/gpu/call_kernel.h\"\n";
  for (const Instance& instance : instances) {
    if (instance.form == KernelForm::one_sided || instance.form == KernelForm::signal) {
      text += fmt::format("SCCL_GPU_{}_KERNEL({})\n", instance.form == KernelForm::signal ? "SIGNAL" : "ONE_SIDED",
                          name(instance));
      continue;
    }
    const bool any = instance.form == KernelForm::any_call || instance.form == KernelForm::any_move;
    const bool moves = instance.form == KernelForm::move || instance.form == KernelForm::any_move;
    const std::string mover =
        any ? "ReducingAny"
        : instance.reduces
            ? fmt::format("Reducing<static_cast<sccl::DataType>({}), static_cast<sccl::ReduceKernel>({})>",
                          static_cast<int>(instance.type), static_cast<int>(instance.kernel))
            : "Copying";
    text += fmt::format("{}({}, sccl::device::gpu::{})\n", moves ? "SCCL_GPU_MOVE_KERNEL" : "SCCL_GPU_KERNEL",
                        name(instance), mover);
  }
  return text;
}

}  // namespace sccl::kernels
