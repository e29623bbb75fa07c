#include "platform/host/peer_memory.h"

#include <sys/uio.h>

#include <cerrno>

namespace sccl::host {
namespace {

using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

int transfer_whole(Transfer transfer, int process, std::byte* here, std::uint64_t there, std::size_t bytes) {
  while (bytes > 0) {
    const iovec local{here, bytes};
    const iovec remote{reinterpret_cast<void*>(there), bytes};
    const ssize_t moved = transfer(process, &local, 1, &remote, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved < 0 ? errno : EFAULT;
    here += moved;
    there += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return 0;
}

}  // namespace

int read_peer(int process, void* to, std::uint64_t peer_address, std::size_t bytes) {
  return transfer_whole(::process_vm_readv, process, static_cast<std::byte*>(to), peer_address, bytes);
}

int write_peer(int process, std::uint64_t peer_address, const void* from, std::size_t bytes) {
  return transfer_whole(::process_vm_writev, process, static_cast<std::byte*>(const_cast<void*>(from)), peer_address,
                        bytes);
}

}  // namespace sccl::host
