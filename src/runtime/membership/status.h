// A running process tells `sccl status` about its communicators: the call of each rank, and the peers for which the
// rank waits. Only with SCCL_STATUS=1.
#pragma once

#include <cstddef>
#include <string>

namespace sccl::runtime {

// The name of a process's abstract Unix socket, without the NUL in front. A client of the same user, or root, receives
// one JSON text when it connects.
inline std::string status_socket_name(long process) { return "sccl-status-" + std::to_string(process); }

// Starts the serving thread, once per process, if SCCL_STATUS asks for it.
void serve_status();

// The JSON text.
std::string status_text();

}  // namespace sccl::runtime
