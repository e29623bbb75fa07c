// One call of one collective with its inputs and its expected outputs, computed in the plainest way.
#pragma once

#include <string>

#include "element.h"
#include "nccl_shim/nccl.h"

namespace api_test {

enum class Kind { allreduce, reduce, reducescatter, allgather, broadcast, alltoall, gather, scatter };

struct KindInfo {
  Kind kind;
  const char* name;
  bool reduces;
  bool rooted;
  bool has_in_place;
};
const std::vector<KindInfo>& kinds();

enum class Op { sum, prod, max, min, avg, premul };
inline constexpr Op kOps[] = {Op::sum, Op::prod, Op::max, Op::min, Op::avg, Op::premul};

struct Case {
  const KindInfo* kind;
  const TypeInfo* type;
  Op op = Op::sum;
  std::size_t count = 0;
  bool in_place = false;
  std::size_t offset = 0;  // elements by which buffers are moved off their alignment
  int root = 0;

  std::string text() const;
};

// The stream on which run_case calls, and what it does before it looks at the results; of a rank's thread.
struct CaseStream {
  cudaStream_t stream = nullptr;
  void (*finish)(cudaStream_t) = nullptr;
};
CaseStream& case_stream();

// Where the buffers of run_case come from; of a rank's thread. None: the C++ library.
struct CaseMemory {
  void* (*allocate)(std::size_t bytes) = nullptr;
  void (*release)(void*) = nullptr;
};
CaseMemory& case_memory();

// Makes the call at this rank and compares every element of the output, and guard elements around it. Returns "" or
// the first difference. Inputs are small integers, so that all results but averages and scaled sums are exact in
// every type.
std::string run_case(const Case& test, int rank, int ranks, ncclComm_t comm);

}  // namespace api_test
