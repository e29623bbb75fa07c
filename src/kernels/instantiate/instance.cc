#include "kernels/instantiate/instance.h"

#include <fmt/format.h>

#include <array>

#include "base/types.h"

namespace sccl::kernels {
namespace {

constexpr std::array<const char*, kReduceKernelCount> kKernelNames{"sum", "prod", "max", "min"};

}  // namespace

std::vector<Instance> all_instances() {
  std::vector<Instance> instances{Instance{}, kOneSided};
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int kernel = 0; kernel < kReduceKernelCount; ++kernel)
      instances.push_back({true, static_cast<DataType>(type), static_cast<ReduceKernel>(kernel), false});
  return instances;
}

std::string name(const Instance& instance) {
  if (instance.one_sided) return "sccl_one_sided";
  if (!instance.reduces) return "sccl_copy";
  return fmt::format("sccl_{}_{}", info(instance.type).name, kKernelNames.at(static_cast<std::size_t>(instance.kernel)));
}

std::string source(std::span<const Instance> instances) {
  std::string text = "#include \"kernels/gpu/call_kernel.h\"\n";
  for (const Instance& instance : instances)
    text += instance.one_sided ? fmt::format("SCCL_GPU_ONE_SIDED_KERNEL({})\n", name(instance))
            : instance.reduces
                ? fmt::format("SCCL_GPU_KERNEL({}, sccl::device::gpu::Reducing<static_cast<sccl::DataType>({}), "
                              "static_cast<sccl::ReduceKernel>({})>)\n",
                              name(instance), static_cast<int>(instance.type), static_cast<int>(instance.kernel))
                : fmt::format("SCCL_GPU_KERNEL({}, sccl::device::gpu::Copying)\n", name(instance));
  return text;
}

}  // namespace sccl::kernels
