// Exchange of file descriptors among processes of one host, through an abstract Unix socket.
//
//   client                                         server (the first rank)
//   Greeting {nonce}                     ------->
//                                        <-------  Greeting {MAC(secret, nonce, rank, "server"), nonce'}
//   Greeting {MAC(secret, nonce', rank, "client")}, descriptors  ---->
//   more descriptors, each answered      <------>
//                                        <------>  everybody's descriptors, each message answered
//
// Both sides ask the system who is at the other end (SO_PEERCRED): descriptors go to processes of the same user only.
// The socket's name is drawn at random and told by way of the root, so that nobody can take it before.
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
  std::span<const Rank> ranks;          // who takes part, ascending; the first serves
  std::span<const std::size_t> counts;  // how many descriptors each of them gives
  std::span<const int> mine;
  WaitPolicy policy;
};

// `meet` returns when every rank has called it, with what the first of `ranks` gave it; the server listens before, the
// others connect after. Throws SocketFailure and sccl::Error.
std::vector<std::vector<FileDescriptor>> exchange(const DescriptorExchange& exchange,
                                                  const std::function<Bytes(const Bytes&)>& meet);

}  // namespace sccl::runtime
