// Types of elements and reductions as PyTorch has them, and how the library's twelve types and four operations serve
// each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sccl_torch {

enum class Element : std::uint8_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  float8_e4m3fn,
  float8_e5m2,
  boolean,
  complex32,
  complex64,
  complex128,
  bytes,  // can be moved but not reduced
};

enum class Operation : std::uint8_t { sum, avg, product, min, max, band, bor, bxor };

const char* name_of(Element element);
const char* name_of(Operation operation);
std::size_t size_of(Element element);

// native:  the library reduces `units` values of its type `type` for each element
// widened: as native, but the elements are converted to 32 bits and back; exact, since the wanted bits are the low ones
// local:   ranks exchange parts and reduce them with reduce_locally()
enum class Way : std::uint8_t { native, widened, local };

struct Reduction {
  Way way = Way::native;
  int type = 0;  // ncclDataType_t
  int op = 0;    // ncclRedOp_t
  int units = 1;
};

// Throws Failure where the operation has no meaning for the type.
Reduction reduction_of(Element element, Operation operation);

// into[i] = into[i] op from[i]; for what reduction_of() calls local.
void reduce_locally(Element element, Operation operation, void* into, const void* from, std::size_t count);

void widen(Element element, std::int32_t* into, const void* from, std::size_t count);
void narrow(Element element, void* into, const std::int32_t* from, std::size_t count);

}  // namespace sccl_torch
