// Tensors as the core sees them: dense memory on the host, an element type, sizes.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "../core/collectives.h"
#include "../core/elements.h"
#include "../core/group.h"

namespace sccl_torch {

inline Element element_of(at::ScalarType type) {
  const std::string name = c10::toString(type);  // names, since new types appear with PyTorch's versions
  static const std::pair<const char*, Element> known[] = {
      {"Float", Element::float32},
      {"Double", Element::float64},
      {"Long", Element::int64},
      {"Int", Element::int32},
      {"Half", Element::float16},
      {"BFloat16", Element::bfloat16},
      {"Byte", Element::uint8},
      {"Char", Element::int8},
      {"Bool", Element::boolean},
      {"Short", Element::int16},
      {"UInt16", Element::uint16},
      {"UInt32", Element::uint32},
      {"UInt64", Element::uint64},
      {"ComplexFloat", Element::complex64},
      {"ComplexDouble", Element::complex128},
      {"ComplexHalf", Element::complex32},
      {"Float8_e4m3fn", Element::float8_e4m3fn},
      {"Float8_e5m2", Element::float8_e5m2},
  };
  for (const auto& [text, element] : known)
    if (name == text) return element;
  return Element::bytes;
}

// The type of most calls is found without a search.
inline Element quick_element_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat ? Element::float32 : element_of(tensor.scalar_type());
}

inline std::size_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
}

// Dense memory with the tensor's values, in their order; the tensor itself where that is so already.
inline at::Tensor dense(const at::Tensor& tensor) { return tensor.is_contiguous() ? tensor : tensor.contiguous(); }
inline at::Tensor dense_place(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : at::empty(tensor.sizes(), tensor.options());
}

inline void put_back(const at::Tensor& tensor, const at::Tensor& place) {
  if (!tensor.is_same(place)) const_cast<at::Tensor&>(tensor).copy_(place);
}

// Whether the tensors lie one behind the other, so that they are one buffer.
inline bool adjacent(const std::vector<at::Tensor>& tensors) {
  const char* next = nullptr;
  for (const at::Tensor& tensor : tensors) {
    const char* data = static_cast<const char*>(tensor.data_ptr());
    if (!tensor.is_contiguous() || (next != nullptr && data != next)) return false;
    next = data + bytes_of(tensor);
  }
  return true;
}

inline bool same_sizes(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.numel() != tensors.front().numel()) return false;
  return true;
}

// All values of the tensors, one after the other.
inline at::Tensor joined(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
  return at::cat(flat);
}

// The other way: `flat` holds the new values of all tensors.
inline void put_parts_back(const std::vector<at::Tensor>& tensors, const at::Tensor& flat) {
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    const_cast<at::Tensor&>(tensor).copy_(flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

inline Part part_of(const at::Tensor& tensor) { return {tensor.data_ptr(), bytes_of(tensor)}; }

// Of a call on `tensor`, whose sizes must live as long.
inline Call call_of(const char* name, const at::Tensor& tensor, std::chrono::milliseconds timeout) {
  return {name, quick_element_of(tensor), tensor.sizes().data(), tensor.sizes().size(), timeout};
}

}  // namespace sccl_torch
