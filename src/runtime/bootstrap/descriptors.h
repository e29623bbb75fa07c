// Exchange of file descriptors among processes of one host, through an abstract Unix socket.
//
//   client                                         server (the first rank)
//   Greeting {nonce}                     ------->
//                                        <-------  Greeting {MAC(secret, nonce, rank, "server"), nonce'}
//   Greeting {MAC(secret, nonce', rank, "client")}, descriptors  ---->
//   more descriptors, each answered      <------>
//                                        <------>  everybody's descriptors, each message answered
//
// Both sides ask the system for the user at the other end (SO_PEERCRED): descriptors go only to processes of the same
// user. The socket's name is random and sent through the root, so no other process can take the name before.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/siphash.h"
#include "base/types.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/sockets/socket.h"

namespace sccl::runtime {

struct DescriptorExchange {
  Secret secret;  // of the unique id; authenticates connections
  Rank rank = 0;
  std::span<const Rank> ranks;          // the participants, ascending; the first is the server
  std::span<const std::size_t> counts;  // the number of descriptors that each participant gives
  std::span<const int> mine;
  WaitPolicy policy;
};

// `meet` is an all-gather: it returns the argument of the first of `ranks` after every rank has called it. The server
// listens before the call, the clients connect after the call. Throws SocketFailure and sccl::Error.
std::vector<std::vector<FileDescriptor>> exchange(const DescriptorExchange& exchange,
                                                  const std::function<Bytes(const Bytes&)>& meet);

}  // namespace sccl::runtime
