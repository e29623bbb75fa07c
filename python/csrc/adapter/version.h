// What differs between PyTorch's versions, in one place. Features of options are found by their members, not by
// numbers.
#pragma once

#include <torch/version.h>

#define SCCL_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#if SCCL_TORCH_AT_LEAST(2, 0)
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif

#include <type_traits>

namespace sccl_torch {

#if SCCL_TORCH_AT_LEAST(2, 0)
using BackendBase = c10d::Backend;
#else
using BackendBase = c10d::ProcessGroup;
#endif

template <typename Options>
auto is_async(const Options& options, int) -> decltype(static_cast<bool>(options.asyncOp)) {
  return options.asyncOp;
}
// Versions without the member do not tell; a caller that waits takes its call over from the queue.
template <typename Options>
bool is_async(const Options&, long) {
  return true;
}

template <typename Supplement>
auto factor_tensor(const Supplement& supplement, int) -> decltype(at::Tensor(supplement.tensor_factor)) {
  return supplement.tensor_factor;
}
template <typename Supplement>
at::Tensor factor_tensor(const Supplement& supplement, long) {
  return supplement.tensor_factors.empty() ? at::Tensor() : supplement.tensor_factors.front();
}

// Whether Backend::split has the arguments that ours has.
template <typename Base, typename = void>
struct HasSplit : std::false_type {};
#if SCCL_TORCH_AT_LEAST(2, 0)
template <typename Base>
struct HasSplit<Base,
                std::void_t<decltype(std::declval<Base&>().split(
                    std::declval<const c10::intrusive_ptr<c10d::Store>&>(), std::declval<const std::vector<int>&>(),
                    std::declval<const c10::intrusive_ptr<typename Base::Options>&>()))>> : std::true_type {};
#endif

}  // namespace sccl_torch
