// Exchange of file descriptors among the ranks of one host, through abstract Unix sockets.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/types.h"
#include "runtime/bootstrap/siphash.h"
#include "runtime/bootstrap/socket.h"

namespace sccl::runtime {

struct DescriptorExchange {
  Secret secret;  // of the unique id; names the socket and authenticates connections
  Rank rank = 0;
  std::span<const Rank> ranks;  // who takes part, ascending; the first serves
  std::span<const int> mine;
  WaitPolicy policy;
};

// `barrier` returns when every rank has called it; the server listens before, the others connect after. Throws
// SocketFailure and sccl::Error.
std::vector<std::vector<FileDescriptor>> exchange(const DescriptorExchange& exchange,
                                                  const std::function<void()>& barrier);

}  // namespace sccl::runtime
