// libsccl, opened by path and for this extension only, so that a program may use NCCL beside it.
#pragma once

#include <string>

#include "nccl_shim/nccl.h"

#define SCCL_TORCH_FUNCTIONS(X) \
  X(GetUniqueId)                \
  X(GetErrorString)             \
  X(GetLastError)               \
  X(CommInitRank)               \
  X(CommDestroy)                \
  X(CommAbort)                  \
  X(CommSplit)                  \
  X(AllReduce)                  \
  X(Reduce)                     \
  X(ReduceScatter)              \
  X(AllGather)                  \
  X(Broadcast)                  \
  X(AlltoAll)                   \
  X(Send)                       \
  X(Recv)                       \
  X(GroupStart)                 \
  X(GroupEnd)                   \
  X(MemAlloc)                   \
  X(MemFree)                    \
  X(ParamBind)                  \
  X(ParamGetI64)                \
  X(ParamGetStr)

namespace sccl_torch {

struct Library {
#define SCCL_TORCH_MEMBER(name) decltype(&::nccl##name) name = nullptr;
  SCCL_TORCH_FUNCTIONS(SCCL_TORCH_MEMBER)
#undef SCCL_TORCH_MEMBER
};

// The path that library() opens. No effect once it is open.
void set_library_path(const std::string& path);

// Opens the library at the first call. Throws Failure with the remedy when it is not there or is not libsccl.
const Library& library();

}  // namespace sccl_torch
