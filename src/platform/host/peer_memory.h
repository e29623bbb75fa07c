// Reads and writes another process's memory in one copy, where the system permits it (process_vm_readv).
#pragma once

#include <cstddef>
#include <cstdint>

namespace sccl::host {

// Copies `bytes` whole. Returns 0, or errno of the call that failed (EPERM: forbidden by ptrace rules or a seccomp
// filter; ESRCH: no such process; EFAULT: the peer has no such memory).
int read_peer(int process, void* to, std::uint64_t peer_address, std::size_t bytes);
int write_peer(int process, std::uint64_t peer_address, const void* from, std::size_t bytes);

}  // namespace sccl::host
