#include "platform/host/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "base/settings/log.h"

namespace sccl::host {

int node_of_pci_device(const std::string& pci_id) {
  int node = -1;
  if (pci_id.empty()) return node;
  std::ifstream("/sys/bus/pci/devices/" + pci_id + "/numa_node") >> node;
  return node;
}

void prefer_node(std::byte* data, std::size_t bytes, int node) {
  constexpr int kBits = 64;
  std::array<unsigned long, 16> mask{};
  if (node < 0 || node >= kBits * static_cast<int>(mask.size())) return;
  mask[static_cast<std::size_t>(node / kBits)] = 1ul << (node % kBits);
  if (::syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, mask.data(), mask.size() * kBits, 0) != 0)
    log::trace(log::Subsystem::alloc, "shared memory is not bound to NUMA node {}", node);
}

}  // namespace sccl::host
