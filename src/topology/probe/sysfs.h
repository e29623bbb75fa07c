// CPUs, PCI devices and NICs as the kernel shows them under /sys and /proc.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "topology/probe/pci_place.h"

namespace sccl::topology::probe {

class Sysfs {
 public:
  // `root` holds sys and proc; tests put trees of their own there.
  explicit Sysfs(std::filesystem::path root) : root_(std::move(root)) {}

  // Nothing for a device that the kernel does not show.
  std::optional<Chain> chain(const std::string& busid) const;
  // RDMA devices, and network interfaces on PCI devices that are no RDMA devices.
  std::vector<Nic> nics() const;
  Element cpu(int numa_node) const;

 private:
  Element pci(const std::string& busid) const;
  std::string read(const std::filesystem::path& path) const;  // the first line; empty when the file is missing
  std::string busid_behind(const std::filesystem::path& link) const;

  std::filesystem::path root_;
};

}  // namespace sccl::topology::probe
