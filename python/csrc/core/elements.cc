#include "elements.h"

#include <complex>

#include "failure.h"
#include "nccl_shim/nccl.h"

namespace sccl_torch {
namespace {

struct ElementRow {
  const char* name;
  std::size_t bytes;
  int type;   // of the library; -1: none
  int units;  // of that type in an element
};

const ElementRow& row(Element element) {
  static const ElementRow rows[] = {
      {"int8", 1, ncclInt8, 1},
      {"uint8", 1, ncclUint8, 1},
      {"int16", 2, -1, 1},
      {"uint16", 2, -1, 1},
      {"int32", 4, ncclInt32, 1},
      {"uint32", 4, ncclUint32, 1},
      {"int64", 8, ncclInt64, 1},
      {"uint64", 8, ncclUint64, 1},
      {"float16", 2, ncclFloat16, 1},
      {"bfloat16", 2, ncclBfloat16, 1},
      {"float32", 4, ncclFloat32, 1},
      {"float64", 8, ncclFloat64, 1},
      {"float8_e4m3fn", 1, ncclFloat8e4m3, 1},
      {"float8_e5m2", 1, ncclFloat8e5m2, 1},
      {"bool", 1, ncclUint8, 1},
      {"complex32", 4, ncclFloat16, 2},
      {"complex64", 8, ncclFloat32, 2},
      {"complex128", 16, ncclFloat64, 2},
      {"bytes", 1, -1, 1},
  };
  return rows[static_cast<std::size_t>(element)];
}

bool is_complex(Element element) {
  return element == Element::complex32 || element == Element::complex64 || element == Element::complex128;
}
bool is_short(Element element) { return element == Element::int16 || element == Element::uint16; }
bool is_integer(Element element) { return element <= Element::uint64 || element == Element::boolean; }
bool is_bitwise(Operation operation) { return operation >= Operation::band; }

int library_op(Operation operation) {
  static const int ops[] = {ncclSum, ncclAvg, ncclProd, ncclMin, ncclMax};
  return ops[static_cast<std::size_t>(operation)];
}

[[noreturn]] void refuse(Element element, Operation operation) {
  throw Failure(FailureKind::usage, std::string(name_of(operation)) + " is not defined for " + name_of(element) +
                                        ": convert the tensor or use another operation");
}

// Truth values are 0 and 1, so "or" is the maximum and "and" the minimum; a sum of truth values is "or", as NCCL has
// it.
Reduction of_boolean(Operation operation) {
  switch (operation) {
    case Operation::sum:
    case Operation::max:
    case Operation::bor:
      return {Way::native, ncclUint8, ncclMax, 1};
    case Operation::product:
    case Operation::min:
    case Operation::band:
      return {Way::native, ncclUint8, ncclMin, 1};
    case Operation::bxor:
      return {Way::local, 0, 0, 1};
    case Operation::avg:
      break;
  }
  refuse(Element::boolean, operation);
}

Reduction of_complex(Element element, Operation operation) {
  if (operation == Operation::sum || operation == Operation::avg)
    return {Way::native, row(element).type, library_op(operation), 2};
  if (operation == Operation::product && element != Element::complex32) return {Way::local, 0, 0, 1};
  refuse(element, operation);
}

template <typename T>
void multiply(void* into, const void* from, std::size_t count) {
  auto* to = static_cast<std::complex<T>*>(into);
  const auto* other = static_cast<const std::complex<T>*>(from);
  for (std::size_t i = 0; i < count; ++i) to[i] *= other[i];
}

template <typename Function>
void each_byte(void* into, const void* from, std::size_t bytes, Function&& function) {
  auto* to = static_cast<unsigned char*>(into);
  const auto* other = static_cast<const unsigned char*>(from);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<unsigned char>(function(to[i], other[i]));
}

}  // namespace

const char* name_of(Element element) { return row(element).name; }
std::size_t size_of(Element element) { return row(element).bytes; }

const char* name_of(Operation operation) {
  static const char* names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"};
  return names[static_cast<std::size_t>(operation)];
}

Reduction reduction_of(Element element, Operation operation) {
  if (element == Element::boolean) return of_boolean(operation);
  if (is_bitwise(operation)) {
    if (!is_integer(element)) refuse(element, operation);
    return {Way::local, 0, 0, 1};
  }
  if (is_complex(element)) return of_complex(element, operation);
  if (is_short(element)) return {Way::widened, ncclInt32, library_op(operation), 1};
  if (row(element).type < 0) refuse(element, operation);
  return {Way::native, row(element).type, library_op(operation), 1};
}

void reduce_locally(Element element, Operation operation, void* into, const void* from, std::size_t count) {
  const std::size_t bytes = count * size_of(element);
  if (operation == Operation::band)
    each_byte(into, from, bytes, [](unsigned a, unsigned b) { return a & b; });
  else if (operation == Operation::bor)
    each_byte(into, from, bytes, [](unsigned a, unsigned b) { return a | b; });
  else if (operation == Operation::bxor)
    each_byte(into, from, bytes, [](unsigned a, unsigned b) { return a ^ b; });
  else if (element == Element::complex64)
    multiply<float>(into, from, count);
  else
    multiply<double>(into, from, count);
}

void widen(Element element, std::int32_t* into, const void* from, std::size_t count) {
  if (element == Element::int16)
    for (std::size_t i = 0; i < count; ++i) into[i] = static_cast<const std::int16_t*>(from)[i];
  else
    for (std::size_t i = 0; i < count; ++i) into[i] = static_cast<const std::uint16_t*>(from)[i];
}

void narrow(Element, void* into, const std::int32_t* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) static_cast<std::uint16_t*>(into)[i] = static_cast<std::uint16_t>(from[i]);
}

}  // namespace sccl_torch
