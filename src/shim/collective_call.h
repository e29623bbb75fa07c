// A collective as a program asks for it: checked, converted, submitted.
#pragma once

#include <cstddef>

#include "nccl_shim/nccl.h"
#include "runtime/communicator/group.h"

namespace sccl::shim {

struct Buffers {
  const void* send;
  void* recv;
  std::size_t count;
  ncclDataType_t type;
};

// With a configuration of this call alone. Throws what the C functions return.
runtime::Completion submit_configured(Collective kind, const Buffers& buffers, int op, int root, ncclComm_t comm,
                                      cudaStream_t stream, const ncclCollConfig_t& config);

}  // namespace sccl::shim
