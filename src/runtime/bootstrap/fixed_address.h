// The fixed address that NCCL_COMM_ID names: its secret, and how one root follows another there.
//
// Rank 0 opens a root for every communicator at the same port. A root stops listening when all its ranks have come. A
// root that failed ends when the next root is opened. A rank that comes early may still reach the previous root: the
// rank recognizes the root's instance, disconnects and tries again.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/siphash.h"
#include "base/types.h"
#include "runtime/bootstrap/id_format.h"

namespace sccl::runtime {

// Made from the address, which is no secret, and from SCCL_COMM_SECRET or the file SCCL_COMM_SECRET_FILE, if the user
// gives one of them. Throws invalid_usage for a secret that is too short or a file that other users may read.
Secret fixed_secret(const std::string& comm_id);

// Throws system_error when another process keeps the address.
void open_fixed_root(Address& address, const Secret& secret, Deadline deadline);

// Whether `rank` of this process joined this instance of a root last.
bool has_joined(const std::string& address, Rank rank, std::uint64_t instance);
void note_joined(const std::string& address, Rank rank, std::uint64_t instance);

}  // namespace sccl::runtime
