// Meetings at the address that NCCL_COMM_ID names: its secret, and how one root follows another there.
//
// Rank 0 opens a root for every communicator at the same port. A root that has met all its ranks stops listening, and
// one that failed ends when the next is opened. A rank that comes early may still reach the root of before: it knows it
// by its instance, hangs up and tries again.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/siphash.h"
#include "base/types.h"
#include "runtime/bootstrap/id_format.h"

namespace sccl::runtime {

// Of the address, which everybody may know, and of SCCL_COMM_SECRET or the file SCCL_COMM_SECRET_FILE, where one is
// given. Throws invalid_usage for a secret that is too short or a file that others may read.
Secret fixed_secret(const std::string& comm_id);

// Throws system_error when somebody else keeps the address.
void open_fixed_root(Address& address, const Secret& secret, Deadline deadline);

// Whether `rank`, of this process, joined this instance of a root before.
bool has_joined(const std::string& address, Rank rank, std::uint64_t instance);
void note_joined(const std::string& address, Rank rank, std::uint64_t instance);

}  // namespace sccl::runtime
