#include "runtime/windows/host_reach.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <random>

#include "platform/host/peer_memory.h"

namespace sccl::runtime {
namespace {

struct ProbeMemory {
  std::uint64_t pattern = std::uint64_t{std::random_device{}()} << 32 | std::random_device{}();
  std::uint64_t written = 0;  // by other processes, read by nobody
};

}  // namespace

ReachProbe reach_probe_of_process() {
  static const auto* const memory = new ProbeMemory;  // never destroyed: peers may write while the process ends
  return {reinterpret_cast<std::uint64_t>(memory), memory->pattern};
}

std::string obstacle_to(Rank rank, int process, const ReachProbe& probe) {
  ProbeMemory read;
  if (const int error = host::read_peer(process, &read, probe.address, sizeof read); error != 0)
    return fmt::format("process_vm_readv from rank {}: {}", rank, std::strerror(error));
  if (read.pattern != probe.pattern) return fmt::format("process_vm_readv from rank {} read other memory", rank);
  const std::uint64_t cell = probe.address + offsetof(ProbeMemory, written);
  if (const int error = host::write_peer(process, cell, &probe.pattern, sizeof probe.pattern); error != 0)
    return fmt::format("process_vm_writev to rank {}: {}", rank, std::strerror(error));
  return "";
}

// msync() with MS_ASYNC writes nothing and tells whether all pages are mapped.
bool is_mapped(const void* base, std::size_t bytes) {
  if (bytes == 0) return true;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uint64_t>(base);
  const std::uint64_t begin = address / page * page;
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max() - page;
  if (address > last || bytes > last - address) return false;  // beyond all addresses
  return ::msync(reinterpret_cast<void*>(begin), address - begin + bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

}  // namespace sccl::runtime
