// Where a communicator's links come from, in this order: named (SCCL_TOPO); NCCL's XML (NCCL_TOPO_FILE), completed by
// what is found; found on the machine, when ranks use devices. Rank 0 answers for all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "platform/gpu/vendor.h"
#include "runtime/bootstrap/bootstrap.h"
#include "topology/topology.h"

namespace sccl::runtime {

struct LinkQuestion {
  int ranks = 1;
  std::string named;                  // SCCL_TOPO, as rank 0 has it
  std::optional<gpu::Vendor> vendor;  // of the ranks' devices; none: the host platform
  std::vector<std::string> busids;    // of those, by rank; "" where the driver does not tell
  std::vector<int> places;            // by rank, in a machine that is rehearsed; negative where it is not known
  bool describe = false;              // some rank writes the description
  int hosts = 1;                      // on which the ranks run
};

struct Links {
  std::optional<topology::Topology> topology;  // none: every rank to every other, without figures
  std::vector<int> places;  // the ranks' devices in the machine that is rehearsed; empty where none is
};

// All ranks call it in step, with the same question but for `named`. Rank 0 says in one line at INFO where the links
// come from, and names what cannot be used in one line at WARN before it takes the next source. Ranks for which
// writes_description() is true write it.
Links agree_on_links(Rank rank, const LinkQuestion& question, Bootstrap& bootstrap, Deadline deadline);

// Whether this process's settings name links; rank 0's count.
bool names_links();
// NCCL_TOPO_DUMP_FILE, at the rank of NCCL_TOPO_DUMP_FILE_RANK.
bool writes_description(Rank rank);

}  // namespace sccl::runtime
