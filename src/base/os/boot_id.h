// Tells the boots of machines, and hosts, apart.
#pragma once

#include <optional>
#include <string>

namespace sccl {

// The kernel's number of this boot: the same in all containers of a machine, whose monotonic clocks are one. Empty
// where it cannot be read; errno says why then.
std::string boot_id();

// The host's id that the user gives (NCCL_HOSTID). It counts more than all else: hosts with ids may share a network
// namespace.
std::optional<std::string> given_host_id();

}  // namespace sccl
