// What a running process tells `sccl status` about its communicators: who is in which call, who waits for whom. Opened
// only with SCCL_STATUS=1.
#pragma once

#include <cstddef>
#include <string>

namespace sccl::runtime {

// The abstract Unix socket of a process, without the NUL in front. Whoever connects as the same user, or as root, is
// sent one JSON text.
inline std::string status_socket_name(long process) { return "sccl-status-" + std::to_string(process); }

// Starts the thread that serves, once a process, if SCCL_STATUS asks for it.
void serve_status();

// The JSON text.
std::string status_text();

}  // namespace sccl::runtime
