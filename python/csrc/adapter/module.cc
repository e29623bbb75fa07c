// The Python module: makes the backend; everything else PyTorch calls on it directly.
#include <torch/csrc/utils/pybind.h>

#include "../core/library.h"
#include "process_group.h"

namespace {

c10::intrusive_ptr<sccl_torch::BackendBase> create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                   double timeout_seconds, const std::string& name) {
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000));
  return c10::make_intrusive<sccl_torch::ProcessGroupSccl>(store, rank, size, timeout, name);
}

}  // namespace

PYBIND11_MODULE(SCCL_TORCH_MODULE, module) {
  module.def("create", &create, pybind11::call_guard<pybind11::gil_scoped_release>());
  module.def("set_library_path", &sccl_torch::set_library_path);
  module.def("open_library", [] { (void)sccl_torch::library(); });
  module.def("empty_mapped", &sccl_torch::empty_mapped);
}
