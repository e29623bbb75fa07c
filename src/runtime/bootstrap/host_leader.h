// In a communicator of many ranks, the ranks of a host meet at one of them, the host's leader, and only the leader
// goes to the root. The leader is the first rank that takes the name of an abstract Unix socket. The name is made of
// the secret of the unique id and of the host, so nobody else can take it before, and the ranks need not be told it.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.h"
#include "base/siphash.h"
#include "runtime/bootstrap/sockets/address.h"

namespace sccl::runtime {

Address leader_address(const Secret& secret, std::uint64_t host);

// The process that listens there; 0 if that cannot be known.
pid_t process_that_leads(const Address& address);

// A listener there; invalid if another rank leads. Throws system_error.
FileDescriptor listen_as_leader(const Address& address);

}  // namespace sccl::runtime
