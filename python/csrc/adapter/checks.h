// What callers may get wrong, told before anything is sent. The first words of each text are those that PyTorch's own
// backends use, since programs look for them; what follows says what was found.
#pragma once

#include <string>
#include <vector>

#include "tensors.h"

namespace sccl_torch {

[[noreturn]] inline void refuse(const char* call, const std::string& what) {
  throw Failure(FailureKind::usage, std::string(call) + ": " + what);
}

inline void require_host(const at::Tensor& tensor, const char* call) {
  if (!tensor.defined()) refuse(call, "undefined tensor: pass one");
  if (tensor.device().type() != at::kCPU)
    refuse(call, "unsupported device type: the tensor is on " + tensor.device().str() +
                     ", but this group serves the cpu: move the tensor, or make the group with "
                     "init_process_group(\"cpu:sccl,cuda:nccl\") and preload libsccl");
}

inline void require_dense(const at::Tensor& tensor, const char* call) {
  require_host(tensor, call);
  if (tensor.layout() != at::kStrided)
    refuse(call, "unsupported layout: the tensor is sparse, which only all_reduce takes");
}

inline void require_dense(const std::vector<at::Tensor>& tensors, const char* call) {
  for (const at::Tensor& tensor : tensors) require_dense(tensor, call);
}

// `where`, as " at index 2", follows the first words.
inline void require_type(const at::Tensor& tensor, const at::Tensor& model, const char* call,
                         const std::string& where = "") {
  if (tensor.scalar_type() != model.scalar_type())
    refuse(call, "invalid tensor type" + where + ": tensors of " + c10::toString(model.scalar_type()) + " and " +
                     c10::toString(tensor.scalar_type()) + ", make their types equal");
}

inline void require_size(const at::Tensor& tensor, const at::Tensor& model, const char* call) {
  if (tensor.numel() != model.numel())
    refuse(call, "invalid tensor size: one of " + std::to_string(tensor.numel()) + " elements beside one of " +
                     std::to_string(model.numel()) + ", make their sizes equal");
}

// Tensors of one rank that take part as if they were of several ranks.
inline void require_alike(const std::vector<at::Tensor>& tensors, const char* call) {
  if (tensors.empty()) refuse(call, "requires non-empty tensor list");
  for (const at::Tensor& tensor : tensors) {
    require_host(tensor, call);
    if (tensor.layout() != tensors.front().layout())
      refuse(call, "invalid tensor layout: sparse and dense tensors in one list, make them alike");
    require_type(tensor, tensors.front(), call);
    if (tensor.sizes() != tensors.front().sizes())
      refuse(call, "invalid tensor size: the tensors of one rank have different shapes, make them alike");
  }
}

inline void require_root(std::int64_t root, int ranks, const char* call) {
  if (root < 0 || root >= ranks)
    refuse(call, "invalid root rank: " + std::to_string(root) + ", ranks are 0 to " + std::to_string(ranks - 1));
}

inline void require_root_tensor(std::int64_t index, const std::vector<at::Tensor>& tensors, const char* call) {
  if (index < 0 || index >= static_cast<std::int64_t>(tensors.size()))
    refuse(call, "invalid root tensor: " + std::to_string(index) + " of " + std::to_string(tensors.size()));
}

// `what` is "a single-element output list" or the like.
template <typename List>
void require_single(const List& list, const char* call, const char* what) {
  if (list.size() != 1) refuse(call, std::string("requires ") + what + ", not " + std::to_string(list.size()));
}

// A list of one tensor for each rank; `which` is "input" or "output".
inline void require_list(const std::vector<at::Tensor>& list, int ranks, const char* call, const char* which) {
  std::string upper = which;
  upper.front() = static_cast<char>(upper.front() - 'a' + 'A');
  if (list.size() != static_cast<std::size_t>(ranks))
    refuse(call, std::string("Incorrect ") + which + " list size " + std::to_string(list.size()) + ". " + upper +
                     " list size should be " + std::to_string(ranks) + ", one tensor for each rank");
  require_dense(list, call);
}

}  // namespace sccl_torch
