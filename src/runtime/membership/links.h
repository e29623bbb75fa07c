// Finds the links of a communicator. The sources, in this order: links that SCCL_TOPO names; NCCL's XML
// (NCCL_TOPO_FILE), completed by detection; detection on the machine, if ranks use devices. Rank 0 decides for all.
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
  std::vector<int> places;                     // the ranks' devices in the rehearsed machine; empty: no such machine
};

// Collective, with the same question on all ranks except `named`. Rank 0 logs the source of the links in one line at
// INFO. If a source cannot be used, rank 0 logs that in one line at WARN and takes the next source. The ranks for which
// writes_description() is true write the description.
Links agree_on_links(Rank rank, const LinkQuestion& question, Bootstrap& bootstrap, Deadline deadline);

// Whether the settings of this process name links. Only rank 0's answer counts.
bool names_links();
// Whether `rank` writes NCCL_TOPO_DUMP_FILE: it must be the rank that NCCL_TOPO_DUMP_FILE_RANK names.
bool writes_description(Rank rank);

}  // namespace sccl::runtime
