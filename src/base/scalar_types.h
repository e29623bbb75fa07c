// Element types, reductions and collectives: the vocabulary shared by host and device code.
// Device code includes this file, so it includes nothing.
#pragma once

namespace sccl {

// Values equal those of ncclDataType_t.
enum class DataType : unsigned char {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8e4m3 = 10,
  float8e5m2 = 11,
};
inline constexpr int kDataTypeCount = 12;

// What a reduction computes from two partial results. Averages and pre-multiplied sums are `sum` with operands that are
// scaled when they are first read (`Operand::scale_bits`); integer averages are `sum` with a division at the end.
enum class ReduceKernel : unsigned char { sum = 0, prod = 1, max = 2, min = 3 };
inline constexpr int kReduceKernelCount = 4;

}  // namespace sccl
