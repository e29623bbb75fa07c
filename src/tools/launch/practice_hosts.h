// Hosts for practice: network namespaces of this machine, each with an interface on a common switch, a host name and
// System V objects of its own. They have no names in the file system and go with this process. Needs root.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "tools/launch/slow_link.h"

namespace sccl::tools {

class PracticeHosts {
 public:
  // Throws std::runtime_error with the reason and the remedy.
  PracticeHosts(int hosts, const LinkShape& shape);

  int count() const { return static_cast<int>(spaces_.size()); }
  // For a child of this process, which is single-threaded: it is on that host from now on, and SCCL_NIC_MBITS says the
  // rate of the links, as a NIC's driver does. Throws std::runtime_error.
  void enter(int host) const;

 private:
  void join_by_switch(const LinkShape& shape);
  void join_by_slow_link(const LinkShape& shape);

  int mbits_per_s_;  // 0: unbounded
  std::vector<FileDescriptor> spaces_;
  FileDescriptor switch_;
  std::vector<SlowLink> link_;  // at most one
};

}  // namespace sccl::tools
